//! The synchronisation that the protocols stand on. Their models put the checker's in its place (`tests/model/sync.rs`).

use rustix::io::Errno;
use rustix::thread::Timespec;
use rustix::thread::futex::{self, Flags};
use std::num::NonZeroU32;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize};
pub(crate) use umcg_context::lock::{Guard, Lock};

/// Sleeps while `word` holds `expected`, until `deadline` (nanoseconds of CLOCK_REALTIME; `u64::MAX` for none).
///
/// Raw system calls: no errno, so no thread-local storage. The wait is always timed, because the kernel restarts an untimed
/// one after a signal handler with SA_RESTART, and a server's wait has to end then.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, deadline: u64) -> Result<(), Errno> {
    const FOR_EVER: i64 = i64::MAX / 1_000_000_000;
    let until = match deadline {
        u64::MAX => Timespec { tv_sec: FOR_EVER, tv_nsec: 0 },
        _ => Timespec { tv_sec: (deadline / 1_000_000_000) as i64, tv_nsec: (deadline % 1_000_000_000) as _ },
    };
    let flags = Flags::PRIVATE | Flags::CLOCK_REALTIME;
    futex::wait_bitset(word, flags, expected, Some(&until), NonZeroU32::MAX)
}

/// Wakes up to `count` sleepers on `word`.
pub(crate) fn futex_wake(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, Flags::PRIVATE, count);
}
