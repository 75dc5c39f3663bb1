//! The public types of objects, one for each kind.

use super::clock;
use super::handle::Handle;
use super::object::{DEEPEST, Object, ObjectKind};
use super::owner;
use crate::error::texts;
use crate::rt::time;
use std::fmt;
use std::io;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::time::{Duration, Instant};

/// Something that has happened, or not. One that is reset by hand lets all waits through while it
/// is set; one that is reset automatically lets one through and is not set any more. A handle:
/// clones are the same event.
#[derive(Clone, PartialEq, Eq)]
#[repr(transparent)]
pub struct Event(Handle);

impl Event {
    /// One that is reset automatically.
    pub fn auto(is_set: bool) -> Event {
        Event(Handle::new(Object::event(false, is_set)))
    }

    /// One that is reset by hand.
    pub fn manual(is_set: bool) -> Event {
        Event(Handle::new(Object::event(true, is_set)))
    }

    /// Sets it. Returns whether it was set before. Does not switch.
    pub fn set(&self) -> bool {
        self.0.object().set()
    }

    /// Resets it. Returns whether it was set before. Does not switch.
    pub fn reset(&self) -> bool {
        self.0.object().reset()
    }

    /// Sets it for the waiters of this moment, and resets it, in one step. All waits that this
    /// completes end; or the first, if it is reset automatically. Then it is not set. Returns
    /// whether it was set before. Does not switch.
    pub fn pulse(&self) -> bool {
        self.0.object().pulse()
    }

    /// Whether it is set; may be outdated at once.
    pub fn is_set(&self) -> bool {
        self.0.object().is_set()
    }

    /// Whether it is reset by hand.
    pub fn is_manual(&self) -> bool {
        matches!(
            self.0.object().kind(),
            ObjectKind::Event { is_manual: true }
        )
    }
}

/// A number of tickets, with a maximum: a wait takes one, while there is one. A handle: clones are
/// the same semaphore.
#[derive(Clone, PartialEq, Eq)]
#[repr(transparent)]
pub struct Semaphore(Handle);

/// There would be more than the semaphore's maximum, or deeper recursion than there can be; or one
/// of owner and depth is zero, and not the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfRange;

impl Semaphore {
    /// One that has so many, and never more than `most`.
    ///
    /// # Errors
    /// [`OutOfRange`]: it would have more at once.
    pub fn new(count: u32, most: u32) -> Result<Semaphore, OutOfRange> {
        if count <= most {
            Ok(Semaphore(Handle::new(Object::semaphore(count, most))))
        } else {
            Err(OutOfRange)
        }
    }

    /// Adds so many: as many waits go on. Returns how many there were before. Does not switch.
    ///
    /// # Errors
    /// [`OutOfRange`]: there would be more than its maximum; nothing was added.
    pub fn release(&self, count: u32) -> Result<u32, OutOfRange> {
        self.0.object().add(count).ok_or(OutOfRange)
    }

    /// How many there are; may be outdated at once.
    pub fn count(&self) -> u32 {
        self.0.object().count()
    }

    /// How many there can be.
    pub fn most(&self) -> u32 {
        match self.0.object().kind() {
            ObjectKind::Semaphore { most } => most,
            _ => 0,
        }
    }
}

/// A mutex that its owner can take again and again, and has to unlock as often. If the owner, a
/// worker or a thread, ends before, the mutex is *abandoned*: the next wait takes it, and is told
/// so. A handle: clones are the same mutex.
///
/// ```
/// use umcg::nt::{Mutex, Wait, Woken};
///
/// let mutex = Mutex::new(false);
/// let theirs = mutex.clone();
/// umcg::spawn(move || Wait::any(&[theirs.as_handle()]).wait()).join().unwrap().unwrap();
/// assert_eq!(Wait::any(&[mutex.as_handle()]).wait(), Ok(Woken::Abandoned(0)));
/// assert_eq!(mutex.unlock(), Ok(1));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[repr(transparent)]
pub struct Mutex(Handle);

/// The mutex has another owner, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOwner;

texts! {
    OutOfRange {
        OutOfRange => "more than there can be",
    }
    NotOwner {
        NotOwner => "the mutex has another owner, or none",
    }
}

/// What a [`Mutex`] is at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owned {
    /// It has no owner.
    Free,
    /// It has no owner, and the last owner ended without unlocking it.
    Abandoned,
    /// This owner has taken it, so many times.
    By(NonZeroU32, u32),
}

impl Mutex {
    /// One that the calling worker or thread owns, or that has no owner.
    pub fn new(is_owned: bool) -> Mutex {
        if !is_owned {
            return Mutex(Handle::new(Object::mutex(0, 0)));
        }
        let owner = owner::current();
        let mutex = Mutex(Handle::new(Object::mutex(owner.get(), 1)));
        owner::adopt(owner, mutex.as_handle());
        mutex
    }

    /// One that was taken so often by this owner; or, if both are 0, that has no owner.
    ///
    /// # Errors
    /// [`OutOfRange`]: only one of them is 0, or the depth is more than 268,435,455.
    pub fn with_owner(owner: u32, depth: u32) -> Result<Mutex, OutOfRange> {
        let fits = (owner == 0) == (depth == 0) && depth <= DEEPEST;
        if !fits {
            return Err(OutOfRange);
        }
        let mutex = Mutex(Handle::new(Object::mutex(owner, depth)));
        if let Some(owner) = NonZeroU32::new(owner) {
            owner::adopt(owner, mutex.as_handle());
        }
        Ok(mutex)
    }

    /// Undoes one of the times that the calling worker or thread has taken it. Returns how often
    /// that was before. Does not switch.
    ///
    /// # Errors
    /// [`NotOwner`].
    pub fn unlock(&self) -> Result<u32, NotOwner> {
        self.unlock_as(owner::current())
    }

    /// Undoes one of the times that this owner has taken it. Returns how often that was before.
    /// Does not switch.
    ///
    /// # Errors
    /// [`NotOwner`].
    pub fn unlock_as(&self, owner: NonZeroU32) -> Result<u32, NotOwner> {
        let depth = self.0.object().unlock(owner.get()).ok_or(NotOwner)?;
        if depth == 1 {
            owner::forget(owner, &self.0);
        }
        Ok(depth)
    }

    /// Its owner has died: it is abandoned, however often that one has taken it. Does not switch.
    ///
    /// # Errors
    /// [`NotOwner`].
    pub fn kill(&self, owner: NonZeroU32) -> Result<(), NotOwner> {
        if !self.0.object().kill(owner.get()) {
            return Err(NotOwner);
        }
        owner::forget(owner, &self.0);
        Ok(())
    }

    /// Its owner; may be outdated at once.
    pub fn owned(&self) -> Owned {
        let owned = self.0.object().owned();
        match NonZeroU32::new(owned.owner) {
            Some(owner) => Owned::By(owner, owned.depth),
            None if owned.is_abandoned => Owned::Abandoned,
            None => Owned::Free,
        }
    }
}

/// An event that is set when its time has come. A handle: clones are the same timer. One whose last
/// handle goes is not set any more.
#[derive(Clone, PartialEq, Eq)]
#[repr(transparent)]
pub struct Timer(Handle);

impl Timer {
    /// One that stays set until it is armed again, or else lets one wait through. It is not set,
    /// nor armed.
    pub fn new(is_manual: bool) -> Timer {
        Timer(Handle::of_timer(is_manual))
    }

    /// Resets it, and arms it: it is set at that time, and then once in each period that follows,
    /// if there is one. If the time has passed, it is set now. A late setting does not move the
    /// later times; periods that are over together set it once. Returns whether it was armed
    /// before. Does not switch.
    ///
    /// # Errors
    /// The thread that sets timers could not be started.
    pub fn set(&self, due: Instant, period: Option<Duration>) -> io::Result<bool> {
        let period = period.map_or(0, |period| {
            u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
        });
        self.set_nanos(time::nanos(due), period)
    }

    /// [`Timer::set`] in nanoseconds of CLOCK_MONOTONIC; the period is 0 for none.
    ///
    /// # Errors
    /// As [`Timer::set`].
    pub fn set_nanos(&self, due: u64, period: u64) -> io::Result<bool> {
        clock::set(self.0.object(), due, period)
    }

    /// Disarms it. It stays set if it is set, also by a time that has come by now. Returns whether
    /// it was armed. Does not switch.
    pub fn cancel(&self) -> bool {
        clock::catch_up(self.0.object());
        clock::disarm(self.0.object())
    }

    /// Whether it is set; may be outdated at once.
    pub fn is_set(&self) -> bool {
        clock::catch_up(self.0.object());
        self.0.object().is_set()
    }

    /// When it is due, if it is armed.
    pub fn due(&self) -> Option<Instant> {
        self.due_nanos().map(time::instant)
    }

    /// [`Timer::due`] in nanoseconds of CLOCK_MONOTONIC.
    pub fn due_nanos(&self) -> Option<u64> {
        Some(self.0.object().alarm.due()).filter(|due| *due != u64::MAX)
    }
}

macro_rules! handles {
    ($($kind:ty)*) => {
        $(impl Deref for $kind {
            type Target = Handle;

            fn deref(&self) -> &Handle {
                &self.0
            }
        }

        impl fmt::Debug for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$kind> for Handle {
            fn from(object: $kind) -> Handle {
                object.0
            }
        })*
    };
}

handles! { Event Semaphore Mutex Timer }

impl Handle {
    /// The object, if it is an event.
    pub fn as_event(&self) -> Option<&Event> {
        // SAFETY: the same type behind a transparent wrapper, and of that kind.
        matches!(self.object().kind(), ObjectKind::Event { .. })
            .then(|| unsafe { &*std::ptr::from_ref(self).cast() })
    }

    /// The object, if it is a semaphore.
    pub fn as_semaphore(&self) -> Option<&Semaphore> {
        // SAFETY: as above.
        matches!(self.object().kind(), ObjectKind::Semaphore { .. })
            .then(|| unsafe { &*std::ptr::from_ref(self).cast() })
    }

    /// The object, if it is a mutex.
    pub fn as_mutex(&self) -> Option<&Mutex> {
        // SAFETY: as above.
        matches!(self.object().kind(), ObjectKind::Mutex)
            .then(|| unsafe { &*std::ptr::from_ref(self).cast() })
    }

    /// The object, if it is a timer.
    pub fn as_timer(&self) -> Option<&Timer> {
        // SAFETY: as above.
        matches!(self.object().kind(), ObjectKind::Timer { .. })
            .then(|| unsafe { &*std::ptr::from_ref(self).cast() })
    }
}
