//! How a kernel thread waits, a plain one or one whose worker blocks in the kernel: it spins for a
//! while, and then sleeps.
//!
//! ```text
//!    before it stands anywhere:  AWAKE   -- it has looked enough -->  ASLEEP        or ASLEEP at once
//!    by its claimer:             AWAKE, ASLEEP                   -->  SERVED        when all is delivered
//! ```
//!
//! - T1: before the thread enters a queue, the word (`Task::asleep`) says whether the thread will
//!   spin, or sleep on the word as a futex. The claimer has seen that, by the lock of the queue or
//!   the claim.
//! - T2: one claimer for each wait makes the word SERVED; after that the frame may be gone. The
//!   thread changes the word only from AWAKE to ASLEEP, and back to look for a reason ([`rouse`]),
//!   by compare-and-swap. So a plain store makes a word SERVED that was ASLEEP, whichever it is by
//!   then. The kernel compares the word before it puts the thread to sleep.
//! - T3: the kernel's wake-up may come in a later wait, or in that of another thread which has the
//!   descriptor by then. It is spurious there, and the thread looks at the word again.

use super::caller::{Caller, undisturbed};
use super::{CUTS, Waiter};
use crate::rt::base::clock;
use crate::rt::base::sync::{Ordering::*, give_way, is_alone, light, spin};
use crate::rt::task::Task;
use rustix::thread::futex::{self, Flags};
use std::num::NonZeroU32;

/// It spins; it sleeps, or is going to; it was served.
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const SERVED: u32 = 2;

/// The most looks of a thread that spins before it sleeps (MOST_LOOKS). One wait in TRIAL spins
/// that long, whatever came of it before. Once spinning was of use, the thread spins for as long as
/// it takes to sleep and be woken (ENOUGH). With less it would sleep at the first hitch, and its
/// peer, for which that takes too long, would then sleep too.
const MOST_LOOKS: u32 = 1024;
const ENOUGH: u32 = 256;
const TRIAL: u32 = 128;
/// In `Task::patience`: a thread's looks, plus WAITS times the number of its waits since the last
/// trial.
const WAITS: u32 = 1 << 16;

/// Wakes a thread that was served.
pub(super) fn wake(task: &Task) {
    let asleep = &task.asleep;
    // An ASLEEP word is made AWAKE at most, by the thread itself, which then is awake.
    let slept = asleep.load(Relaxed) == ASLEEP;
    // ORDERING(served.1): Release, pairs with served.2: the thread sees what was delivered. Its
    // frame may be gone from here on.
    if slept {
        asleep.store(SERVED, Release);
    }
    // ORDERING(served.1): likewise.
    if slept || asleep.swap(SERVED, Release) == ASLEEP {
        let _ = futex::wake(asleep, Flags::PRIVATE, 1);
    }
}

/// Makes the calling thread, in whose signal handler this is, look for a reason to end its wait, if
/// it sleeps or is about to. It is AWAKE until it has looked.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for its waits")
)]
pub(in super::super) fn rouse(task: &Task) {
    let _ = task
        .asleep
        .compare_exchange(ASLEEP, AWAKE, Relaxed, Relaxed);
}

impl Waiter {
    /// The calling thread, which has announced so many looks, waits until it was served, or revokes
    /// its wait.
    pub(super) fn sleep(&self, looks: u32) {
        let task = self.task.get();
        let asleep = &task.asleep;
        // ORDERING(served.2): Acquire, pairs with served.1.
        let is_served = || asleep.load(Acquire) == SERVED;
        if looks > 0 {
            let found = look(task, looks, || is_served().then_some(()));
            // ORDERING(served.2): as above, where it fails: it was served meanwhile.
            if found.is_some()
                || asleep
                    .compare_exchange(AWAKE, ASLEEP, Relaxed, Acquire)
                    .is_err()
            {
                return;
            }
        }
        let until = clock::timespec(self.deadline.get());
        loop {
            // The wait of a plain thread is revoked by others only within a `timeout`, or if it can
            // be cut.
            if self.may_be_revoked() {
                light();
            }
            if is_served() || (self.has_reason() && undisturbed(|served| self.take_away(served))) {
                return;
            }
            let slept = futex::wait_bitset(
                asleep,
                Flags::PRIVATE,
                ASLEEP,
                until.as_ref(),
                NonZeroU32::MAX,
            );
            if slept == Err(rustix::io::Errno::TIMEDOUT) {
                // Served in the last moment, perhaps, but not yet told.
                give_way();
            } else if CUTS {
                // Roused; otherwise the word stays as it is.
                let _ = asleep.compare_exchange(AWAKE, ASLEEP, Relaxed, Relaxed);
            }
        }
    }
}

/// Before enqueueing, publishes whether this thread will spin or sleep; returns the spin count. A
/// thread that does not spin counts as asleep at once, which saves both sides a locked operation.
pub(super) fn announce(task: &Task, hands_over: bool) -> u32 {
    let looks = if hands_over && !is_alone() {
        patience(task)
    } else {
        0
    };
    task.asleep
        .store(if looks == 0 { ASLEEP } else { AWAKE }, Relaxed);
    looks
}

/// The spin count: it depends on how long it took before. From time to time it is the maximum,
/// since a thread that never spins cannot see that spinning would be of use.
fn patience(task: &Task) -> u32 {
    let looks = if is_trial(task) {
        MOST_LOOKS
    } else {
        task.patience.load(Relaxed) % WAITS
    };
    if looks == 0 {
        remember(task, 0);
    }
    looks
}

fn is_trial(task: &Task) -> bool {
    task.patience.load(Relaxed) / WAITS == TRIAL - 1
}

/// For the next wait.
fn remember(task: &Task, looks: u32) {
    let waits = task.patience.load(Relaxed) / WAITS + 1;
    task.patience.store(waits % TRIAL * WAITS + looks, Relaxed);
}

/// Calls `found` up to so many times, until it returns something, and remembers how long that took.
fn look<R>(task: &Task, looks: u32, mut found: impl FnMut() -> Option<R>) -> Option<R> {
    for look in 0..looks {
        let found = found();
        if found.is_some() {
            remember(task, (look * 2 + ENOUGH).min(MOST_LOOKS));
            return found;
        }
        spin();
    }
    let usual = task.patience.load(Relaxed) % WAITS;
    remember(
        task,
        if is_trial(task) {
            usual
        } else {
            usual - usual.div_ceil(8)
        },
    );
    None
}

/// If the caller is a thread, spins for a while until `found` returns something, and returns that.
/// For a caller that waits for a condition which it can see, and would have to check again when it
/// was served.
#[inline]
pub(crate) fn look_first<R>(found: impl FnMut() -> Option<R>) -> Option<R> {
    if is_alone() {
        return None;
    }
    let caller = Caller::new();
    if caller.is_worker() {
        return None;
    }
    let task = caller.task();
    let looks = patience(task);
    if looks > 0 {
        look(task, looks, found)
    } else {
        None
    }
}
