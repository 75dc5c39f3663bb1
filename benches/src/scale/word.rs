//! Words that threads share and sleep on.

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// On cache lines of its own.
#[repr(align(128))]
pub(super) struct Word(pub(super) AtomicU32);

impl Word {
    pub(super) fn new(value: u32) -> Word {
        Word(AtomicU32::new(value))
    }
}

/// Sleeps while the word has this value, for no longer than that.
pub(super) fn wait(word: &AtomicU32, value: u32, time: Option<Duration>) {
    let time = time.map(|time| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: time.subsec_nanos() as _,
    });
    let limit = time.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word and the time are there for the whole call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            limit,
        )
    };
}

/// Wakes a thread that sleeps on it.
pub(super) fn wake(word: &AtomicU32) {
    // SAFETY: the word is there for the whole call.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            1,
        )
    };
}
