//! Events that processes share.

use super::error::{Fault, TryError, WaitError};
use super::handle::Handle;
use super::object::{BUSY, COUNT, FIRST, Kind};
use crate::rt::sync::Ordering::*;
use crate::rt::timed;
use std::fmt;

/// Something that has happened, or not, in a [`Segment`](super::Segment): what
/// [`sync::Event`](crate::sync::Event) is, but between processes. If a waiter that was let through
/// by an event that is reset automatically dies before it goes on, the next is let through.
///
/// Clones are the same event. Not for signal handlers.
#[derive(Clone)]
pub struct Event(pub(super) Handle);

impl Event {
    /// Waits until it is set. A point of cancellation if it has to wait; a wait that is cancelled
    /// has taken nothing. Switches.
    ///
    /// # Errors
    /// [`Fault`].
    #[inline]
    pub fn wait(&self) -> Result<(), Fault> {
        if self.pass() {
            Ok(())
        } else {
            self.0.wait(FIRST, 1, u64::MAX).map(drop)
        }
    }

    timed! {
        "Event::wait";
        /// # Errors
        /// [`WaitError`].
        pub fn wait_deadline, wait_timeout(&self) -> Result<(), WaitError>;
        |deadline| self.wait_until(deadline)
    }

    fn wait_until(&self, deadline: u64) -> Result<(), WaitError> {
        if self.pass() || self.0.wait(FIRST, 1, deadline)? {
            Ok(())
        } else {
            Err(WaitError::TimedOut)
        }
    }

    /// Like [`Event::wait`], if it is set. Never waits.
    ///
    /// # Errors
    /// [`TryError`].
    pub fn try_wait(&self) -> Result<(), TryError> {
        if self.pass() {
            return Ok(());
        }
        let passed = self.0.object().locked(|locked| {
            let is_set = locked.first(FIRST)?.is_none() && locked.has(FIRST, 1)?;
            if is_set {
                locked.take(FIRST, 1);
            }
            Ok(is_set)
        })?;
        if passed { Ok(()) } else { Err(TryError::Empty) }
    }

    /// False when that could not be done in one step.
    #[inline(always)]
    fn pass(&self) -> bool {
        // ORDERING(seg-word.2): Acquire, pairs with seg-word.1.
        let word = self.0.word().load(Acquire);
        let is_set = word & BUSY == 0 && word & COUNT != 0;
        // ORDERING(seg-word.2): as above.
        is_set
            && (self.is_manual()
                || self
                    .0
                    .word()
                    .compare_exchange(word, word & !COUNT, Acquire, Relaxed)
                    .is_ok())
    }

    /// Sets it. Does not switch.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn set(&self) -> Result<(), Fault> {
        let word = self.0.word().load(Relaxed);
        // ORDERING(seg-word.1): Release, pairs with seg-word.2: who goes on sees what was done
        // before; also if it was set already.
        if word & BUSY == 0
            && self
                .0
                .word()
                .compare_exchange(word, word & !COUNT | 1, Release, Relaxed)
                .is_ok()
        {
            return Ok(());
        }
        self.serve(true)
    }

    /// Sets it for those that wait at this moment, all of them or, if it is reset automatically,
    /// the first; then it is not set. Does not switch.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn pulse(&self) -> Result<(), Fault> {
        self.serve(false)
    }

    #[cold]
    fn serve(&self, stays: bool) -> Result<(), Fault> {
        self.0.object().locked(|locked| {
            locked.word = locked.word & !COUNT | 1;
            locked.serve(FIRST)?;
            if !stays {
                locked.word &= !COUNT;
            }
            Ok(())
        })
    }

    /// Undoes a [`set`](Event::set). Whether there was one. Does not switch.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn reset(&self) -> Result<bool, Fault> {
        self.0.object().locked(|locked| {
            let was_set = locked.word & COUNT != 0;
            locked.word &= !COUNT;
            Ok(was_set)
        })
    }

    /// Whether it is set; may be outdated at once.
    pub fn is_set(&self) -> bool {
        self.0.word().load(Relaxed) & COUNT != 0
    }

    /// Whether it is reset by hand.
    pub fn is_manual(&self) -> bool {
        self.0.kind() == Kind::Manual
    }

    /// How many wait for it, dead ones that nobody has found yet too; may be outdated at once.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn waiters(&self) -> Result<usize, Fault> {
        self.0.object().locked(|locked| locked.count(FIRST))
    }

    /// Whether nothing will ever be done with it; none while it is in order.
    pub fn fault(&self) -> Option<Fault> {
        self.0.object().fault()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Event");
        f.field("is_set", &self.is_set())
            .field("is_manual", &self.is_manual())
            .field("fault", &self.fault());
        f.finish_non_exhaustive()
    }
}
