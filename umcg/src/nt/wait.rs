//! Waiting for any, or for all, of some objects; and for an alert beside them.
//!
//! A wait for any stands in all queues before it takes anything but the first: so when it takes
//! one, none of those before it in the list is signaled in that moment, as that one would have
//! claimed the wait. A wait for all is a [joint](crate::sync::joint) one. The alert has a plain
//! place, entered last.

use super::clock;
use super::handle::BorrowedHandle;
use super::object::{Object, TAKEN_ABANDONED};
use super::owner;
use crate::error::texts;
use crate::rt::time;
use crate::rt::wait::{self, ClaimedList, Place, Queued, SelectQueue, WaitEnd, Waiter};
use crate::select::engine::{self, Alternatives as _};
use crate::select::list::with_list;
use crate::sync::joint::{JointWait, Member};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

const REASON: &&str = &"nt";

/// In place of a deadline: the caller only looks.
const LOOK: u64 = 0;

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The object with this index was signaled, and is taken; of a wait for all it is 0, and all
    /// are taken.
    Object(usize),
    /// The same, but it is a mutex whose owner ended without unlocking it: the state that it guards
    /// may be half-changed. Of a wait for all it is 0, and one of them or more is such a mutex.
    Abandoned(usize),
    /// The alert was set; no object was taken.
    Alert,
}

/// Why nothing was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The time has passed.
    TimedOut,
    /// The alert is no event; or an object is in a list twice of which all are waited for, or is
    /// the alert too.
    Invalid,
}

texts! {
    WaitError {
        WaitError::TimedOut => "the time has passed",
        WaitError::Invalid => "an object is there twice, or the alert is no event",
    }
}

/// Something to wait for: any, or all, of some objects.
#[derive(Clone, Copy, Debug)]
#[must_use = "nothing happens before it is waited for"]
pub struct Wait<'a> {
    objects: &'a [BorrowedHandle<'a>],
    is_all: bool,
    alert: Option<BorrowedHandle<'a>>,
    owner: Option<NonZeroU32>,
}

impl<'a> Wait<'a> {
    /// For one of the objects: of those that are signaled, the first in the list. The others are
    /// not changed. There may be any number of objects, and an object may be in the list more than
    /// once; none is signaled in an empty list.
    pub fn any(objects: &'a [BorrowedHandle<'a>]) -> Wait<'a> {
        Wait {
            objects,
            is_all: false,
            alert: None,
            owner: None,
        }
    }

    /// For all of the objects: nothing is taken before all are signaled at once, and then all are
    /// taken in that moment. In an empty list all are.
    pub fn all(objects: &'a [BorrowedHandle<'a>]) -> Wait<'a> {
        Wait {
            is_all: true,
            ..Wait::any(objects)
        }
    }

    /// Ends also when this event is set, but no objects are to be had: then the event is taken, and
    /// nothing else.
    pub fn alert(self, event: BorrowedHandle<'a>) -> Wait<'a> {
        Wait {
            alert: Some(event),
            ..self
        }
    }

    /// Takes mutexes for this owner, and not for the calling worker or thread. What that number
    /// means, and when the owner has died, only the caller knows; numbers of
    /// [`owner`](super::owner()) are those of workers and threads.
    pub fn owner(self, owner: NonZeroU32) -> Wait<'a> {
        Wait {
            owner: Some(owner),
            ..self
        }
    }

    /// Waits. A point of cancellation if it has to; a wait that is cancelled has taken nothing.
    /// Switches.
    ///
    /// # Errors
    /// [`WaitError::Invalid`].
    pub fn wait(&self) -> Result<Woken, WaitError> {
        self.wait_until(u64::MAX)
    }

    /// Waits until `deadline` at most. If that has passed it takes an object that is signaled; if
    /// none is, it lets others run once.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_deadline(&self, deadline: Instant) -> Result<Woken, WaitError> {
        self.wait_until(time::nanos(deadline).max(LOOK + 1))
    }

    /// Waits for `timeout` at most.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Woken, WaitError> {
        self.wait_until(time::after(timeout))
    }

    /// Takes an object, or all, if signaled. Never waits, and is no point of cancellation.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn try_wait(&self) -> Result<Woken, WaitError> {
        self.wait_until(LOOK)
    }

    /// [`Wait::wait_deadline`] in nanoseconds; [`LOOK`] is no deadline.
    pub(crate) fn wait_until(&self, deadline: u64) -> Result<Woken, WaitError> {
        if self.alert.is_some_and(|alert| !alert.is_event()) {
            return Err(WaitError::Invalid);
        }
        let needs_owner = self.objects.iter().any(|object| object.is_mutex());
        let owner = if needs_owner {
            self.owner.unwrap_or_else(owner::current)
        } else {
            NonZeroU32::MIN
        };
        self.objects
            .iter()
            .for_each(|object| clock::catch_up(object.object()));
        let checked = CheckedWait {
            objects: self.objects,
            alert: self.alert.map(BorrowedHandle::object),
            owner: owner.get() as usize,
        };
        let woken = match self.objects {
            [object] if checked.alert.is_none() => checked.one(object.object(), deadline),
            _ if self.is_all => checked.all(deadline),
            _ => checked.any(deadline),
        }?;
        if needs_owner {
            self.note_owned(owner, woken);
        }
        Ok(woken)
    }

    /// Registers mutexes that the caller took for itself, so that they are abandoned at its end.
    fn note_owned(&self, owner: NonZeroU32, woken: Woken) {
        let taken = match woken {
            Woken::Alert => &[],
            _ if self.is_all => self.objects,
            Woken::Object(index) | Woken::Abandoned(index) => &self.objects[index..=index],
        };
        taken
            .iter()
            .filter(|object| object.is_mutex())
            .for_each(|mutex| owner::note(owner, *mutex));
    }
}

/// A wait whose arguments were checked.
struct CheckedWait<'a> {
    objects: &'a [BorrowedHandle<'a>],
    alert: Option<&'a Object>,
    owner: usize,
}

fn woken(index: usize, how: usize) -> Woken {
    if how == TAKEN_ABANDONED {
        Woken::Abandoned(index)
    } else {
        Woken::Object(index)
    }
}

impl CheckedWait<'_> {
    /// The index for which a waiter claims itself when it only looks.
    fn nothing(&self) -> usize {
        self.objects.len() + 1
    }

    fn one(&self, object: &Object, deadline: u64) -> Result<Woken, WaitError> {
        let how = object.try_take(self.owner).or_else(|| {
            if deadline == LOOK {
                None
            } else {
                object.take(self.owner, deadline)
            }
        });
        Ok(woken(0, how.ok_or(WaitError::TimedOut)?))
    }

    fn any(&self, deadline: u64) -> Result<Woken, WaitError> {
        // Of the first alone it is known that none comes before it.
        if let Some(how) = self
            .objects
            .first()
            .and_then(|first| first.object().try_take(self.owner))
        {
            return Ok(woken(0, how));
        }
        let member = |index: usize| {
            let object = self.objects.get(index).map(|object| object.object());
            // Behind the objects comes the alert.
            let object = object.or(self.alert).unwrap_or_else(|| unreachable!());
            (&object.gate as &dyn SelectQueue, self.owner)
        };
        let len = self.objects.len() + usize::from(self.alert.is_some());
        with_list(len, member, |list| {
            let enter = |waiter: &Waiter, served: &mut ClaimedList| {
                engine::enter_all(list, 0, waiter, served, false)
            };
            match self.stand(deadline, enter, |served| engine::leave_all(list, served)) {
                WaitEnd::Served(index) if index < self.objects.len() => {
                    Ok(woken(index, list.place(index).note.get()))
                }
                ended => self.without(ended),
            }
        })
    }

    /// Waits in the queues that `enter` enters. `enter` returns false if the caller has claimed
    /// itself for an object. A caller that only looks then claims itself for nothing, and is not
    /// revoked.
    fn stand(
        &self,
        deadline: u64,
        enter: impl FnOnce(&Waiter, &mut ClaimedList) -> bool,
        leave: impl FnOnce(&mut ClaimedList),
    ) -> WaitEnd {
        if deadline == LOOK {
            wait::look(
                |waiter, served| enter(waiter, served) && !waiter.claim_itself(self.nothing()),
                leave,
            )
        } else {
            wait::many(REASON, deadline, enter, leave)
        }
    }

    fn without(&self, ended: WaitEnd) -> Result<Woken, WaitError> {
        if ended == WaitEnd::Served(self.objects.len()) {
            Ok(Woken::Alert)
        } else {
            Err(WaitError::TimedOut)
        }
    }

    fn all(&self, deadline: u64) -> Result<Woken, WaitError> {
        let is_alert = |object: &BorrowedHandle<'_>| {
            self.alert
                .is_some_and(|alert| std::ptr::eq(alert, object.object()))
        };
        if self.objects.iter().any(is_alert) {
            return Err(WaitError::Invalid);
        }
        let members: Box<[Member<'_>]> = self
            .objects
            .iter()
            .map(|object| Member::new(&object.object().gate, self.owner))
            .collect();
        let joint = JointWait::new(&members).ok_or(WaitError::Invalid)?;
        if joint.try_take().is_none() {
            match self.wait_for_all(&joint, deadline) {
                WaitEnd::Served(index) if index < members.len() => {}
                ended => return self.without(ended),
            }
        }
        let is_abandoned = members
            .iter()
            .any(|member| member.note() == TAKEN_ABANDONED);
        Ok(if is_abandoned {
            Woken::Abandoned(0)
        } else {
            Woken::Object(0)
        })
    }

    fn wait_for_all(&self, joint: &JointWait<'_>, deadline: u64) -> WaitEnd {
        if deadline == LOOK && self.alert.is_none() {
            return WaitEnd::Revoked;
        }
        let place = Place::new();
        let enter = |waiter: &Waiter, served: &mut ClaimedList| {
            let is_mine = joint.enter_or_claim(waiter, &Cell::new(false))
                || self
                    .alert
                    .is_some_and(|alert| self.enter_alert(alert, &place, waiter, served));
            !is_mine
        };
        let leave = |served: &mut ClaimedList| {
            joint.leave();
            if let Some(alert) = self.alert {
                alert.gate.leave(&place, served);
            }
        };
        self.stand(deadline, enter, leave)
    }

    /// Enters the alert's queue. True if the caller has claimed itself for the alert.
    fn enter_alert(
        &self,
        alert: &Object,
        place: &Place,
        waiter: &Waiter,
        served: &mut ClaimedList,
    ) -> bool {
        let (index, mut is_mine) = (self.objects.len(), false);
        place.begin(waiter, index, self.owner);
        let mut claim = || {
            is_mine = waiter.claim_itself(index);
            is_mine
        };
        alert.gate.enter_or_claim(place, &mut claim, served);
        is_mine
    }
}
