//! The waits: in one queue, in many, and a look at many.
//!
//! Each makes the waiter in its frame, enters the queues, stops its caller if no queue could serve
//! it at once, and returns how that ended.

use super::caller::{Caller, undisturbed};
use super::places::{ClaimedList, Place};
use super::{Queued, WaitEnd, Waiter};
use crate::rt::task::Task;
use crate::rt::wait::{cancel, deadline};
use std::mem::MaybeUninit;

/// A wait in one queue, as the queue's object sees it.
pub(crate) struct Single<'a> {
    waiter: &'a mut MaybeUninit<Waiter>,
    place: &'a mut MaybeUninit<Place>,
    queued: *const dyn Queued,
    task: &'static Task,
    is_worker: bool,
    is_cuttable: bool,
    deadline: u64,
}

impl Single<'_> {
    /// The place for the queue, with this note. Called under the lock of the object, which puts the
    /// place into its queue because it cannot serve the caller at once.
    #[inline(always)]
    pub(crate) fn place(&mut self, note: usize) -> &Place {
        self.place_for(note, false)
    }

    /// The same for a wait that cannot be cut short: it is no point of cancellation, and has no
    /// deadline.
    #[inline(always)]
    pub(crate) fn place_to_the_end(&mut self, note: usize) -> &Place {
        debug_assert_eq!(self.deadline, u64::MAX);
        self.place_for(note, true)
    }

    #[inline(always)]
    fn place_for(&mut self, note: usize, to_the_end: bool) -> &Place {
        let waiter = self.waiter.write(Waiter::new(
            self.task,
            self.is_worker,
            self.deadline,
            to_the_end || self.is_cuttable,
        ));
        waiter.is_cuttable.set(self.is_cuttable);
        let place = self.place.write(Place::of(waiter, 1, note));
        waiter.single.set(Some((self.queued, place)));
        waiter.begin();
        place
    }
}

/// Waits in one queue. `enter` is called with preemption off. It puts the place that it asks for
/// into the queue; or, if the caller need not wait, it returns a value. Returns that value, or the
/// note of the place when it was served; none if the deadline has passed first. A point of
/// cancellation: unwinds only if the wait was revoked for that.
#[inline(always)]
pub(crate) fn one<Q: Queued>(
    queued: &Q,
    reason: &'static &'static str,
    deadline: u64,
    enter: impl FnOnce(&mut Single<'_>, &mut ClaimedList) -> Option<usize>,
) -> Option<usize> {
    let ended = one_or_revoked(queued, reason, deadline, false, enter);
    if ended.is_none() {
        cancel::checkpoint();
    }
    ended
}

/// As [`one`], for a wait that a [`cut`](crate::rt::wait::cut) ends, and cancellation does not: no
/// point of cancellation. Returns none if the deadline has passed, or a cut has come.
#[inline(always)]
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for its waits")
)]
pub(crate) fn one_cuttable<Q: Queued>(
    queued: &Q,
    reason: &'static &'static str,
    deadline: u64,
    enter: impl FnOnce(&mut Single<'_>, &mut ClaimedList) -> Option<usize>,
) -> Option<usize> {
    one_or_revoked(queued, reason, deadline, true, enter)
}

#[inline(always)]
fn one_or_revoked<Q: Queued>(
    queued: &Q,
    reason: &'static &'static str,
    deadline: u64,
    is_cuttable: bool,
    enter: impl FnOnce(&mut Single<'_>, &mut ClaimedList) -> Option<usize>,
) -> Option<usize> {
    let mut entry = MaybeUninit::uninit();
    let alarm = deadline::alarm(&mut entry, deadline);
    let object: *const (dyn Queued + '_) = queued;
    // SAFETY: only the lifetime in the type changes; the object outlives the wait, and with it the
    // waiter.
    let object: *const (dyn Queued + 'static) = unsafe { std::mem::transmute(object) };
    let (mut waiter, mut place) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    let caller = Caller::new();
    let task = caller.task();
    let mut single = Single {
        waiter: &mut waiter,
        place: &mut place,
        queued: object,
        task,
        is_worker: caller.is_worker(),
        is_cuttable,
        deadline,
    };
    let looks = caller.announce(task, || queued.hands_over());
    if let Some(said) = caller.enter(|served| enter(&mut single, served)) {
        return Some(said);
    }
    // SAFETY: `enter` has asked for the place, which made the waiter.
    let waiter = unsafe { waiter.assume_init_ref() };
    caller.stop(waiter, reason, looks);
    drop(alarm);
    if waiter.end() == WaitEnd::Revoked {
        return None;
    }
    // SAFETY: as above.
    Some(unsafe { place.assume_init_ref() }.note.get())
}

/// Waits in many queues. `enter` is called with preemption off: it puts places of the waiter into
/// queues, and may claim the waiter where it can be served already. It returns false if it claimed
/// the waiter, and true if another party is to resume it. `leave` takes all places out of their
/// queues, not preempted either. Otherwise as [`one`].
pub(crate) fn many(
    reason: &'static &'static str,
    deadline: u64,
    enter: impl FnOnce(&Waiter, &mut ClaimedList) -> bool,
    leave: impl FnOnce(&mut ClaimedList),
) -> WaitEnd {
    let mut entry = MaybeUninit::uninit();
    let alarm = deadline::alarm(&mut entry, deadline);
    let caller = Caller::new();
    let waiter = Waiter::new(caller.task(), caller.is_worker(), deadline, false);
    stand(caller, &waiter, reason, enter, leave);
    drop(alarm);
    let end = waiter.end();
    if end == WaitEnd::Revoked {
        cancel::checkpoint();
    }
    end
}

/// Stands in many queues for a moment, as [`many`] does, to see whether one can serve it: in the
/// end `enter` claims the waiter for nothing. If another party has claimed it first, the caller
/// goes on when it was served, which is at once. It is not revoked: no point of cancellation.
pub(crate) fn look(
    enter: impl FnOnce(&Waiter, &mut ClaimedList) -> bool,
    leave: impl FnOnce(&mut ClaimedList),
) -> WaitEnd {
    let caller = Caller::new();
    let waiter = Waiter::new(caller.task(), caller.0.is_some(), u64::MAX, true);
    stand(caller, &waiter, &"", enter, leave);
    waiter.end()
}

/// From `begin` to the end of a wait in many queues.
#[inline(always)]
fn stand(
    caller: Caller,
    waiter: &Waiter,
    reason: &'static &'static str,
    enter: impl FnOnce(&Waiter, &mut ClaimedList) -> bool,
    leave: impl FnOnce(&mut ClaimedList),
) {
    let looks = caller.announce(waiter.task.get(), || true);
    waiter.begin();
    if caller.enter(|served| enter(waiter, served)) {
        caller.stop(waiter, reason, looks);
    } else {
        waiter.go_on();
    }
    // While the waiter still lives: another party may be trying to claim it.
    undisturbed(leave);
}
