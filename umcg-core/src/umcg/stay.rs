//! Adopted threads that are asked to come home: to be there once, or to stay for some time.
//!
//! A worker comes home once if another thread of the process has sent it a signal. The signal finds
//! it anyway ([`adopted`](super::adopted)), but takes its time. Whatever the sender does next, the
//! worker may see only after the signal's handler has run: natively it is pending as soon as the
//! call that sends it has returned.
//!
//! Those stay whose page faults keep servers:
//!
//! ```text
//!   away  --ask: any party-->  away, asked  --comes home: by a preemption, or by the hook-->  STAYS
//!     ^                                                                                         |
//!     '------ leaves at a wait <------ home <------ a wait after its time, if it faults no more --'
//! ```
//!
//! Nothing lets a fault go that waits for a disk, and the server waits with it. At home such a
//! fault keeps nobody else, as natively. A worker that stays waits for words as a plain thread
//! does, asleep in the kernel.
//!
//! Threads that fault once, at their beginning, do not do so later; threads of a database that maps
//! its files do so for good. So after its time the worker asks how many times it had to wait for a
//! disk meanwhile, and if that is often, stays as long again.
//!
//! The worker itself begins and ends its stay, never in the midst of a wait: the places where a
//! wait looks at it agree.

use super::adopted::{home, is_adopted};
use super::tick::now;
use super::worker::Worker;
use crate::base::call::call;
use std::mem::MaybeUninit;
use std::sync::atomic::Ordering::*;

/// How long it stays, in nanoseconds.
const TIME: u64 = 250_000_000;
/// With so many faults in that time or more it stays on. A fault of a fast disk takes 100 us, so
/// this is about the time of a thousand waits that it could spend in user mode.
const OFTEN: u64 = 8;

/// What a worker was asked for.
const COME: u32 = 1;
const STAY: u32 = 2;

/// Asks the worker, if it is an adopted thread, to come home and stay. Called by any party. One
/// that is at home by then may come from its next absence.
pub(crate) fn ask(worker: &'static Worker) {
    ask_for(worker, STAY);
}

/// Asks the worker to come home once: a signal was sent there that it lets through.
pub(super) fn call_home(worker: &'static Worker) {
    ask_for(worker, COME);
}

fn ask_for(worker: &'static Worker, what: u32) {
    if is_adopted(worker) {
        // ORDERING(asked.1): Release, pairs with asked.2: whatever the worker sees of the caller's
        // next acts, it sees this.
        home(worker).adoption.asked.fetch_or(what, Release);
    }
}

/// Whether the calling worker, which is away, was asked.
pub(super) fn is_asked(worker: &'static Worker) -> bool {
    home(worker).adoption.asked.load(Relaxed) != 0
}

/// The calling worker has come home.
pub(crate) fn come_home(worker: &'static Worker) {
    let adoption = &home(worker).adoption;
    // ORDERING(asked.2): Acquire, pairs with asked.1.
    if is_asked(worker) && adoption.asked.swap(0, Acquire) & STAY != 0 {
        adoption.faults_before.store(own_faults(), Relaxed);
        adoption.stays_until.store(now() + TIME, Relaxed);
        adoption.stays.store(true, Relaxed);
    }
}

/// Whether the worker, which is the caller, stays at home.
#[inline(always)]
pub(crate) fn is_on(worker: &'static Worker) -> bool {
    home(worker).adoption.stays.load(Relaxed)
}

/// The calling worker, which stays, is about to wait. If its time is over, and it has not faulted
/// often, it stays no more.
pub(crate) fn end_if_over(worker: &'static Worker) {
    let adoption = &home(worker).adoption;
    let now = now();
    if now < adoption.stays_until.load(Relaxed) {
        return;
    }
    let faults = own_faults();
    let before = adoption.faults_before.load(Relaxed);
    adoption.faults_before.store(faults, Relaxed);
    adoption.stays_until.store(now + TIME, Relaxed);
    let faults_often = faults.saturating_sub(before) >= OFTEN;
    adoption.stays.store(faults_often, Relaxed);
}

/// The worker is another thread's from now on.
pub(super) fn forget(worker: &'static Worker) {
    let adoption = &home(worker).adoption;
    adoption.asked.store(0, Relaxed);
    adoption.stays.store(false, Relaxed);
}

/// How many page faults of the calling kernel thread had to wait for a disk or the like.
fn own_faults() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    let place = usage.as_mut_ptr().expose_provenance();
    // SAFETY: the kernel writes the record.
    unsafe {
        call(
            libc::SYS_getrusage,
            [libc::RUSAGE_THREAD as usize, place, 0, 0, 0, 0],
        )
    };
    // SAFETY: zeroes are one, too.
    unsafe { usage.assume_init() }.ru_majflt as u64
}
