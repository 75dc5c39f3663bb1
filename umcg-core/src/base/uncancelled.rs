//! Sections in which the C library must not end the calling thread.

use std::ffi::c_int;
use std::marker::PhantomData;
use std::ptr::null_mut;

const DISABLE: c_int = 1;

unsafe extern "C" {
    // Not in the libc crate for every target.
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// As long as this lives, `pthread_cancel` does not end the calling thread: the cancellation stays
/// pending.
///
/// Use it around functions of the C library that are cancellation points (`open`, `close`,
/// `write`), if the library calls them with a lock or in the middle of a protocol. Its owner stays
/// in its flow, and does not switch meanwhile.
pub struct Uncancelled {
    before: c_int,
    // The flag is the thread's.
    _not_send: PhantomData<*mut ()>,
}

impl Uncancelled {
    /// Begins the section.
    pub fn begin() -> Uncancelled {
        let mut before = 0;
        // SAFETY: the earlier state is written there.
        unsafe { pthread_setcancelstate(DISABLE, &raw mut before) };
        Uncancelled {
            before,
            _not_send: PhantomData,
        }
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: a state that was set before; the current one is not asked for.
        unsafe { pthread_setcancelstate(self.before, null_mut()) };
    }
}
