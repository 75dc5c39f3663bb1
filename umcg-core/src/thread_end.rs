//! Learning that a kernel thread ends.
//!
//! A `pthread_key_create` destructor rather than a `thread_local!` with `Drop`: it runs after all
//! C++ and Rust destructors, which may still use what it takes away, and it runs in the context of
//! the thread that ends, even where that context is on another kernel thread just now.

use crate::{Granted, granted};
use std::ffi::c_void;

static KEY: Granted<libc::pthread_key_t> = Granted::new();

/// Has `crate::thread_ended` called when the calling thread ends. False when the system has no key
/// left.
pub(crate) fn watch() -> bool {
    let Ok(&key) = KEY.get_or_ask(create_key) else {
        return false;
    };
    // SAFETY: the key was created; any value but null has the destructor called.
    unsafe { libc::pthread_setspecific(key, std::ptr::dangling::<c_void>()) == 0 }
}

fn create_key() -> Result<libc::pthread_key_t, i32> {
    let mut key = 0;
    // SAFETY: `key` is written by the call; the destructor does not unwind.
    granted(unsafe { libc::pthread_key_create(&mut key, Some(on_end)) })?;
    Ok(key)
}

unsafe extern "C" fn on_end(_value: *mut c_void) {
    crate::thread_ended();
}
