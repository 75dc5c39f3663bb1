//! Signals that servers cannot block, that were sent to the process, and for which no guest on a
//! server is found that lets them through. Natively they wait for the process, until a thread lets
//! them through. The kernel would give them to the next server, so they wait here: the courier
//! looks for such a thread now and then, at home too, where the kernel knows the masks.
//!
//! As in the kernel, one of each number waits.

use super::super::{guest, memory};
use super::receiver;
use crate::rt::time as clock;
use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::fs;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering::*};
use umcg_core::raw;

/// Between two looks, in nanoseconds: the first one, and the longest. Each one after the first is
/// twice as long.
const PAUSE: u64 = 1_000_000;
const LONGEST: u64 = 128_000_000;
const SIGNALS: usize = 32;

/// By number.
struct Records([UnsafeCell<MaybeUninit<libc::siginfo_t>>; SIGNALS]);

// SAFETY: one is written by the party that has set its bit of `TAKEN`, and read by the one that has
// cleared its bit of `READY`.
unsafe impl Sync for Records {}

static RECORDS: Records = Records([const { UnsafeCell::new(MaybeUninit::uninit()) }; SIGNALS]);
/// Bits of the numbers.
static TAKEN: AtomicU64 = AtomicU64::new(0);
static READY: AtomicU64 = AtomicU64::new(0);
/// When the courier is to look, in nanoseconds of the monotonic clock.
static DUE: AtomicU64 = AtomicU64::new(u64::MAX);
/// The last pause.
static PAUSED: AtomicU64 = AtomicU64::new(PAUSE);

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
    READY.fetch_or(bit, Relaxed);
    PAUSED.store(PAUSE, Relaxed);
    // ORDERING(ready.1): Release, pairs with ready.2: the courier that takes this time sees the
    // record and its bit.
    DUE.store(clock::now() + PAUSE, Release);
    raw::rouse_courier();
}

/// When the courier has to look again at the latest.
pub(in crate::intercept) fn deadline() -> u64 {
    DUE.load(Relaxed)
}

/// Passes the signals on that have a receiver by now, if it is time to look. Called by the courier.
pub(in crate::intercept) fn pass_on() {
    let due = DUE.load(Relaxed);
    if due == u64::MAX || clock::now() < due {
        return;
    }
    // ORDERING(ready.2): Acquire, pairs with ready.1.
    DUE.swap(u64::MAX, Acquire);
    let ready = READY.load(Relaxed);
    for signal in (1..SIGNALS as c_int).filter(|signal| ready & super::only(*signal) != 0) {
        let Some(to) = receiver(signal).or_else(|| at_home_for(signal)) else {
            continue;
        };
        send(signal, to);
    }
    if READY.load(Relaxed) != 0 {
        let pause = LONGEST.min(2 * PAUSED.load(Relaxed));
        PAUSED.store(pause, Relaxed);
        DUE.fetch_min(clock::now() + pause, Relaxed);
    }
}

/// Sends the signal to this thread, if it still waits here.
fn send(signal: c_int, to: u32) {
    if let Some(information) = take(signal) {
        raw::pass_on(to, signal, information.as_ptr());
    }
}

/// Takes a signal, if it still waits here.
fn take(signal: c_int) -> Option<MaybeUninit<libc::siginfo_t>> {
    let bit = super::only(signal);
    // ORDERING(ready.2): Acquire, pairs with ready.1.
    if READY.fetch_and(!bit, Acquire) & bit == 0 {
        return None;
    }
    // SAFETY: this party's, which has cleared the bit.
    let information = unsafe { RECORDS.0[signal as usize].get().read() };
    // ORDERING(held.1): Release, pairs with held.2.
    TAKEN.fetch_and(!bit, Release);
    Some(information)
}

/// The program ignores the signal from now on.
pub(super) fn ignore(signal: c_int) {
    if (1..SIGNALS as c_int).contains(&signal) {
        take(signal);
    }
}

/// The thread with this id, the caller, is about to wait for the signals of the set at this
/// address: those that wait here are its own.
pub(in crate::intercept) fn claim_held(tid: u32, set: usize) {
    let ready = READY.load(Relaxed);
    if ready == 0 {
        return;
    }
    let wanted = memory::read::<u64>(set).unwrap_or(0) & ready;
    (1..SIGNALS as c_int)
        .filter(|signal| wanted & super::only(*signal) != 0)
        .for_each(|signal| send(signal, tid));
}

/// Adds the signals that wait here, and that the caller blocks, to the set at this address: they
/// are pending for the process. The caller is at home.
pub(in crate::intercept) fn add_held(set: usize) {
    let held = READY.load(Relaxed) & super::change(libc::SIG_BLOCK, 0);
    if held != 0 {
        if let Some(pending) = memory::read::<u64>(set) {
            memory::write(set, pending | held);
        }
    }
}

/// A thread of the program's at home that lets the signal through, or waits for it.
fn at_home_for(signal: c_int) -> Option<u32> {
    let mut found = None;
    guest::each(&mut |guest| {
        let lets_through = |tid: &u32| {
            let status = fs::read_to_string(format!("/proc/self/task/{tid}/status"));
            status.is_ok_and(|text| {
                blocked(&text).is_some_and(|mask| mask & super::only(signal) == 0)
            })
        };
        found = found.or_else(|| guest.tid().filter(lets_through));
    });
    found
}

/// The mask in the kernel's account of a thread. Without signals that the thread waits for.
fn blocked(status: &str) -> Option<u64> {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigBlk:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_found() {
        let status = "Name:\tSigBlk:\nSigPnd:\t0000000000000000\nSigBlk:\tfffffffe7ffbfeff\n";
        assert_eq!(blocked(status), Some(0xffff_fffe_7ffb_feff));
        assert_eq!(blocked("Name:\tone\n"), None);
    }
}
