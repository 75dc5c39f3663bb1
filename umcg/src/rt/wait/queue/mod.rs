//! Waiting in queues: the protocol under semaphores, tubes, `select` and everything else that
//! serves waiters in the order in which they came.
//!
//! A *waiter* is one wait of one worker or thread, in its frame. It stands in one queue or in many,
//! with a *place* in each. A queue is under the lock of its object. An operation that serves the
//! queue (an `up`, a `send`) takes a place out, *claims* the waiter, delivers, and resumes it. The
//! flow that does so is the *claimer*.
//!
//! ```text
//!              claimed by an operation on one of its queues
//!    WAITING ---------------------------------------------> its index + 1      delivered, then resumed
//!       |
//!       `-- revoked: its deadline has passed, or it is asked to end ---------> REVOKED           resumed
//! ```
//!
//! | module | holds |
//! |---|---|
//! | `places` | the queues, and the waiters claimed from them |
//! | `waits` | the waits: in one queue, in many |
//! | `caller` | the worker or thread that waits or serves |
//! | `thread` | how a kernel thread spins and sleeps |
//! | `kept`, `called` | waiters that stay in their queues; waiters that are in no frame |
//!
//! A waiter that is [kept](kept) stays in its queues when it goes on, and may be WAITING again. A
//! waiter that is [called](called) is in no frame; its owner is told when it was served.
//!
//! - W1: a waiter is claimed once. A waiter in a single queue is claimed under that queue's lock,
//!   without a locked operation of its own; a waiter in many queues, by compare-and-swap. A claimed
//!   waiter is always delivered to: its wait has happened, whatever else is asked of the waiter.
//! - W2: the flow that claims or revokes a worker's wait has the right to run the worker, as soon
//!   as its context is saved. The worker enters queues first, and then leaves its server, which
//!   sets `departed`. A claimer that comes in between waits for that. Nothing can hold the worker
//!   up there: it is not preempted from its first place to its leaving. It leaves even if it was
//!   claimed meanwhile, unless it claimed itself.
//! - W3: a revoker looks at the waiter in its frame. The task says where that is (`waiter`), and
//!   the waiter does not go on while a revoker looks (`interrupted`). The waiter stores `waiter`
//!   and loads `interrupted`, with `light` between; the revoker stores `interrupted` and loads
//!   `waiter`, with `heavy` between. So being revocable costs the waiter no locked operation.
//! - W4: a reason to revoke is not missed. It is there before it is looked for: `cancel` is set, or
//!   the deadline has passed, before `heavy`. The waiter looks at both after its last place and
//!   `light`. So either the revoker finds the waiter, or the waiter finds the reason. Without a
//!   reason nothing is revoked: a stale wake-up costs no waiter its place.
//! - W5: a kernel thread (or a worker that blocks in the kernel) spins for a while where its peer
//!   can be running, and then [sleeps](thread). The token of `park` is not touched.
//! - W6: from the first place to the end of the wait nothing unwinds, and none of the program's
//!   code runs (U2 of [`last`](crate::rt::base::last)): a claimer counts on the waiter to come to a
//!   stop.
//!
//! A hop of a worker costs the queue's lock twice (enter, serve), and nothing else: no
//! compare-and-swap to stop, none to go on.
//!
//! docs/protocols/wait.md has the argument at length. Rejected: parking by the task's park word
//! (two more locked operations a hop, and it takes the user's own unparks away). Also rejected:
//! entering the queue in a step after the worker has left. No claimer waits for `departed` then,
//! but each object needs a step, and a wait on many objects locks all of them on the stack of the
//! flow that runs next.

use super::{cancel, cut};
use crate::rt::base::clock;
use crate::rt::base::sync::{AtomicU32, Ordering::*, give_way, heavy, light, spin};
use crate::rt::engine::guest;
use crate::rt::engine::runtime;
use crate::rt::engine::server::{self, ServerState};
use crate::rt::scheduler::Why;
use crate::rt::task::Task;
use crate::rt::task::runnable::Runnable;
use kept::PASSED;
use std::cell::Cell;
use std::ptr::null_mut;
use umcg_core::raw;

mod called;
mod caller;
mod kept;
mod places;
mod thread;
mod waits;

pub(crate) use caller::{hand_over, undisturbed};
pub(crate) use kept::again;
pub(crate) use places::{Claimed, ClaimedList, Place, Places};
pub(crate) use thread::look_first;
pub(super) use thread::rouse;
pub(crate) use waits::{Single, look, many, one, one_cuttable};

/// In `Waiter::claim`, besides the index of a place + 1.
const WAITING: u32 = 0;
const REVOKED: u32 = 1 << 30;

/// In `Task::departed`: the worker's context is saved.
const HERE: u32 = 0;
const DEPARTED: u32 = 1;

/// Whether there are waits that can be cut.
const CUTS: bool = cfg!(any(feature = "intercept", shuttle, loom));

/// How often a claimer checks that a worker has left before it lets other threads run.
const LOOKS: u32 = 100;

/// An object that keeps a queue of places under a lock of its own.
///
/// # Safety
/// `leave` does as documented, under the lock under which places are entered and claimed.
#[allow(unreachable_pub, reason = "in a signature of a sealed trait")]
pub unsafe trait Queued {
    /// Takes the place out of the queue. False if it is no longer there. The caller is not
    /// preempted, and holds no such lock; it resumes the waiters that this served.
    fn leave(&self, place: &Place, served: &mut ClaimedList) -> bool;

    /// True if a woken waiter already owns the thing. If it must retry, threads do not spin: they
    /// would only be in the way of the running ones. Nor do they spin if they have
    /// [looked](look_first) for the thing itself.
    fn hands_over(&self) -> bool {
        true
    }

    /// A waiter that is [called] and has this object was served. Not called under a lock.
    fn called(&self) {
        unreachable!("a waiter in a frame")
    }
}

/// A queue that can be waited in beside others. The object defines the meaning of a place's note,
/// before and after.
///
/// # Safety
/// As [`Queued`]: `enter_or_claim` acts under that lock.
#[allow(unreachable_pub, reason = "in a signature of a sealed trait")]
pub unsafe trait SelectQueue: Queued {
    /// Serves the caller, which stands in no queue, at once if possible. Returns the note that a
    /// place would have then.
    fn serve_now(&self, note: usize) -> Option<usize>;

    /// Puts the place into the queue. Or, if its waiter can be served at once: calls `claim`,
    /// serves the waiter if that returns true, and does nothing if not.
    fn enter_or_claim(
        &self,
        place: &Place,
        claim: &mut dyn FnMut() -> bool,
        served: &mut ClaimedList,
    );
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitEnd {
    /// Served at the place with this index; or it did not have to wait.
    Served(usize),
    /// Not served: the deadline has passed, the worker is asked to end, the wait was cut, or a look
    /// found nothing.
    Revoked,
}

/// Tells what is resumed when a waiter was served.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WaiterKind {
    Thread,
    Worker,
    /// Its owner is [called].
    Called,
    /// Likewise, and no owner is left to learn that it was not served.
    Ownerless,
}

/// One wait. Pinned to its frame as long as it stands in any queue.
pub(crate) struct Waiter {
    task: Cell<&'static Task>,
    kind: Cell<WaiterKind>,
    /// The worker may be asked to end: it is not unwinding already.
    may_be_cut: Cell<bool>,
    /// A [`cut`] ends it, and cancellation does not.
    is_cuttable: Cell<bool>,
    is_kept: bool,
    claim: AtomicU32,
    deadline: Cell<u64>,
    /// The queue's object and the place, if it stands in one queue only.
    #[allow(
        clippy::type_complexity,
        reason = "a queue's object, and the place in its queue"
    )]
    single: Cell<Option<(*const dyn Queued, *const Place)>>,
}

/// # Safety
/// The caller has claimed or revoked the waiter, and does this once.
#[inline(always)]
unsafe fn resume(waiter: *const Waiter, local: Option<&ServerState>) {
    // SAFETY: it is resumed only below.
    let waiter = unsafe { &*waiter };
    let task = waiter.task.get();
    if waiter.kind.get() != WaiterKind::Worker {
        return wake(waiter, task);
    }
    let mut looks = 0;
    // ORDERING(departed.2): Acquire, pairs with departed.1: its context is saved.
    while task.departed.load(Acquire) != DEPARTED {
        looks += 1;
        if looks % LOOKS == 0 {
            give_way()
        } else {
            spin()
        }
    }
    task.departed.store(HERE, Relaxed);
    // SAFETY: the claimer has the right to run it (W2).
    let worker = unsafe { Runnable::new(task) };
    match local {
        Some(local) => runtime::ready_in_step(local, worker, Why::Woken),
        None => runtime::ready(worker, Why::Woken),
    }
}

/// Wakes a thread that was served, or calls the owner of the waiter.
#[cold]
fn wake(waiter: &Waiter, task: &'static Task) {
    if waiter.kind.get() != WaiterKind::Thread {
        return waiter.call();
    }
    thread::wake(task);
}

impl WaiterKind {
    #[inline(always)]
    fn of(is_worker: bool) -> WaiterKind {
        if is_worker {
            WaiterKind::Worker
        } else {
            WaiterKind::Thread
        }
    }
}

impl Waiter {
    #[inline]
    fn new(task: &'static Task, is_worker: bool, deadline: u64, to_the_end: bool) -> Waiter {
        Waiter {
            task: Cell::new(task),
            kind: Cell::new(WaiterKind::of(is_worker)),
            may_be_cut: Cell::new(!to_the_end && cancel::may_be_cut(task)),
            is_cuttable: Cell::new(false),
            is_kept: false,
            claim: AtomicU32::new(WAITING),
            deadline: Cell::new(deadline),
            single: Cell::new(None),
        }
    }

    /// Claims the waiter. False if another party was first. For a single place, the caller holds
    /// the lock of its queue and has taken the place out.
    #[inline]
    fn claim(&self, claim: u32) -> bool {
        if self.single.get().is_none() {
            // ORDERING(armed.2): Acquire, pairs with armed.1.
            let is_claimed = self
                .claim
                .compare_exchange(WAITING, claim, Acquire, Relaxed)
                .is_ok();
            return is_claimed || (self.is_kept && self.pass_over(claim));
        }
        self.claim.store(claim, Relaxed);
        true
    }

    /// Whether no worker or thread waits by it now, and it is in no frame.
    fn may_be_forgotten(&self) -> bool {
        matches!(self.kind.get(), WaiterKind::Called | WaiterKind::Ownerless)
            || (self.is_kept && self.is_claimed())
    }

    /// The waiter claims itself for the place with this index, where it can be served already.
    /// False if it was served elsewhere.
    pub(crate) fn claim_itself(&self, index: usize) -> bool {
        self.claim(index as u32 + 1)
    }

    /// Whether it was claimed.
    pub(crate) fn is_claimed(&self) -> bool {
        self.claim.load(Relaxed) != WAITING
    }

    /// Whether it is asked to end.
    #[inline(always)]
    fn is_asked(&self) -> bool {
        self.may_be_cut.get() && cancel::is_asked(self.task.get())
    }

    /// Whether a [`cut`] has come for it.
    #[inline(always)]
    fn is_cut(&self) -> bool {
        CUTS && self.is_cuttable.get() && cut::is_cut(self.task.get())
    }

    /// Whether others may revoke it: at a deadline, a thread revokes its wait itself.
    #[inline(always)]
    fn may_be_revoked(&self) -> bool {
        (CUTS && self.is_cuttable.get()) || self.task.get().may_be_revoked()
    }

    /// Whether there may be a reason to revoke it, so that a closer look is needed.
    #[inline(always)]
    fn may_have_reason(&self) -> bool {
        self.is_asked() || self.deadline.get() != u64::MAX || self.is_cut()
    }

    /// Takes it out of its queue, if there is a reason. Called by the waiter itself, or by a
    /// revoker that keeps it from going on; not preempted.
    #[inline]
    fn revoke(&self, served: &mut ClaimedList) -> bool {
        self.has_reason() && self.take_away(served)
    }

    #[inline]
    fn has_reason(&self) -> bool {
        let deadline = self.deadline.get();
        self.is_asked() || self.is_cut() || (deadline != u64::MAX && clock::now() >= deadline)
    }

    #[cold]
    fn take_away(&self, served: &mut ClaimedList) -> bool {
        let Some((queued, place)) = self.single.get() else {
            return self
                .claim
                .compare_exchange(WAITING, REVOKED, Relaxed, Relaxed)
                .is_ok();
        };
        // SAFETY: `one` set it to an object and a place that outlive the wait.
        let queued = unsafe { &*queued };
        // SAFETY: likewise.
        let has_left = queued.leave(unsafe { &*place }, served);
        if has_left {
            self.claim.store(REVOKED, Relaxed);
        }
        has_left
    }

    /// Publishes where the waiter is, before it stands in any queue.
    #[inline]
    fn begin(&self) {
        // ORDERING(waiter.2): Release, pairs with waiter.1.
        self.task
            .get()
            .waiter
            .store((self as *const Waiter).cast_mut().cast(), Release);
    }

    /// The wait is over. The waiter stands in no queue any more, except at places by which others
    /// will not claim it.
    #[inline]
    fn go_on(&self) {
        let task = self.task.get();
        task.waiter.store(null_mut(), Relaxed);
        light();
        // ORDERING(interrupted.3): Acquire, pairs with interrupted.2: the revoker that was looking
        // is done with it.
        while task.interrupted.load(Acquire) {
            give_way();
        }
    }

    /// The same for a thread.
    #[inline]
    fn go_on_outside(&self) {
        if self.may_be_revoked() {
            self.go_on();
        } else {
            self.task.get().waiter.store(null_mut(), Relaxed);
        }
    }

    fn end(&self) -> WaitEnd {
        match self.claim.load(Relaxed) & !PASSED {
            REVOKED => WaitEnd::Revoked,
            claim => WaitEnd::Served(claim.wrapping_sub(1) as usize),
        }
    }
}

/// A step: the worker has left its server, and may be run again by its claimer.
fn departed(local: &ServerState, worker: Runnable) {
    let task = worker.into_task();
    // SAFETY: the worker is in the frame of the waiter, and is not resumed before `departed` is
    // set.
    let waiter = unsafe { &*task.waiter.load(Relaxed).cast::<Waiter>() };
    light();
    if waiter.may_have_reason() && revoke_departed(local, task, waiter) {
        return;
    }
    // ORDERING(departed.1): Release, pairs with departed.2.
    task.departed.store(DEPARTED, Release);
}

/// The same for an adopted worker that leaves home. False if it stays, as it was revoked.
fn departed_from_home(worker: raw::Worker) -> bool {
    let task = guest::task_of(worker);
    // SAFETY: as in `departed`.
    let waiter = unsafe { &*task.waiter.load(Relaxed).cast::<Waiter>() };
    light();
    // The storage is still the caller's: no party runs the worker before `departed` is set.
    let mut served = ClaimedList::new();
    if waiter.may_have_reason() && waiter.revoke(&mut served) {
        served.resume(None);
        return false;
    }
    guest::note_departure(task);
    // ORDERING(departed.1): Release, pairs with departed.2.
    task.departed.store(DEPARTED, Release);
    true
}

#[cold]
fn revoke_departed(local: &ServerState, task: &'static Task, waiter: &Waiter) -> bool {
    let mut served = ClaimedList::new();
    let revoked = waiter.revoke(&mut served);
    served.resume(Some(local));
    if revoked {
        // SAFETY: the right to run it came with this step, and no other party will ever claim it.
        local.make_ready(unsafe { Runnable::new(task) }, Why::Woken);
    }
    revoked
}

/// Revokes the wait of `task`, if there is a reason. Not called in a step.
#[cold]
pub(in crate::rt) fn revoke(task: &'static Task) {
    let mut waiter = null_mut();
    let revoked = undisturbed(|served| {
        // ORDERING(interrupted.1): Acquire, pairs with interrupted.2: one after the other.
        while task.interrupted.swap(true, Acquire) {
            give_way();
        }
        heavy();
        // ORDERING(waiter.1): Acquire, pairs with waiter.2: the waiter is seen whole.
        waiter = task.waiter.load(Acquire).cast::<Waiter>();
        // SAFETY: null, or a waiter, which stays as long as `interrupted` is set (W3).
        let revoked = unsafe { waiter.as_ref() }.is_some_and(|waiter| waiter.revoke(served));
        // ORDERING(interrupted.2): Release, pairs with interrupted.1 and interrupted.3.
        task.interrupted.store(false, Release);
        revoked
    });
    if revoked {
        let running = server::running();
        // SAFETY: revoked just above.
        unsafe { resume(waiter, running.as_ref().map(server::Running::local)) };
    }
}
