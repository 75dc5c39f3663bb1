//! Events: something has happened, and who waits for it goes on.
//!
//! # The word
//!
//! ```text
//!   63       62      61       2        1         0
//!  | LOCKED | JOINT | unused | MANUAL | WAITERS | SET |
//! ```
//!
//! - E1: an event that is SET has no WAITERS, not counting those that wait [jointly](super::joint):
//!   who sets it serves them under the lock of the queue. So who comes later takes nothing from
//!   them.
//! - E2: `pulse` sets it and takes that back under one lock: those that stand in the queue at that
//!   moment go on, and nobody else learns of it.
//!
//! The lock of the queue, and who may write the word: [`word`](super::word).

use super::joint::{self, Held, JOINT, Joint};
use super::word::Word;
use crate::rt::time::{self, Elapsed};
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued, Source};
use crate::select::operation::{Operation, Parts};
use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

const SET: u64 = 1;
const WAITERS: u64 = 1 << 1;
const MANUAL: u64 = 1 << 2;

/// In a place's note.
const SERVED: usize = 0;

const REASON: &&str = &"event";

/// Something that has happened, or not: [`wait`](Event::wait) waits until it has.
///
/// One that is reset *by hand* stays set, and lets everybody through, until
/// [`reset`](Event::reset). One that is reset *automatically* lets one through for each
/// [`set`](Event::set), who waits longest; if nobody waits it stays set for the next, and setting
/// it again adds nothing. That is what sets it apart from a [`Semaphore`](super::Semaphore).
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
    word: Word,
    places: Places,
}

// SAFETY: the queue is touched by who has the lock in the word.
unsafe impl Sync for Event {}

impl Event {
    /// One that is reset automatically, and set or not.
    pub const fn auto(is_set: bool) -> Event {
        Event {
            word: Word::new(is_set as u64),
            places: Places::new(),
        }
    }

    /// One that is reset by hand, and set or not.
    pub const fn manual(is_set: bool) -> Event {
        Event {
            word: Word::new(is_set as u64 | MANUAL),
            places: Places::new(),
        }
    }

    /// Waits until it is set; what was done before it was set is seen. A point of cancellation if
    /// it has to wait; a wait that is cancelled has taken nothing. Switches.
    #[inline]
    pub fn wait(&self) {
        if !self.try_wait() {
            self.wait_slow(u64::MAX);
        }
    }

    /// Like [`Event::wait`], if it is set. Never waits.
    #[inline]
    pub fn try_wait(&self) -> bool {
        let word = self.word.see();
        word & SET != 0 && (word & MANUAL != 0 || self.word.take_while(word, step).is_ok())
    }

    /// Like [`Event::wait`], until `deadline` at most.
    ///
    /// # Errors
    /// [`Elapsed`].
    pub fn wait_deadline(&self, deadline: Instant) -> Result<(), Elapsed> {
        self.wait_until(time::nanos(deadline))
    }

    /// Like [`Event::wait`], for `timeout` at most.
    ///
    /// # Errors
    /// [`Elapsed`].
    pub fn wait_timeout(&self, timeout: Duration) -> Result<(), Elapsed> {
        self.wait_until(time::after(timeout))
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
        let word = self.word.load();
        // Also if it is set: who waits then sees what was done before this call.
        if self
            .word
            .give_while(word, |word| {
                (word & (WAITERS | JOINT) == 0).then_some(word | SET)
            })
            .is_err()
        {
            self.set_slow(true);
        }
    }

    /// Sets it for those that wait at this moment, all of them or, if it is reset automatically,
    /// the first; then it is not set. Does not switch.
    pub fn pulse(&self) {
        self.set_slow(false);
    }

    /// Undoes a [`set`](Event::set). Whether there was one.
    pub fn reset(&self) -> bool {
        self.word
            .take_while(self.word.load(), |word| {
                (word & SET != 0).then_some(word & !SET)
            })
            .is_ok()
    }

    /// Whether it is set; may be outdated at once.
    pub fn is_set(&self) -> bool {
        self.word.load() & SET != 0
    }

    /// False when the deadline has passed.
    #[cold]
    fn wait_slow(&self, deadline: u64) -> bool {
        let served = wait::one(self, REASON, deadline, |single, _| {
            let word = self.word.lock();
            if let Some(word) = step(word) {
                self.word.unlock(word);
                return Some(SERVED);
            }
            // SAFETY: who waits leaves the queue before the place ends.
            unsafe { self.places.push(single.place(SERVED), false) };
            self.word.unlock(word | WAITERS);
            None
        });
        served.is_some()
    }

    #[cold]
    fn set_slow(&self, stays: bool) {
        wait::undisturbed(|served| {
            let (word, held) = joint::lock_to_give(self);
            let word = self.serve(word | SET, held.as_ref(), served);
            self.word.unlock(if stays { word } else { word & !SET });
        });
    }

    /// The word after those that wait were served, as far as it is set.
    fn serve(&self, mut word: u64, held: Option<&Held>, served: &mut ClaimedList) -> u64 {
        joint::serve(self, &mut word, held, served, |place, word, served| {
            let Some(next) = step(*word) else {
                return false;
            };
            if let Some(claimed) = self.places.claim(place) {
                *word = next;
                served.push(claimed);
            }
            true
        });
        if joint::has_plain(&self.places, word) {
            word | WAITERS
        } else {
            word & !WAITERS
        }
    }
}

/// The word after one was let through.
#[inline(always)]
fn step(word: u64) -> Option<u64> {
    (word & SET != 0).then_some(if word & MANUAL == 0 {
        word & !SET
    } else {
        word
    })
}

// SAFETY: the queue is touched under the lock in the word only.
unsafe impl Queued for Event {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        let word = self.word.lock();
        let left = self.places.remove(place);
        // It has kept nothing from those behind it: while anybody waits the event is not set.
        self.word.unlock(if joint::has_plain(&self.places, word) {
            word
        } else {
            word & !WAITERS
        });
        left
    }
}

// SAFETY: as above.
unsafe impl Source for Event {
    fn serve_now(&self, _: usize) -> Option<usize> {
        self.try_wait().then_some(SERVED)
    }

    fn enter_or_claim(&self, place: &Place, claim: &mut dyn FnMut() -> bool, _: &mut ClaimedList) {
        let mut word = self.word.lock();
        if let Some(next) = step(word) {
            if claim() {
                word = next;
            }
        } else {
            // SAFETY: as in `wait_slow`.
            unsafe { self.places.push(place, false) };
            word |= WAITERS;
        }
        self.word.unlock(word);
    }
}

// SAFETY: as above.
unsafe impl Joint for Event {
    fn lock(&self) -> u64 {
        self.word.lock()
    }

    fn unlock(&self, word: u64) {
        self.word.unlock(word);
    }

    fn queue(&self) -> &Places {
        &self.places
    }

    fn is_there(&self, word: u64, _: usize, _: Option<&Place>) -> bool {
        word & SET != 0
    }

    fn take(&self, word: u64, _: &Cell<usize>) -> u64 {
        step(word).unwrap_or(word)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        debug_assert!(
            self.places.has_nobody(),
            "an event is dropped while somebody waits for it"
        );
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load();
        f.debug_struct("Event")
            .field("is_set", &(word & SET != 0))
            .field("is_manual", &(word & MANUAL != 0))
            .field("waiters", &self.word.count(&self.places))
            .finish()
    }
}

/// Waits for an event, when it is selected. By [`Event::waiting`].
#[derive(Debug)]
pub struct Waiting<'a> {
    event: &'a Event,
    place: Place,
}

impl Parts for Waiting<'_> {
    fn source(&self) -> Option<&dyn Source> {
        Some(self.event)
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
