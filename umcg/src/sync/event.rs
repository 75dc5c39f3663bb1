//! Events: something has happened, and its waiters go on.
//!
//! # The word
//!
//! ```text
//!   63       62      61       2        1         0
//!  | LOCKED | JOINT | unused | MANUAL | WAITERS | SET |
//! ```
//!
//! It is the word of a [gate](super::gate), which any waiter passes while the event is SET.
//!
//! - E1: an event that is SET has no WAITERS: `set` serves them under the lock of the queue. So a
//!   later caller takes nothing from them.
//! - E2: `pulse` sets it and takes that back under one lock: the waiters in the queue at that
//!   moment go on, and no other learns of it.

use super::gate::{Gate, Policy, SERVED, Until};
use crate::rt::time::Elapsed;
use crate::rt::timed;
use crate::rt::wait::{self, Place, SelectQueue};
use crate::select::operation::{Operation, OperationParts};
use std::fmt;

const SET: u64 = 1;
const WAITERS: u64 = 1 << 1;
const MANUAL: u64 = 1 << 2;

/// Something that has happened, or not: [`wait`](Event::wait) waits until it has.
///
/// One that is reset *by hand* stays set, and lets every waiter through, until
/// [`reset`](Event::reset). One that is reset *automatically* lets one waiter through for each
/// [`set`](Event::set), the longest. If there is no waiter it stays set for the next, and setting
/// it again adds nothing. That sets it apart from a [`Semaphore`](super::Semaphore).
///
/// These are the events of Windows (`CreateEvent`), with `pulse`. Not for signal handlers.
///
/// ```
/// let ready = umcg::sync::Event::manual(false);
/// std::thread::scope(|scope| {
///     scope.spawn(|| ready.wait());
///     scope.spawn(|| ready.wait());
///     ready.set();
/// });
/// assert!(ready.is_set());
/// ```
#[repr(C)]
pub struct Event {
    gate: Gate<Happened>,
}

/// Whether a waiter passes depends on the word only.
pub(crate) struct Happened;

impl Policy for Happened {
    const REASON: &'static &'static str = &"event";
    const WAITERS: u64 = WAITERS;

    #[inline(always)]
    fn pass(&self, word: u64, _: usize) -> Option<(u64, usize)> {
        let next = if word & MANUAL == 0 {
            word & !SET
        } else {
            word
        };
        (word & SET != 0).then_some((next, SERVED))
    }
}

impl Event {
    /// One that is reset automatically, and set or not.
    pub const fn auto(is_set: bool) -> Event {
        Event {
            gate: Gate::new(is_set as u64, Happened),
        }
    }

    /// One that is reset by hand, and set or not.
    pub const fn manual(is_set: bool) -> Event {
        Event {
            gate: Gate::new(is_set as u64 | MANUAL, Happened),
        }
    }

    /// Waits until it is set. Everything that was done before it was set is seen. A point of
    /// cancellation if it has to wait; a wait that is cancelled has taken nothing. Switches.
    #[inline]
    pub fn wait(&self) {
        if !self.try_wait() {
            self.wait_slow(u64::MAX);
        }
    }

    /// Like [`Event::wait`], if it is set; false if not. Never waits.
    #[inline]
    pub fn try_wait(&self) -> bool {
        self.gate.try_pass(0).is_some()
    }

    timed! {
        "Event::wait";
        /// # Errors
        /// [`Elapsed`].
        pub fn wait_deadline, wait_timeout(&self) -> Result<(), Elapsed>;
        |deadline| self.wait_until(deadline)
    }

    /// [`Event::wait_deadline`] in nanoseconds.
    pub(crate) fn wait_until(&self, deadline: u64) -> Result<(), Elapsed> {
        if self.try_wait() || self.wait_slow(deadline) {
            Ok(())
        } else {
            Err(Elapsed)
        }
    }

    /// [`Event::wait`] as an operation, to wait for it beside others: see
    /// [`select`](mod@crate::select).
    pub fn waiting(&self) -> Waiting<'_> {
        Waiting {
            event: self,
            place: Place::new(),
        }
    }

    /// Sets it. Does not switch.
    #[inline]
    pub fn set(&self) {
        // Written also if it is set already: a later waiter then sees everything done before this
        // call.
        let _ = self
            .gate
            .give(self.gate.word.load(), |word| Some(word | SET));
    }

    /// Sets it for the waiters of this moment: all of them or, if it is reset automatically, the
    /// first. Afterwards it is not set. Does not switch.
    pub fn pulse(&self) {
        wait::undisturbed(|served| {
            let _ = self.gate.give_within(&|word| Some(word | SET), SET, served);
        });
    }

    /// Undoes a [`set`](Event::set). Returns whether it was set.
    pub fn reset(&self) -> bool {
        let word = &self.gate.word;
        word.take_while(word.load(), |word| (word & SET != 0).then_some(word & !SET))
            .is_ok()
    }

    /// Whether it is set; may be outdated at once.
    pub fn is_set(&self) -> bool {
        self.gate.word.load() & SET != 0
    }

    /// The gate, for waits beside others.
    pub(crate) fn gate(&self) -> &Gate<Happened> {
        &self.gate
    }

    #[cold]
    fn wait_slow(&self, deadline: u64) -> bool {
        self.gate.wait(0, Until::Deadline(deadline)).is_some()
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.gate.word.load();
        f.debug_struct("Event")
            .field("is_set", &(word & SET != 0))
            .field("is_manual", &(word & MANUAL != 0))
            .field("waiters", &self.gate.waiters())
            .finish()
    }
}

/// Waits for an event, when it is selected. By [`Event::waiting`].
#[derive(Debug)]
pub struct Waiting<'a> {
    event: &'a Event,
    place: Place,
}

impl OperationParts for Waiting<'_> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        Some(&self.event.gate)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn finish(&self, _: usize) -> bool {
        true
    }
}

impl Operation for Waiting<'_> {
    type Output = ();

    fn outcome(&mut self) {}
}
