//! Learning that a kernel thread ends.
//!
//! A `pthread_key_create` destructor rather than a `thread_local!` with `Drop`: it runs after all
//! C++ and Rust destructors, which may still use what it takes away, and it runs in the context of
//! the thread that ends, even where that context is on another kernel thread just now.

use crate::base::granted::{Granted, granted};
use std::ffi::c_void;
use std::sync::OnceLock;

/// The rooms that have to do with the ends of threads, in the order in which they are told.
#[derive(Clone, Copy)]
pub(crate) enum Room {
    /// A server or a worker ends as one.
    Umcg,
    /// A virtual processor ends as one.
    Uth,
}

/// What each room has called, once it has asked for it.
static ENDED: [OnceLock<fn()>; 2] = [const { OnceLock::new() }; 2];
static KEY: Granted<libc::pthread_key_t> = Granted::new();

/// Has `ended` called when the calling thread ends, or the thread worker whose context this is; a
/// room names the same function each time. False when the system has no key left.
pub(crate) fn watch(room: Room, ended: fn()) -> bool {
    ENDED[room as usize].get_or_init(|| ended);
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
    ENDED
        .iter()
        .filter_map(OnceLock::get)
        .for_each(|ended| ended());
}
