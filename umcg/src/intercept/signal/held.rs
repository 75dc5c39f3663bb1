//! Signals that servers cannot block, that were sent to the process, and that no thread of the
//! program's lets through just now. Natively they would wait for the process. The kernel would give
//! them to the next server, so they wait here, and the courier sends them again after a pause:
//! until a thread of the program's gets them, or a server that knows one.
//!
//! As in the kernel, one of each number waits.

use crate::rt::time as clock;
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering::*};
use umcg_core::raw;

/// In nanoseconds.
const PAUSE: u64 = 5_000_000;
const SIGNALS: usize = 32;

/// By number.
struct Records([UnsafeCell<MaybeUninit<libc::siginfo_t>>; SIGNALS]);

// SAFETY: one is written by the party that has set its bit of `TAKEN`, and read by the courier once
// its bit of `READY` is set.
unsafe impl Sync for Records {}

static RECORDS: Records = Records([const { UnsafeCell::new(MaybeUninit::uninit()) }; SIGNALS]);
/// Bits of the numbers.
static TAKEN: AtomicU64 = AtomicU64::new(0);
static READY: AtomicU64 = AtomicU64::new(0);
/// When the courier is to send them, in nanoseconds of the monotonic clock.
static DUE: AtomicU64 = AtomicU64::new(u64::MAX);

/// Keeps a signal that a handler has got. Async-signal-safe.
pub(super) fn hold(signal: c_int, information: *const libc::siginfo_t) {
    let bit = super::only(signal);
    // ORDERING(held.2): Acquire, pairs with held.1: the courier has read the last one.
    if TAKEN.fetch_or(bit, Acquire) & bit != 0 {
        return;
    }
    // SAFETY: the kernel passes a siginfo_t.
    let information = MaybeUninit::new(unsafe { information.read() });
    // SAFETY: this party's, as the bit was not set.
    unsafe { RECORDS.0[signal as usize].get().write(information) };
    DUE.store(clock::now() + PAUSE, Relaxed);
    // ORDERING(ready.1): Release, pairs with ready.2.
    READY.fetch_or(bit, Release);
    raw::rouse_courier();
}

/// When the courier has to look again at the latest.
pub(in crate::intercept) fn deadline() -> u64 {
    DUE.load(Relaxed)
}

/// Sends the signals that wait to the process again, if it is time. Called by the courier, each
/// time that it has looked.
pub(in crate::intercept) fn send_again() {
    let due = DUE.load(Relaxed);
    if due == u64::MAX || clock::now() < due {
        return;
    }
    DUE.store(u64::MAX, Relaxed);
    // ORDERING(ready.2): Acquire, pairs with ready.1.
    let ready = READY.swap(0, Acquire);
    for signal in (1..SIGNALS as c_int).filter(|signal| ready & super::only(*signal) != 0) {
        // SAFETY: the courier's, as the bit was set.
        let information = unsafe { RECORDS.0[signal as usize].get().read() };
        // ORDERING(held.1): Release, pairs with held.2.
        TAKEN.fetch_and(!super::only(signal), Release);
        raw::send_to_process(signal, information.as_ptr());
    }
}
