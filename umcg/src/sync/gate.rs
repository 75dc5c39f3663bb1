//! Gates: a word that says how many may pass, and a queue of the waiters that may not pass yet.
//!
//! Events, semaphores, mutexes, read-write locks, wait groups and the objects of NT are gates. The
//! [`Policy`] of each says when a caller passes and when a waiter does; its fast paths change the
//! word by one compare-and-swap. All code for the queue is here, once.
//!
//! # The word
//!
//! ```text
//!   63       62      61                                     0
//!  | LOCKED | JOINT | the policy's, among it WAITERS, WOKEN  |
//! ```
//!
//! - G1: the queue is touched under the lock in the word only; [`word`](crate::rt::word) says what else
//!   LOCKED means.
//! - G2: WAITERS says that plain places stand in the queue, JOINT that [joint](super::joint) ones
//!   do. With either, a step that may let a waiter pass is done under the lock, by the protocol of
//!   joint waits, and the queue is served before the lock is released. So no waiter is left in the
//!   queue that could pass.
//! - G3: the queue is served in its order. If the policy is IN_ORDER, a waiter that may not pass
//!   holds up those behind it, and one that leaves the queue may have held up others: the queue is
//!   served then, too.
//! - G4: a barging policy does not hand over at once. It tells the first waiter to try (WOKEN: one
//!   was told, and has not tried yet), and callers may pass before that waiter does. A waiter is
//!   told [`TRIES`] times; then it is handed its turn. A waiter that waits for other things too is
//!   handed its turn at once.
//! - G5: an operation touches the gate until it has unlocked it, and not any more. So a waiter that
//!   was served may drop it.

use super::joint::{self, Held, JOINT, Joint};
use crate::rt::time;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued, SelectQueue, Single};
use crate::rt::word::Word;
use std::cell::Cell;
use std::time::{Duration, Instant};

/// In the note of its place: the waiter passed, and the policy has no other answer.
pub(crate) const SERVED: usize = 0;
/// The waiter is told to try.
pub(crate) const TRY: usize = usize::MAX;
/// The gate was closed.
pub(crate) const NO_MORE: usize = usize::MAX - 1;

/// In the want of a waiter: it may be told to try.
pub(crate) const PATIENT: usize = 1 << 32;

/// How often a waiter is told to try in vain, before it is handed its turn.
const TRIES: u32 = 8;

/// Says when callers and waiters pass. A *want* is a number whose meaning is the policy's.
pub(crate) trait Policy {
    /// The name of the wait, in dumps.
    const REASON: &'static &'static str;
    /// In the word: plain places stand in the queue.
    const WAITERS: u64;
    /// In the word: a waiter was told to try, and has not tried yet.
    const WOKEN: u64 = 0;
    /// A waiter that may not pass holds up those behind it.
    const IN_ORDER: bool = true;

    /// For a caller that comes now: the word after it has passed, and how it passed. None if it has
    /// to wait.
    fn pass(&self, word: u64, want: usize) -> Option<(u64, usize)>;

    /// The same for a waiter in the queue that no waiter before it holds up.
    #[inline(always)]
    fn admit(&self, word: u64, want: usize) -> Option<(u64, usize)> {
        self.pass(word, want)
    }

    /// Whether it shows at a glance that no caller passes now.
    #[inline(always)]
    fn has_nothing(&self, word: u64, want: usize) -> bool {
        self.pass(word, want).is_none()
    }

    /// Whether the waiter stands in front of all others.
    #[inline(always)]
    fn goes_first(&self, _want: usize) -> bool {
        false
    }

    /// True if a woken waiter has passed. If not it has to try.
    #[inline(always)]
    fn hands_over(&self) -> bool {
        true
    }

    /// Whether no waiter will pass any more.
    fn is_closed(&self, _word: u64) -> bool {
        false
    }
}

/// How long to wait.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// Without a deadline, and no point of cancellation.
    TheEnd,
    /// A point of cancellation. The deadline is in nanoseconds; `u64::MAX` for none.
    Deadline(u64),
}

impl Until {
    pub(crate) fn at(deadline: Instant) -> Until {
        Until::Deadline(time::nanos(deadline))
    }

    pub(crate) fn after(timeout: Duration) -> Until {
        Until::Deadline(time::after(timeout))
    }
}

#[repr(C)]
pub(crate) struct Gate<P: Policy> {
    pub(crate) word: Word,
    pub(crate) places: Places,
    pub(crate) policy: P,
}

// SAFETY: G1.
unsafe impl<P: Policy + Sync> Sync for Gate<P> {}

impl<P: Policy> Gate<P> {
    pub(crate) const fn new(word: u64, policy: P) -> Gate<P> {
        Gate {
            word: Word::new(word),
            places: Places::new(),
            policy,
        }
    }

    /// Passes if that can be done at once. Writes nothing if not, or if passing changes nothing.
    #[inline]
    pub(crate) fn try_pass(&self, want: usize) -> Option<usize> {
        let word = self.word.see();
        let (next, how) = self.policy.pass(word, want)?;
        if next == word {
            return Some(how);
        }
        let before = self
            .word
            .take_while(word, |word| Some(self.policy.pass(word, want)?.0))
            .ok()?;
        Some(self.policy.pass(before, want)?.1)
    }

    /// [`Gate::try_pass`], out of line.
    #[inline(never)]
    fn pass_now(&self, want: usize) -> Option<usize> {
        self.try_pass(want)
    }

    /// Waits until it passes. None when the deadline has passed first. Switches.
    #[inline(always)]
    pub(crate) fn wait(&self, want: usize, until: Until) -> Option<usize> {
        if !self.policy.hands_over() {
            return self.wait_and_try(want, until);
        }
        wait::one(self, P::REASON, until.deadline(), |single, _| {
            let word = self.word.lock();
            if let Some((next, how)) = self.policy.pass(word, want) {
                self.word.unlock(next);
                return Some(how);
            }
            let place = until.place(single, want);
            // SAFETY: the caller leaves the queue before the place ends.
            unsafe { self.places.push(place, self.policy.goes_first(want)) };
            self.word.unlock(word | P::WAITERS);
            None
        })
    }

    /// The same by a policy that tells waiters to try.
    #[inline(never)]
    fn wait_and_try(&self, want: usize, until: Until) -> Option<usize> {
        let mut tries = 0;
        loop {
            let enter = |single: &mut Single<'_>, served: &mut ClaimedList| {
                self.enter_or_try(single, want, until, tries, served)
            };
            match wait::one(self, P::REASON, until.deadline(), enter) {
                Some(TRY) => tries += 1,
                ended => return ended,
            }
        }
    }

    /// Passes, or has the caller stand in the queue: at its end, or in front if it was told to try
    /// before.
    #[inline(always)]
    fn enter_or_try(
        &self,
        single: &mut Single<'_>,
        want: usize,
        until: Until,
        tries: u32,
        served: &mut ClaimedList,
    ) -> Option<usize> {
        let (mut word, held) = joint::lock_to_give(self);
        if tries > 0 {
            word &= !P::WOKEN;
        }
        if let Some((next, how)) = self.policy.pass(word, want) {
            // There may be something for the next waiter, too.
            let word = self.serve(next, held.as_ref(), served);
            self.word.unlock(word);
            return Some(how);
        }
        let place = until.place(single, if tries < TRIES { want | PATIENT } else { want });
        // SAFETY: the caller leaves the queue before the place ends.
        unsafe { self.places.push(place, tries > 0) };
        self.word.unlock(word | P::WAITERS);
        None
    }

    /// Changes the word by `step`, if there is a step from it, and serves the waiters that may pass
    /// then. Begins with `word`, which the caller has read. Returns the word before; the error is a
    /// word without a step.
    #[inline]
    pub(crate) fn give(&self, word: u64, step: impl Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        let alone = |word: u64| {
            if word & (P::WAITERS | JOINT) == 0 {
                step(word)
            } else {
                None
            }
        };
        self.word
            .give_while(word, alone)
            .or_else(|_| self.give_locked(&step))
    }

    /// The same, where there are waiters.
    #[cold]
    pub(crate) fn give_locked(&self, step: &dyn Fn(u64) -> Option<u64>) -> Result<u64, u64> {
        wait::undisturbed(|served| self.give_within(step, 0, served))
    }

    /// The same; afterwards the bits `back` are cleared, if no waiter has taken them. The caller is
    /// not preempted, holds no object's lock, and resumes the waiters served.
    pub(crate) fn give_within(
        &self,
        step: &dyn Fn(u64) -> Option<u64>,
        back: u64,
        served: &mut ClaimedList,
    ) -> Result<u64, u64> {
        let (before, held) = joint::lock_to_give(self);
        let Some(word) = step(before) else {
            self.word.unlock(before);
            return Err(before);
        };
        let word = self.serve(word, held.as_ref(), served);
        self.word.unlock(word & !back);
        Ok(before)
    }

    /// Serves the waiters that may pass. Returns the word after that. The caller holds the lock.
    #[inline(always)]
    pub(crate) fn serve(&self, word: u64, held: Option<&Held>, served: &mut ClaimedList) -> u64 {
        self.serve_by(word, held, served, |word, want| {
            self.policy.admit(word, want)
        })
    }

    /// The same, for a waiter that leaves others behind.
    #[cold]
    fn serve_behind(&self, word: u64, held: Option<&Held>, served: &mut ClaimedList) -> u64 {
        self.serve(word, held, served)
    }

    /// The same, with `admit` in place of the policy's.
    #[inline(always)]
    pub(crate) fn serve_by(
        &self,
        mut word: u64,
        held: Option<&Held>,
        served: &mut ClaimedList,
        admit: impl Fn(u64, usize) -> Option<(u64, usize)>,
    ) -> u64 {
        joint::serve(self, &mut word, held, served, |place, word, served| {
            let Some((next, how)) = admit(*word, place.note.get()) else {
                return !P::IN_ORDER;
            };
            if let Some(claimed) = self.places.claim(place) {
                claimed.place().note.set(how);
                *word = next;
                served.push(claimed);
            }
            true
        });
        self.noted(word)
    }

    /// The word with WAITERS as the queue is.
    #[inline(always)]
    pub(crate) fn noted(&self, word: u64) -> u64 {
        if joint::has_plain(&self.places, word) {
            word | P::WAITERS
        } else {
            word & !P::WAITERS
        }
    }

    /// The number of waiters, for people.
    #[cold]
    pub(crate) fn waiters(&self) -> usize {
        wait::undisturbed(|_| {
            let word = self.word.lock();
            let count = self.places.len();
            self.word.unlock(word);
            count
        })
    }
}

impl Until {
    #[inline(always)]
    fn deadline(self) -> u64 {
        match self {
            Until::TheEnd => u64::MAX,
            Until::Deadline(deadline) => deadline,
        }
    }

    #[inline(always)]
    fn place<'s>(self, single: &'s mut Single<'_>, want: usize) -> &'s Place {
        match self {
            Until::TheEnd => single.place_to_the_end(want),
            Until::Deadline(_) => single.place(want),
        }
    }
}

// SAFETY: G1.
unsafe impl<P: Policy> Queued for Gate<P> {
    fn leave(&self, place: &Place, served: &mut ClaimedList) -> bool {
        let (mut word, held) = joint::lock_to_give(self);
        let has_left = self.places.remove(place);
        word = if self.places.is_empty() {
            word & !P::WAITERS
        } else if has_left && P::IN_ORDER {
            self.serve_behind(word, held.as_ref(), served)
        } else {
            self.noted(word)
        };
        self.word.unlock(word);
        has_left
    }

    fn hands_over(&self) -> bool {
        self.policy.hands_over()
    }
}

// SAFETY: as above.
unsafe impl<P: Policy> SelectQueue for Gate<P> {
    /// In a scan of many objects, those that cannot serve the caller cost no call.
    #[inline]
    fn serve_now(&self, want: usize) -> Option<usize> {
        if self.policy.has_nothing(self.word.load(), want) {
            return None;
        }
        self.pass_now(want)
    }

    /// A waiter that waits for other things too is handed its turn, and does not try.
    fn enter_or_claim(&self, place: &Place, claim: &mut dyn FnMut() -> bool, _: &mut ClaimedList) {
        let mut word = self.word.lock();
        if let Some((next, how)) = self.policy.pass(word, place.note.get()) {
            if claim() {
                place.note.set(how);
                word = next;
            }
        } else {
            // SAFETY: as in `wait`.
            unsafe { self.places.push(place, false) };
            word |= P::WAITERS;
        }
        self.word.unlock(word);
    }
}

// SAFETY: as above.
unsafe impl<P: Policy> Joint for Gate<P> {
    #[inline]
    fn lock(&self) -> u64 {
        self.word.lock()
    }

    #[inline]
    fn unlock(&self, word: u64) {
        self.word.unlock(word);
    }

    fn queue(&self) -> &Places {
        &self.places
    }

    fn is_there(&self, word: u64, want: usize, place: Option<&Place>) -> bool {
        if self.policy.is_closed(word) {
            return false;
        }
        let Some(place) = place else {
            return self.policy.pass(word, want).is_some();
        };
        // As the queue is served: a plain place that waits holds up those behind it.
        let is_held_up =
            P::IN_ORDER && word & P::WAITERS != 0 && joint::plain_before(&self.places, Some(place));
        !is_held_up && self.policy.admit(word, want).is_some()
    }

    fn take(&self, word: u64, note: &Cell<usize>) -> u64 {
        let Some((next, how)) = self.policy.admit(word, note.get()) else {
            return word;
        };
        note.set(how);
        next
    }

    fn is_closed(&self) -> bool {
        self.policy.is_closed(self.word.load())
    }
}

impl<P: Policy> Drop for Gate<P> {
    fn drop(&mut self) {
        debug_assert!(
            self.places.has_no_waiter(),
            "{}: dropped while somebody waits for it",
            P::REASON
        );
    }
}
