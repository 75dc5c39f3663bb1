//! Cutting a wait short: a signal has come for a worker or thread, whose waits by foreign system
//! calls end for it.
//!
//! This is a third reason to revoke a wait, beside its deadline and cancellation, and follows the
//! protocol of [`queue`](super::queue). It differs from cancellation: nothing unwinds, and only
//! waits that say so end ([`one_cuttable`](super::queue::one_cuttable)).
//!
//! - X1: *a cut is not missed.* The flag is set before `heavy`, and a cuttable waiter looks at it
//!   after its last place and `light` (W4). So a cut that comes before the wait ends it, too.
//! - X2: *a wait that was cut has taken no wake-up*: it is taken out of its queue, under the lock,
//!   or it was served (W1).
//! - X3: the flag stays until [`take_cut`]: all waits until then end at once. Nothing else clears
//!   it, except that a descriptor begins without it when it is renewed for another party.
//! - X4: a thread that sleeps in the kernel, and whose own signal handler cuts its wait, holds no
//!   lock but may be about to sleep. [`cut_here`] takes ASLEEP from its word: either the kernel
//!   finds another value and does not let it sleep, or the signal has woken it. A claimer sees
//!   ASLEEP, and makes the word SERVED by a plain store; or it does not, and swaps, which finds
//!   ASLEEP if the thread has gone to sleep meanwhile (T2 of [`thread`](super::queue)).
//!
//! Rejected: a request in the word of cancellation, as it names a depth to unwind to. Rejected too:
//! an unpark of the worker. The wait would have to leave its queue by itself, and a wake-up that
//! came meanwhile would have to be passed on.

use super::queue::{self, ClaimedList, Place, Places, Queued, Single};
use crate::rt::base::spin::Spin;
use crate::rt::base::sync::Ordering::Relaxed;
use crate::rt::task::Task;

/// Ends the wait of `task`, if it is a cuttable one; or else its next one. Not called in a step,
/// nor in a signal handler. The caller keeps the worker or thread from ending meanwhile, or the
/// next user of the descriptor is cut.
pub(crate) fn cut(task: &'static Task) {
    task.is_cut.store(true, Relaxed);
    queue::revoke(task);
}

/// The same for the caller's own task, in a signal handler of its kernel thread. Async-signal-safe.
pub(crate) fn cut_here(task: &Task) {
    task.is_cut.store(true, Relaxed);
    queue::rouse(task);
}

/// Whether a cut has come since this was last called.
pub(crate) fn take_cut(task: &Task) -> bool {
    is_cut(task) && task.is_cut.swap(false, Relaxed)
}

/// Whether the waits of `task` that are cuttable end at once.
#[inline(always)]
pub(crate) fn is_cut(task: &Task) -> bool {
    task.is_cut.load(Relaxed)
}

/// Waits for a time, in nanoseconds of CLOCK_MONOTONIC, or for a cut. False if it was cut. No point
/// of cancellation. Switches.
pub(crate) fn sleep_cuttable(reason: &'static &'static str, deadline: u64) -> bool {
    let nowhere = Nowhere(Spin::new(Places::new()));
    let enter = |single: &mut Single<'_>, _: &mut ClaimedList| {
        // SAFETY: the waiter leaves the queue before its frame ends.
        unsafe { nowhere.0.lock().push(single.place(0), false) };
        None
    };
    // Nobody serves it.
    queue::one_cuttable(&nowhere, reason, deadline, enter);
    crate::rt::base::clock::now() >= deadline
}

/// A queue in which one waiter stands, and that no party serves.
struct Nowhere(Spin<Places>);

// SAFETY: `leave` takes the queue's lock.
unsafe impl Queued for Nowhere {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        self.0.lock().remove(place)
    }

    fn hands_over(&self) -> bool {
        false
    }
}
