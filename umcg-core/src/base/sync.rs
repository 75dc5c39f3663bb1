//! The synchronisation that the protocols use. The models replace it by the checker's
//! (`tests/model/sync.rs`).

use super::call::call;
use rustix::io::Errno;
use rustix::thread::Timespec;
use rustix::thread::futex::{self, Flags};
use rustix::time::{ClockId, clock_gettime};
use std::num::NonZeroU32;
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
pub(crate) use umcg_context::lock::{Guard, HoldLock, Lock};

/// Sleeps while `word` holds `expected`, until `deadline` (nanoseconds of CLOCK_REALTIME;
/// `u64::MAX` for none).
///
/// It uses raw system calls: no errno, so no thread-local storage. The wait is always timed. The
/// kernel restarts an untimed wait after a signal handler with SA_RESTART, but a server's wait has
/// to end then. Where it need not, [`futex_sleep`] is cheaper: the kernel starts no timer.
pub(crate) fn futex_wait(word: &AtomicU32, expected: u32, deadline: u64) -> Result<(), Errno> {
    wait(
        word,
        expected,
        deadline,
        Flags::PRIVATE | Flags::CLOCK_REALTIME,
    )
}

/// Likewise, until `deadline` on the clock of [`monotonic`].
pub(crate) fn futex_wait_until(
    word: &AtomicU32,
    expected: u32,
    deadline: u64,
) -> Result<(), Errno> {
    wait(word, expected, deadline, Flags::PRIVATE)
}

/// Sleeps while `word` holds `expected`. It may return early; the caller looks at the word again.
pub(crate) fn futex_sleep(word: &AtomicU32, expected: u32) {
    let _ = futex::wait_bitset(word, Flags::PRIVATE, expected, None, NonZeroU32::MAX);
}

fn wait(word: &AtomicU32, expected: u32, deadline: u64, flags: Flags) -> Result<(), Errno> {
    const FOR_EVER: i64 = i64::MAX / 1_000_000_000;
    let until = match deadline {
        u64::MAX => Timespec {
            tv_sec: FOR_EVER,
            tv_nsec: 0,
        },
        _ => Timespec {
            tv_sec: (deadline / 1_000_000_000) as i64,
            tv_nsec: (deadline % 1_000_000_000) as _,
        },
    };
    futex::wait_bitset(word, flags, expected, Some(&until), NonZeroU32::MAX)
}

/// Wakes up to `count` sleepers on `word`.
pub(crate) fn futex_wake(word: &AtomicU32, count: u32) {
    let _ = futex::wake(word, Flags::PRIVATE, count);
}

/// Wakes the sleeper on a word that may be freed already. In that case it wakes no thread, or one
/// that checks its condition again.
pub(crate) fn futex_wake_at(word: *const AtomicU32) {
    const WAKE: libc::c_int = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    let arguments = [word.expose_provenance(), WAKE as usize, 1, 0, 0, 0];
    // By the library's own instruction, as the wait: the C library's calls may be intercepted.
    // SAFETY: the kernel does not touch the word; only its address counts.
    unsafe { call(libc::SYS_futex, arguments) };
}

/// Nanoseconds of CLOCK_MONOTONIC, a clock that cannot be set.
pub(crate) fn monotonic() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000) + now.tv_nsec as u64
}
