//! Waiting for all of many objects at once: nothing is taken before everything is there.
//!
//! Who waits so stands in the queues of all its objects, with one claim, at *joint* places. The
//! word of an object with joint places has [`JOINT`], and what the bit says is that whoever gives
//! something to the object also looks after those places.
//!
//! - J1: joint places come and go, and are served, under one lock of the process ([`Held`]), which
//!   is taken before the locks of objects. It alone has more than one of these, in any order: who
//!   has the lock of one object waits for nothing.
//! - J2: to an object with JOINT nothing is given but under that lock and its own, at the end of
//!   which no joint place is left that could be served. What only takes need not know. So while the
//!   lock is held, what the objects of a joint wait have becomes less, not more; and a wait that
//!   enters looks once, after its last place.
//! - J3: a joint wait is served with the locks of all its objects: each has what is wanted, and the
//!   waiter is claimed; then it is taken from each.
//! - J4: nobody stands behind a joint place. Who serves a queue goes through it in its order: a
//!   plain place that cannot be served stops those behind it, joint ones too; a joint one stops
//!   nobody. So a joint wait gets what those before it leave, in the moment when it is all there,
//!   and before those behind it.
//! - J5: who waits jointly leaves its queues under the lock: who has that may look at all its
//!   places as soon as it has found one in a queue.
//!
//! docs/protocols/all.md has the argument at length, and what was not chosen.

use super::gate::NO_MORE;
use crate::rt::spin::SpinGuard;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued, WaitEnd, Waiter};
use std::cell::Cell;
use std::ptr;

/// In the word of an object: there are joint places in its queue.
pub(crate) const JOINT: u64 = 1 << 62;

/// In the note of a joint place, with the address of its [`JointWait`].
const IS_JOINT: usize = 1 << (usize::BITS - 1);

/// So few objects are compared with each other, each with each.
const FEW: usize = 16;

/// The lock of all joint waits.
#[must_use]
pub(crate) struct Held(#[allow(dead_code, reason = "has the lock")] SpinGuard<'static, ()>);

/// The caller is not preempted, and has no object's lock.
pub(crate) fn hold() -> Held {
    Held(super::joint_lock().lock())
}

/// What can be waited for together with others.
///
/// # Safety
/// `lock` and `unlock` are the lock under which places are entered and claimed; the word that they
/// pass is the object's state, with [`JOINT`] as it says.
#[allow(unreachable_pub, reason = "in a signature of a sealed trait")]
pub unsafe trait Joint: Queued {
    /// Takes the object's lock.
    fn lock(&self) -> u64;

    /// Gives it back, and makes the word this.
    fn unlock(&self, word: u64);

    /// Its queue. The caller has its lock.
    fn queue(&self) -> &Places;

    /// Whether what is wanted can be taken, with this word, by who stands at this place; or behind
    /// all others. The note is the member's. The caller has its lock.
    fn is_there(&self, word: u64, note: usize, place: Option<&Place>) -> bool;

    /// Takes it, for the member that has this note.
    fn take(&self, word: u64, note: &Cell<usize>) -> u64;

    /// Whether nobody may wait for it any more. Who closes it claims those that wait, with the note
    /// [`NO_MORE`]. The caller has no lock but [`Held`].
    fn is_closed(&self) -> bool {
        false
    }
}

/// Takes the lock of an object that something will be given to.
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

/// Serves the queue of an object whose lock the caller has, by [`lock_to_give`]: plain places by
/// `one`, in their order, until that says that those behind have to wait.
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

/// Whether somebody stands in the queue whom others have to stand behind. The caller has its lock;
/// `word` tells whether there are joint places.
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
    /// The object's, while it is locked for this wait. Under [`Held`].
    word: Cell<u64>,
    /// What it means, before and after, is the object's affair.
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

/// One joint wait. Pinned to its frame as long as it stands anywhere.
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

    /// That of a place; none if it is a plain one.
    fn of<'p>(place: &'p Place, _: &'p Held) -> Option<&'p JointWait<'p>> {
        let note = place.note.get();
        // SAFETY: who waits jointly has its `JointWait` in its frame as long as a place is in a
        // queue, and leaves those under the lock that the caller has (J5).
        (note & IS_JOINT != 0).then(|| unsafe { &*ptr::with_exposed_provenance(note & !IS_JOINT) })
    }

    /// Takes everything if it is there. None if not; closed if one of them is.
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

    /// Waits until everything is there, and takes it; until `deadline` at most. A point of
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

    /// Stands in all queues. Or, if everything is there: takes it if the waiter can claim itself,
    /// with the index 0, and does nothing if not; true if it has claimed itself, for that or as one
    /// of them `is_closed`.
    pub(crate) fn enter_or_claim(&self, waiter: &Waiter, is_closed: &Cell<bool>) -> bool {
        let _held = hold();
        self.enter(waiter);
        if self.is_closed() {
            is_closed.set(waiter.claim_itself(0));
            return is_closed.get();
        }
        // Nothing has come since the last place, as that takes the lock (J2).
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

    /// Leaves all queues. The caller is not preempted, and has no object's lock.
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

    /// Serves it at one of its places, if everything is there.
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

    /// Locks all but the one that the caller has locked already, if what is wanted is there; or
    /// none.
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

    /// Unlocks so many of them, but not that one; and takes what is wanted before.
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
