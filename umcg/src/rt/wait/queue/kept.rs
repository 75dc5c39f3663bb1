//! Waiters that stay in their queues from one wait to the next. So a wait for many objects costs no
//! more than a wait for few, as long as few of them can serve it.
//!
//! ```text
//!             arm                              claimed, or revoked
//!    IDLE ------------> WAITING ----------------------------------------> IDLE: the index + 1, or REVOKED
//!     |   it waits only if it was not passed over
//!     '-- a claimer takes a place out, and cannot claim ----------------> IDLE with PASSED; look_anew -> IDLE
//! ```
//!
//! - K1: a kept waiter waits only if all its places are in their queues, and were left alone since
//!   they were put in. A claimer that takes a place out and finds the waiter idle adds PASSED to
//!   the word from which the waiter is armed, by compare-and-swap. So either the waiter is claimed,
//!   or it looks at everything anew.
//! - K2: it takes PASSED away before it leaves its queues to enter them again. Each queue is under
//!   its lock. So the waiter sees, when it enters, the effect of every claimer that came before; a
//!   claimer that comes later finds a place that was put in anew, or none.
//! - K3: the properties of one wait (its caller, its deadline) are written while the waiter is
//!   idle. They are read by a party that has claimed it, or has found it by its task (W3).
//!
//! A kept waiter keeps the place in the queue's order at which it was put in, though it did not
//! wait all the time. It may be served before a waiter that came while it was idle.

use super::caller::Caller;
use super::{ClaimedList, REVOKED, WAITING, WaitEnd, Waiter, WaiterKind};
use crate::rt::base::sync::Ordering::*;
use crate::rt::wait::{cancel, deadline};
use std::mem::MaybeUninit;

/// With any state but WAITING: a place was taken out, and the waiter could not be claimed.
pub(super) const PASSED: u32 = 1 << 31;

impl Waiter {
    /// A waiter that is kept, and does not wait yet.
    pub(crate) fn kept() -> Waiter {
        let caller = Caller::new();
        let mut waiter = Waiter::new(caller.task(), caller.0.is_some(), u64::MAX, true);
        waiter.is_kept = true;
        waiter.claim.store(REVOKED, Relaxed);
        waiter
    }

    /// Prepares the waiter for a wait of this caller; or, without a deadline, for a look, which is
    /// not revoked.
    fn renew(&self, caller: &Caller, deadline: Option<u64>) {
        let task = caller.task();
        self.task.set(task);
        self.kind.set(WaiterKind::of(caller.0.is_some()));
        self.may_be_cut
            .set(deadline.is_some() && cancel::may_be_cut(task));
        self.deadline.set(deadline.unwrap_or(u64::MAX));
    }

    /// Whether it was passed over.
    pub(crate) fn was_passed(&self) -> bool {
        self.claim.load(Relaxed) & PASSED != 0
    }

    /// The waiter is going to leave its queues, and to look at everything when it enters them again
    /// (K2).
    pub(crate) fn look_anew(&self) {
        self.claim.store(REVOKED, Relaxed);
    }

    /// From here on the waiter can be claimed. False if it was passed over.
    #[inline]
    fn arm(&self) -> bool {
        let state = self.claim.load(Relaxed);
        // ORDERING(armed.1): Release, pairs with armed.2: the claimer sees its caller of now.
        state & PASSED == 0
            && self
                .claim
                .compare_exchange(state, WAITING, Release, Relaxed)
                .is_ok()
    }

    /// The waiter does not wait after all. False if it was claimed.
    fn disarm(&self) -> bool {
        self.claim
            .compare_exchange(WAITING, REVOKED, Relaxed, Relaxed)
            .is_ok()
    }

    /// Tells the waiter that it would have been served. The caller holds the queue's lock, and has
    /// taken the place out. True if the waiter waits by now, and is claimed.
    #[cold]
    pub(super) fn pass_over(&self, claim: u32) -> bool {
        loop {
            let state = self.claim.load(Relaxed);
            let to = if state == WAITING {
                claim
            } else {
                state | PASSED
            };
            // ORDERING(armed.2): Acquire, pairs with armed.1.
            if self
                .claim
                .compare_exchange(state, to, Acquire, Relaxed)
                .is_ok()
            {
                return state == WAITING;
            }
        }
    }
}

/// Waits once more with a waiter that is kept, until `deadline` at most. Without a deadline it only
/// looks: [`WaitEnd::Revoked`] if there was a moment at which none could serve it. `enter` is
/// called with preemption off: it puts in the places that are missing, and returns false if the
/// caller need not wait. Returns none if that is so, or if the waiter was passed over. `leave` is
/// called in any case, with preemption as the caller had it. Otherwise as [`many`](super::many),
/// and a look as [`look`](super::look).
pub(crate) fn again(
    waiter: &Waiter,
    reason: &'static &'static str,
    deadline: Option<u64>,
    enter: impl FnOnce(&mut ClaimedList) -> bool,
    leave: impl FnOnce(),
) -> Option<WaitEnd> {
    let mut entry = MaybeUninit::uninit();
    let alarm = deadline::alarm(&mut entry, deadline.unwrap_or(u64::MAX));
    let caller = Caller::new();
    waiter.renew(&caller, deadline);
    let looks = caller.announce(waiter.task.get(), || true);
    waiter.begin();
    let is_armed = caller.enter(|served| enter(served) && waiter.arm());
    // If it was claimed before that, it goes on when it was served, which is at once.
    if is_armed && (deadline.is_some() || !waiter.disarm()) {
        caller.stop(waiter, reason, looks);
    } else {
        waiter.go_on();
    }
    leave();
    drop(alarm);
    let end = is_armed.then(|| waiter.end());
    if end == Some(WaitEnd::Revoked) && deadline.is_some() {
        cancel::checkpoint();
    }
    end
}
