//! Semaphores that processes share.

use super::error::{Fault, ReleaseError, TryError, WaitError};
use super::handle::ObjectHandle;
use super::object::{BUSY, COUNT, FIRST};
use crate::rt::sync::Ordering::*;
use crate::rt::time;
use crate::rt::timed;
use std::fmt;
use std::time::Instant;

/// A counter of wakeups in a [`Segment`](super::Segment). It is strong like
/// [`sync::Semaphore`](crate::sync::Semaphore), but between processes: the waiter that has waited
/// longest is served first. If a waiter that was given a wakeup dies before it takes it, the wakeup
/// goes to the next waiter.
///
/// Clones are the same semaphore. Without waiters `acquire` and `release` make no system call. Not
/// for signal handlers.
#[derive(Clone)]
pub struct Semaphore(pub(super) ObjectHandle);

impl Semaphore {
    /// Takes a wakeup; waits until there is one. A point of cancellation if it has to wait; a wait
    /// that is cancelled has taken nothing. Switches.
    ///
    /// # Errors
    /// [`Fault`]: nothing was taken. If the semaphore died in this moment, that is not known.
    #[inline]
    pub fn acquire(&self) -> Result<(), Fault> {
        self.acquire_many(1)
    }

    /// Takes `wakeups` wakeups at once. A waiter for many is not overtaken by one that wants few.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    #[inline]
    pub fn acquire_many(&self, wakeups: u32) -> Result<(), Fault> {
        if self.take(wakeups) {
            Ok(())
        } else {
            self.0.wait(FIRST, wakeups, u64::MAX).map(drop)
        }
    }

    timed! {
        "Semaphore::acquire";
        /// # Errors
        /// [`WaitError`].
        pub fn acquire_deadline, acquire_timeout(&self) -> Result<(), WaitError>;
        |deadline| self.acquire_until(1, deadline)
    }

    /// Like [`Semaphore::acquire_many`], until `deadline` at most.
    ///
    /// # Errors
    /// [`WaitError`].
    pub fn acquire_many_deadline(&self, wakeups: u32, deadline: Instant) -> Result<(), WaitError> {
        self.acquire_until(wakeups, time::nanos(deadline))
    }

    fn acquire_until(&self, wakeups: u32, deadline: u64) -> Result<(), WaitError> {
        if self.take(wakeups) || self.0.wait(FIRST, wakeups, deadline)? {
            Ok(())
        } else {
            Err(WaitError::TimedOut)
        }
    }

    /// Takes a wakeup if there is one, and no other party waits for it. Never waits.
    ///
    /// # Errors
    /// [`TryError`].
    #[inline]
    pub fn try_acquire(&self) -> Result<(), TryError> {
        self.try_acquire_many(1)
    }

    /// Takes `wakeups` wakeups if they are there. Never waits.
    ///
    /// # Errors
    /// [`TryError`].
    #[inline]
    pub fn try_acquire_many(&self, wakeups: u32) -> Result<(), TryError> {
        if self.take(wakeups) {
            Ok(())
        } else {
            self.try_acquire_slow(wakeups)
        }
    }

    #[cold]
    fn try_acquire_slow(&self, wakeups: u32) -> Result<(), TryError> {
        let taken = self.0.object().locked(|locked| {
            let is_there = locked.first(FIRST)?.is_none() && locked.has(FIRST, wakeups)?;
            if is_there {
                locked.take(FIRST, wakeups);
            }
            Ok(is_there)
        })?;
        if taken { Ok(()) } else { Err(TryError::Empty) }
    }

    /// False if that could not be done in one step.
    #[inline(always)]
    fn take(&self, wakeups: u32) -> bool {
        let word = self.0.word().load(Relaxed);
        // ORDERING(seg-word.2): Acquire, pairs with seg-word.1.
        word & BUSY == 0
            && word & COUNT >= u64::from(wakeups)
            && self
                .0
                .word()
                .compare_exchange(word, word - u64::from(wakeups), Acquire, Relaxed)
                .is_ok()
    }

    /// Adds `wakeups` wakeups: waiters get them in their order. Does not switch.
    ///
    /// # Errors
    /// [`ReleaseError`]: nothing was added.
    #[inline]
    pub fn release(&self, wakeups: u32) -> Result<(), ReleaseError> {
        let word = self.0.word().load(Relaxed);
        if word & BUSY == 0 && (word & COUNT) + u64::from(wakeups) <= COUNT {
            // ORDERING(seg-word.1): Release, pairs with seg-word.2: a party that takes the wakeup
            // sees everything done before.
            if self
                .0
                .word()
                .compare_exchange(word, word + u64::from(wakeups), Release, Relaxed)
                .is_ok()
            {
                return Ok(());
            }
        }
        self.release_slow(wakeups)
    }

    #[cold]
    fn release_slow(&self, wakeups: u32) -> Result<(), ReleaseError> {
        let fits = self.0.object().locked(|locked| {
            let fits = (locked.word & COUNT) + u64::from(wakeups) <= COUNT;
            if fits {
                locked.word += u64::from(wakeups);
                locked.serve(FIRST)?;
            }
            Ok(fits)
        })?;
        if fits {
            Ok(())
        } else {
            Err(ReleaseError::Overflow)
        }
    }

    /// How many wakeups are saved; may be outdated at once.
    pub fn available(&self) -> u32 {
        (self.0.word().load(Relaxed) & COUNT) as u32
    }

    /// How many wait for the semaphore, including dead waiters that have not been found yet; may be
    /// outdated at once.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn waiters(&self) -> Result<usize, Fault> {
        self.0.object().locked(|locked| locked.count(FIRST))
    }

    /// The fault of the semaphore, if it is dead or corrupt; none while it is in order.
    pub fn fault(&self) -> Option<Fault> {
        self.0.object().fault()
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore")
            .field("available", &self.available())
            .field("fault", &self.fault())
            .finish_non_exhaustive()
    }
}
