//! Events that processes share.

use super::error::{Fault, TryError, WaitError};
use super::handle::ObjectHandle;
use super::object::{BUSY, COUNT, FIRST, SegmentObjectKind};
use crate::rt::sync::Ordering::*;
use crate::rt::timed;
use std::fmt;

/// An event in a [`Segment`](super::Segment): the same as [`sync::Event`](crate::sync::Event), but
/// between processes. If a waiter that an automatically reset event has let through dies before it
/// goes on, the next waiter is let through.
///
/// Clones are the same event. Not for signal handlers.
#[derive(Clone)]
pub struct Event(pub(super) ObjectHandle);

impl Event {
    /// Waits until the event is set. A point of cancellation if it has to wait; a wait that is
    /// cancelled has taken nothing. Switches.
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

    /// Like [`Event::wait`], if the event is set. Never waits.
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

    /// False if that could not be done in one step.
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

    /// Sets the event. Does not switch.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn set(&self) -> Result<(), Fault> {
        let word = self.0.word().load(Relaxed);
        // ORDERING(seg-word.1): Release, pairs with seg-word.2: a waiter that goes on sees
        // everything done before, even if the event was set already.
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

    /// Sets the event for those that wait at this moment: all of them or, if it is reset
    /// automatically, the first. Afterwards it is not set. Does not switch.
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

    /// Undoes a [`set`](Event::set). Returns whether the event was set. Does not switch.
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

    /// Whether the event is set; may be outdated at once.
    pub fn is_set(&self) -> bool {
        self.0.word().load(Relaxed) & COUNT != 0
    }

    /// Whether the event is reset by hand.
    pub fn is_manual(&self) -> bool {
        self.0.kind() == SegmentObjectKind::Manual
    }

    /// How many wait for the event, including dead waiters that have not been found yet; may be
    /// outdated at once.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn waiters(&self) -> Result<usize, Fault> {
        self.0.object().locked(|locked| locked.count(FIRST))
    }

    /// The fault of the event, if it is dead or corrupt; none while it is in order.
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
