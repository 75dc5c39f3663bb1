//! Learning that a kernel thread ends.
//!
//! This uses a `pthread_key_create` destructor rather than a `thread_local!` with `Drop`. It runs
//! after all C++ and Rust destructors, which may still use the things it removes. And it runs in
//! the context of the ending thread, even where that context is on another kernel thread just now.

use crate::base::granted::{Granted, granted};
use std::ffi::c_void;
use std::sync::OnceLock;

/// The rooms that are told of the ends of threads, in this order.
#[derive(Clone, Copy)]
pub(crate) enum Room {
    /// A server or a worker ends as one.
    Umcg,
    /// A virtual processor ends as one.
    Uth,
}

/// The function that each room wants called, once it has asked for it.
static ENDED: [OnceLock<fn()>; 2] = [const { OnceLock::new() }; 2];
static KEY: Granted<libc::pthread_key_t> = Granted::new();

/// Makes `ended` run when the calling thread ends, or the thread worker whose context this is. A
/// room passes the same function each time. Returns false when the system has no key left.
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
