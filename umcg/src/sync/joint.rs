//! Waiting for all of many objects at once: nothing is taken before all are there.
//!
//! A joint waiter stands in the queues of all its objects, with one claim, at *joint* places. The
//! word of an object with joint places has the bit [`JOINT`]. It says that each operation that
//! gives something to the object also serves those places.
//!
//! - J1: joint places come and go, and are served, under one lock of the process ([`Held`]), which
//!   is taken before the locks of objects. Only its holder holds more than one object's lock, taken
//!   in any order: the holder of a single object's lock waits for nothing.
//! - J2: to an object with JOINT something is given only under that lock and the object's own; when
//!   they are released, no joint place is left that could be served. An operation that only takes
//!   need not care. So while the lock is held, the objects of a joint wait can only lose, not gain;
//!   and a wait that enters looks once, after its last place.
//! - J3: a joint wait is served with the locks of all its objects held. Each object has what is
//!   wanted, and the waiter is claimed; then the wanted thing is taken from each.
//! - J4: a joint place holds up no other. A queue is served in its order. A plain place that cannot
//!   be served stops those behind it, joint ones too; a joint place stops none. So a joint wait
//!   gets what the waiters before it leave over, in the moment when it is all there, and before the
//!   waiters behind it.
//! - J5: a joint waiter leaves its queues under the lock. So the lock's holder may look at all
//!   places of a joint wait as soon as it has found one of them in a queue.
//!
//! docs/protocols/all.md has the argument at length, and the designs that were not chosen.

use super::gate::NO_MORE;
use crate::rt::spin::SpinGuard;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued, WaitEnd, Waiter};
use std::cell::Cell;
use std::ptr;

/// In the word of an object: there are joint places in its queue.
pub(crate) const JOINT: u64 = 1 << 62;

/// In the note of a joint place, with the address of its [`JointWait`].
const IS_JOINT: usize = 1 << (usize::BITS - 1);

/// Up to so many objects are compared each with each.
const FEW: usize = 16;

/// The lock of all joint waits.
#[must_use]
pub(crate) struct Held(#[allow(dead_code, reason = "has the lock")] SpinGuard<'static, ()>);

/// The caller is not preempted, and holds no object's lock.
pub(crate) fn hold() -> Held {
    Held(super::joint_lock().lock())
}

/// An object that can be waited for together with others.
///
/// # Safety
/// `lock` and `unlock` are the lock under which places are entered and claimed; the word that they
/// pass is the object's state, with [`JOINT`] as it says.
#[allow(unreachable_pub, reason = "in a signature of a sealed trait")]
pub unsafe trait Joint: Queued {
    /// Takes the object's lock.
    fn lock(&self) -> u64;

    /// Stores the word, and releases the lock.
    fn unlock(&self, word: u64);

    /// The object's queue. The caller holds the object's lock.
    fn queue(&self) -> &Places;

    /// Whether the wanted thing can be taken, with this word, by the waiter at this place; or
    /// without a place, by one behind all others. The note is the member's. The caller holds the
    /// lock.
    fn is_there(&self, word: u64, note: usize, place: Option<&Place>) -> bool;

    /// Takes it, for the member that has this note. Returns the word after that.
    fn take(&self, word: u64, note: &Cell<usize>) -> u64;

    /// Whether it is closed, so that no wait for it is possible any more. Closing claims its
    /// waiters, with the note [`NO_MORE`]. The caller holds no lock but [`Held`].
    fn is_closed(&self) -> bool {
        false
    }
}

/// Takes the lock of an object, to give it something.
#[inline]
pub(crate) fn lock_to_give(object: &impl Joint) -> (u64, Option<Held>) {
    let word = object.lock();
    if word & JOINT == 0 {
        (word, None)
    } else {
        lock_to_give_slow(object, word)
    }
}

#[cold]
fn lock_to_give_slow(object: &impl Joint, word: u64) -> (u64, Option<Held>) {
    object.unlock(word);
    let held = hold();
    (object.lock(), Some(held))
}

/// Serves the queue of an object. The caller holds its lock, by [`lock_to_give`]. Plain places are
/// served by `one`, in their order, until that returns that those behind have to wait.
#[inline(always)]
pub(crate) fn serve(
    object: &impl Joint,
    word: &mut u64,
    held: Option<&Held>,
    served: &mut ClaimedList,
    mut one: impl FnMut(&Place, &mut u64, &mut ClaimedList) -> bool,
) {
    match held {
        None => {
            let mut place = object.queue().first();
            while let Some(at) = place {
                place = object.queue().after(at);
                if !one(at, word, served) {
                    break;
                }
            }
        }
        Some(held) => serve_jointly(object, word, held, served, &mut one),
    }
}

#[cold]
fn serve_jointly(
    object: &dyn Joint,
    word: &mut u64,
    held: &Held,
    served: &mut ClaimedList,
    one: &mut dyn FnMut(&Place, &mut u64, &mut ClaimedList) -> bool,
) {
    let mut place = object.queue().first();
    while let Some(at) = place {
        place = object.queue().after(at);
        match JointWait::of(at, held) {
            Some(joint) => joint.serve(object, at, word, served),
            None if one(at, word, served) => {}
            None => break,
        }
    }
}

/// Whether a plain place stands in the queue, behind which others have to stand. The caller holds
/// the lock; `word` tells whether there are joint places.
pub(crate) fn has_plain(queue: &Places, word: u64) -> bool {
    !queue.is_empty() && (word & JOINT == 0 || plain_before(queue, None))
}

/// Whether a plain place stands before this one, or anywhere.
#[cold]
pub(crate) fn plain_before(queue: &Places, place: Option<&Place>) -> bool {
    let mut next = queue.first();
    while let Some(at) = next.filter(|at| place.is_none_or(|place| !ptr::eq(*at, place))) {
        if at.note.get() & IS_JOINT == 0 {
            return true;
        }
        next = queue.after(at);
    }
    false
}

fn has_joint(queue: &Places, held: &Held) -> bool {
    let mut next = queue.first();
    while let Some(at) = next {
        if JointWait::of(at, held).is_some() {
            return true;
        }
        next = queue.after(at);
    }
    false
}

/// One of the objects of a joint wait.
pub(crate) struct Member<'a> {
    object: &'a dyn Joint,
    place: Place,
    /// The object's word, while it is locked for this wait. Under [`Held`].
    word: Cell<u64>,
    /// The object defines its meaning, before and after.
    note: Cell<usize>,
}

impl<'a> Member<'a> {
    pub(crate) fn new(object: &'a dyn Joint, note: usize) -> Member<'a> {
        Member {
            object,
            place: Place::new(),
            word: Cell::new(0),
            note: Cell::new(note),
        }
    }

    #[cfg_attr(
        not(feature = "nt"),
        allow(dead_code, reason = "for the objects of NT")
    )]
    pub(crate) fn note(&self) -> usize {
        self.note.get()
    }

    fn is_there(&self, word: u64, is_queued: bool) -> bool {
        self.object
            .is_there(word, self.note.get(), is_queued.then_some(&self.place))
    }

    fn take(&self, word: u64) -> u64 {
        self.object.take(word, &self.note)
    }
}

/// One joint wait. Pinned to its frame as long as it stands in any queue.
pub(crate) struct JointWait<'a> {
    members: &'a [Member<'a>],
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Taken,
    Closed,
    TimedOut,
}

impl<'a> JointWait<'a> {
    /// None if an object is in the list twice.
    pub(crate) fn new(members: &'a [Member<'a>]) -> Option<JointWait<'a>> {
        let address = |member: &Member<'_>| ptr::from_ref(member.object).cast::<()>();
        let is_twice = if members.len() <= FEW {
            members.iter().enumerate().any(|(index, member)| {
                members[..index]
                    .iter()
                    .any(|other| address(other) == address(member))
            })
        } else {
            let mut addresses: Vec<_> = members.iter().map(address).collect();
            addresses.sort_unstable();
            addresses.windows(2).any(|pair| pair[0] == pair[1])
        };
        (!is_twice).then_some(JointWait { members })
    }

    /// The joint wait of a place; none if it is a plain one.
    fn of<'p>(place: &'p Place, _: &'p Held) -> Option<&'p JointWait<'p>> {
        let note = place.note.get();
        // SAFETY: a joint waiter has its `JointWait` in its frame while a place is in a queue, and
        // leaves the queues under the lock that the caller holds (J5).
        (note & IS_JOINT != 0).then(|| unsafe { &*ptr::with_exposed_provenance(note & !IS_JOINT) })
    }

    /// Takes from all objects if all are there. None if not; `Closed` if one of them is closed.
    pub(crate) fn try_take(&self) -> Option<Ended> {
        wait::undisturbed(|_| {
            let _held = hold();
            let taken = self.lock_if_there(None, false);
            if taken {
                self.unlock_first(self.members.len(), None, true);
            }
            if taken {
                Some(Ended::Taken)
            } else {
                self.is_closed().then_some(Ended::Closed)
            }
        })
    }

    /// Waits until all are there, and takes from all; until `deadline` at most. A point of
    /// cancellation. Switches.
    pub(crate) fn wait(&self, reason: &'static &'static str, deadline: u64) -> Ended {
        let is_closed = Cell::new(false);
        let enter = |waiter: &Waiter, _: &mut ClaimedList| !self.enter_or_claim(waiter, &is_closed);
        match wait::many(reason, deadline, enter, |_| self.leave()) {
            WaitEnd::Revoked => Ended::TimedOut,
            WaitEnd::Served(index)
                if is_closed.get() || self.members[index].place.note.get() == NO_MORE =>
            {
                Ended::Closed
            }
            WaitEnd::Served(_) => Ended::Taken,
        }
    }

    /// Stands in all queues. Or, if all are there: takes from all if the waiter can claim itself,
    /// with the index 0, and does nothing if not. True if the waiter has claimed itself, for that
    /// or because one of the objects is closed (`is_closed`).
    pub(crate) fn enter_or_claim(&self, waiter: &Waiter, is_closed: &Cell<bool>) -> bool {
        let _held = hold();
        self.enter(waiter);
        if self.is_closed() {
            is_closed.set(waiter.claim_itself(0));
            return is_closed.get();
        }
        // Nothing was given since the last place was entered, because giving takes the lock (J2).
        if !self.lock_if_there(None, true) {
            return false;
        }
        let is_mine = waiter.claim_itself(0);
        self.unlock_first(self.members.len(), None, is_mine);
        is_mine
    }

    fn is_closed(&self) -> bool {
        self.members.iter().any(|member| member.object.is_closed())
    }

    fn enter(&self, waiter: &Waiter) {
        let note = ptr::from_ref(self).expose_provenance() | IS_JOINT;
        for (index, member) in self.members.iter().enumerate() {
            member.place.begin(waiter, index, note);
            let word = member.object.lock();
            // SAFETY: `leave` takes the place out before it ends.
            unsafe { member.object.queue().push(&member.place, false) };
            member.object.unlock(word | JOINT);
        }
    }

    /// Leaves all queues. The caller is not preempted, and holds no object's lock.
    pub(crate) fn leave(&self) {
        let held = hold();
        for member in self.members {
            let word = member.object.lock();
            let queue = member.object.queue();
            queue.remove(&member.place);
            let others = has_joint(queue, &held);
            member
                .object
                .unlock(if others { word } else { word & !JOINT });
        }
    }

    /// Serves it at one of its places, if all are there.
    fn serve(&self, object: &dyn Joint, place: &Place, word: &mut u64, served: &mut ClaimedList) {
        let Some(member) = self
            .members
            .iter()
            .find(|member| ptr::eq(&member.place, place))
        else {
            return;
        };
        if !member.is_there(*word, true) || !self.lock_if_there(Some(object), true) {
            return;
        }
        let claimed = object.queue().claim(place);
        self.unlock_first(self.members.len(), Some(object), claimed.is_some());
        if let Some(claimed) = claimed {
            *word = member.take(*word);
            served.push(claimed);
        }
    }

    /// Locks all objects but the one that the caller has locked already, if all are there. If not,
    /// it locks none.
    fn lock_if_there(&self, locked: Option<&dyn Joint>, is_queued: bool) -> bool {
        for (index, member) in self.others(locked) {
            member.word.set(member.object.lock());
            if !member.is_there(member.word.get(), is_queued) {
                self.unlock_first(index + 1, locked, false);
                return false;
            }
        }
        true
    }

    /// Unlocks the first `count` objects, but not `locked`. Takes the wanted things before that, if
    /// `takes`.
    fn unlock_first(&self, count: usize, locked: Option<&dyn Joint>, takes: bool) {
        for (_, member) in self.others(locked).take_while(|(index, _)| *index < count) {
            let word = member.word.get();
            member
                .object
                .unlock(if takes { member.take(word) } else { word });
        }
    }

    fn others<'s>(
        &'s self,
        but: Option<&'s dyn Joint>,
    ) -> impl Iterator<Item = (usize, &'s Member<'a>)> {
        self.members
            .iter()
            .enumerate()
            .filter(move |(_, member)| but.is_none_or(|but| !ptr::addr_eq(but, member.object)))
    }
}
