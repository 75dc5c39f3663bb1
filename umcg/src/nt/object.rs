//! The core of all objects of NT: a state in a word, and a queue of waiters until it is *signaled*
//! for them.
//!
//! # The word
//!
//! ```text
//!   63       62      61        60          59                 32 31               0
//!  | LOCKED | JOINT | WAITERS | ABANDONED | depth              | owner             |   a mutex
//!  | LOCKED | JOINT | WAITERS | unused                         | count             |   a semaphore
//!  | LOCKED | JOINT | WAITERS | unused                                       | SET |   an event, a timer
//! ```
//!
//! - N1: whether an object is signaled for a waiter depends on the word and on the owner that the
//!   waiter names ([`Policy::pass`]), and on nothing else. So a waiter that cannot be served stops
//!   none behind it, and a caller may take what none of the waiters could.
//! - N2: WAITERS says that plain places stand in the queue, JOINT that joint ones do. With either,
//!   each step that makes the object signaled for more waiters than before is done under the lock,
//!   and by the [protocol of joint waits](crate::sync::joint). At its end no waiter is left in the
//!   queue for which the object is signaled, except those that wait for all of many.
//! - N3: a pulse sets SET, serves, and takes SET back, under one lock.
//! - N4: an operation that gives something touches the object until it has unlocked it, and not any
//!   more. So a waiter that is served by it may drop the object.
//!
//! An object is a [gate](crate::sync::gate). docs/protocols/nt.md has the
//! argument at length.

use super::clock::Alarm;
use crate::rt::sync::{AtomicUsize, Ordering::*};
use crate::rt::wait::{self, ClaimedList};
use crate::sync::gate::{Gate, Policy, Until};
use std::fmt;

const WAITERS: u64 = 1 << 61;
const ABANDONED: u64 = 1 << 60;
const LOW: u64 = u32::MAX as u64;
const ONE_DEEPER: u64 = 1 << 32;
const DEPTH: u64 = (DEEPEST as u64) << 32;
const SET: u64 = 1;

/// How often a mutex can be taken by its owner.
pub(super) const DEEPEST: u32 = (1 << 28) - 1;

/// In a place's note, and in a member's: before the wait the owner, after it how the object was
/// taken. A note has more bits than an owner.
pub(super) const TAKEN: usize = 0;
pub(super) const TAKEN_ABANDONED: usize = 1;
const _: () = assert!(usize::BITS > u32::BITS);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    Event { is_manual: bool },
    Semaphore { most: u32 },
    Mutex,
    Timer { is_manual: bool },
}

/// See the [module](self).
pub(super) struct Object {
    pub(super) gate: Gate<ObjectKind>,
    /// How many handles there are.
    handles: AtomicUsize,
    pub(super) alarm: Alarm,
}

// SAFETY: the gate is Sync; the alarm says of itself how it is shared.
unsafe impl Sync for Object {}

/// The state of a mutex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ownership {
    pub(super) owner: u32,
    pub(super) depth: u32,
    pub(super) is_abandoned: bool,
}

impl Object {
    fn new(kind: ObjectKind, word: u64, alarm: Alarm) -> Object {
        Object {
            gate: Gate::new(word, kind),
            handles: AtomicUsize::new(1),
            alarm,
        }
    }

    pub(super) fn event(is_manual: bool, is_set: bool) -> Object {
        Object::new(
            ObjectKind::Event { is_manual },
            u64::from(is_set),
            Alarm::none(),
        )
    }

    /// The count is no more than the most.
    pub(super) fn semaphore(count: u32, most: u32) -> Object {
        Object::new(ObjectKind::Semaphore { most }, count.into(), Alarm::none())
    }

    /// Neither or both are zero, and the depth is no more than [`DEEPEST`].
    pub(super) fn mutex(owner: u32, depth: u32) -> Object {
        Object::new(
            ObjectKind::Mutex,
            u64::from(owner) | u64::from(depth) << 32,
            Alarm::none(),
        )
    }

    pub(super) fn timer(is_manual: bool, alarm: Alarm) -> Object {
        Object::new(ObjectKind::Timer { is_manual }, 0, alarm)
    }

    /// Another handle.
    pub(super) fn retain(&self) {
        self.handles.fetch_add(1, Relaxed);
    }

    /// A handle less. True if it was the last: then only the caller knows of the object.
    pub(super) fn release(&self) -> bool {
        // ORDERING(handle.1): Release, pairs with handle.2: all uses of the object come before its
        // end.
        let is_last = self.handles.fetch_sub(1, Release) == 1;
        if is_last {
            // ORDERING(handle.2): Acquire, pairs with handle.1. No fence: ThreadSanitizer does not
            // know fences.
            self.handles.load(Acquire);
        }
        is_last
    }

    /// What kind of object it is.
    #[inline]
    pub(super) fn kind(&self) -> ObjectKind {
        self.gate.policy
    }

    /// Takes it for this owner, if it is signaled. Does not wait.
    #[inline]
    pub(super) fn try_take(&self, owner: usize) -> Option<usize> {
        self.gate.try_pass(owner)
    }

    /// Takes it for this owner; waits until it is signaled, until `deadline` at most. A point of
    /// cancellation if it has to wait. Switches.
    pub(super) fn take(&self, owner: usize, deadline: u64) -> Option<usize> {
        self.gate.wait(owner, Until::Deadline(deadline))
    }

    /// Gives by `step`, if there is one, and serves the waiters. Returns the word before.
    #[inline]
    fn give(&self, step: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        self.gate.give(self.gate.word.load(), step)
    }
}

impl Policy for ObjectKind {
    const REASON: &'static &'static str = &"nt";
    const WAITERS: u64 = WAITERS;
    /// N1: a waiter that cannot be served holds up no other.
    const IN_ORDER: bool = false;

    /// If it is signaled for this owner: the word after it was taken, and how it was taken.
    #[inline]
    fn pass(&self, word: u64, owner: usize) -> Option<(u64, usize)> {
        match *self {
            ObjectKind::Event { is_manual } | ObjectKind::Timer { is_manual } => {
                (word & SET != 0).then_some((if is_manual { word } else { word & !SET }, TAKEN))
            }
            ObjectKind::Semaphore { .. } => (word & LOW > 0).then(|| (word - 1, TAKEN)),
            ObjectKind::Mutex if word & LOW == 0 => {
                let how = if word & ABANDONED == 0 {
                    TAKEN
                } else {
                    TAKEN_ABANDONED
                };
                Some((((word & !ABANDONED) + ONE_DEEPER) | owner as u64, how))
            }
            ObjectKind::Mutex => (word & LOW == owner as u64 && word & DEPTH != DEPTH)
                .then_some((word + ONE_DEEPER, TAKEN)),
        }
    }
}

/// The operations of an event, and of a timer's state.
impl Object {
    /// Whether it was set.
    #[inline]
    pub(super) fn set(&self) -> bool {
        // Written also if it is set already: a later waiter then sees everything done before this
        // call.
        self.give(|word| Some(word | SET))
            .is_ok_and(|before| before & SET != 0)
    }

    /// [`Object::set`] for a caller that is not preempted, holds no object's lock, and resumes the
    /// waiters served.
    pub(super) fn set_within(&self, served: &mut ClaimedList) {
        let _ = self.gate.give_within(&|word| Some(word | SET), 0, served);
    }

    /// Whether it was set.
    pub(super) fn reset(&self) -> bool {
        let word = &self.gate.word;
        word.take_while(word.load(), |word| (word & SET != 0).then_some(word & !SET))
            .is_ok()
    }

    /// Whether it was set.
    pub(super) fn pulse(&self) -> bool {
        let before = wait::undisturbed(|served| {
            self.gate.give_within(&|word| Some(word | SET), SET, served)
        });
        before.is_ok_and(|before| before & SET != 0)
    }

    pub(super) fn is_set(&self) -> bool {
        self.gate.word.load() & SET != 0
    }
}

/// The operations of a semaphore.
impl Object {
    /// The count before; none if it would be more than the most.
    #[inline]
    pub(super) fn add(&self, count: u32) -> Option<u32> {
        let ObjectKind::Semaphore { most } = self.gate.policy else {
            return None;
        };
        let fits = |word: u64| (word & LOW) + u64::from(count) <= most.into();
        let before = self.give(|word| fits(word).then_some(word + u64::from(count)));
        before.ok().map(|before| (before & LOW) as u32)
    }

    pub(super) fn count(&self) -> u32 {
        (self.gate.word.load() & LOW) as u32
    }
}

/// The operations of a mutex.
impl Object {
    /// Unlocks it once. Returns how deep it was; none if it has another owner, or no owner.
    #[inline]
    pub(super) fn unlock(&self, owner: u32) -> Option<u32> {
        let step = |word: u64| {
            let less = word.wrapping_sub(ONE_DEEPER);
            (word & LOW == owner.into()).then_some(if less & DEPTH == 0 {
                less & !LOW
            } else {
                less
            })
        };
        self.give(step)
            .ok()
            .map(|before| ((before & DEPTH) >> 32) as u32)
    }

    /// Its owner has died. False if it is not its owner.
    pub(super) fn kill(&self, owner: u32) -> bool {
        self.give(|word| (word & LOW == owner.into()).then_some(word & !(LOW | DEPTH) | ABANDONED))
            .is_ok()
    }

    pub(super) fn owned(&self) -> Ownership {
        let word = self.gate.word.see();
        Ownership {
            owner: (word & LOW) as u32,
            depth: ((word & DEPTH) >> 32) as u32,
            is_abandoned: word & ABANDONED != 0,
        }
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Object");
        text.field("kind", &self.gate.policy);
        match self.gate.policy {
            ObjectKind::Event { .. } | ObjectKind::Timer { .. } => {
                text.field("is_set", &self.is_set())
            }
            ObjectKind::Semaphore { .. } => text.field("count", &self.count()),
            ObjectKind::Mutex => text.field("owned", &self.owned()),
        };
        text.field("waiters", &self.gate.waiters()).finish()
    }
}
