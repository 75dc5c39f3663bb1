//! Semaphores: a number of wakeups, and a queue of the waiters for one.
//!
//! # The word
//!
//! ```text
//!   63       62      61    35    34       33        32     31            0
//!  | LOCKED | JOINT | unused | WOKEN | CLOSED | WAITERS | saved wakeups |
//! ```
//!
//! - S1: it is the word of a [gate](super::gate). Each operation costs one locked operation,
//!   whether it uses the queue or not.
//! - S2: WAITERS says that there are waiters, not counting [joint](super::joint) ones. A strong
//!   semaphore with WAITERS has fewer wakeups than the first waiter wants: a release hands its
//!   wakeups on under the lock, to the first, and a later caller finds WAITERS and stands behind.
//!   So no waiter is overtaken (blocked-queue strong semantics: K. Reek, "The well-tempered
//!   semaphore", 2002; the paper's "strong").
//! - S3: a barging semaphore keeps released wakeups, and tells the first waiter to try. Any caller
//!   may take them before.
//! - S4: CLOSED: there are no waiters, and there will be none.
//! - S5: a semaphore used for mutual exclusion goes from 1 to 0 and back. As long as that is so
//!   (`guess`, a hint) the word is guessed rather than read: a locked operation on a word that was
//!   just read takes half as long again, if a locked operation has written it.
//!
//! `acquire` and `release` are the paper's `downsem` and `upsem` (E. Soriano-Salvador and others,
//! "Optimistic Semaphores with Non-deterministic Choice Operation for Heterogeneous Manycore
//! Systems"), [`acquire_any`](super::acquire_any) is its `altsems`; it takes no lock that all
//! semaphores share.

mod error;

pub use error::{AcquireError, Closed, Overflow, TryAcquireError};

use super::gate::{Gate, NO_MORE, PATIENT, Policy, SERVED, TRY, Until};
use super::joint::JOINT;
use crate::rt::timed;
use crate::rt::wait::{self, Place, SelectQueue};
use crate::rt::word::LOCKED;
use crate::select::operation::{Operation, OperationParts};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const COUNT: u64 = u32::MAX as u64;
const WAITERS: u64 = 1 << 32;
const CLOSED: u64 = 1 << 33;
const WOKEN: u64 = 1 << 34;

/// There are waiters, and one was told to try: any caller may take a wakeup.
const TOLD: u64 = WAITERS | WOKEN;

/// In `guess`: to read the word (NOTHING). Otherwise there is one wakeup, or it is taken; and there
/// are no waiters (ONE), or the last waiter was told to try (ONE_AND_WOKEN), or one of several was
/// (ONE_AND_TOLD).
const NOTHING: u8 = 0;
const ONE: u8 = 1;
const ONE_AND_WOKEN: u8 = 2;
const ONE_AND_TOLD: u8 = 3;

/// A counter of wakeups: [`release`](Semaphore::release) adds some, [`acquire`](Semaphore::acquire)
/// takes one, and waits while there is none.
///
/// A semaphore made by [`new`](Semaphore::new) is *strong*: the longest waiter is served first, and
/// a later caller cannot take a wakeup that was given to a waiter. One made by
/// [`barging`](Semaphore::barging) lets a running caller take a saved wakeup, and so has a higher
/// throughput when many threads contend for it; its waiters may be overtaken, but not for ever.
///
/// Nothing here makes a system call unless the caller has to wait, or wakes a kernel thread that
/// sleeps. Not for signal handlers.
///
/// ```
/// let tickets = umcg::sync::Semaphore::new(2);
/// tickets.acquire().unwrap();
/// tickets.acquire().unwrap();
/// assert!(tickets.try_acquire().is_err());
/// tickets.release(1).unwrap();
/// assert!(tickets.try_acquire().is_ok());
/// ```
#[repr(C)]
pub struct Semaphore {
    gate: Gate<Wakeups>,
}

/// A caller or waiter wants a number of wakeups.
#[repr(C)]
pub(crate) struct Wakeups {
    is_barging: bool,
    /// Each reader of the word sets the next guess. Not a matter of policy, but there is room for
    /// it here.
    guess: AtomicU8,
}

impl Wakeups {
    /// Whether so many may be taken at once, as far as the word says.
    #[inline(always)]
    fn may_take(&self, word: u64, wakeups: u32) -> bool {
        word & CLOSED == 0
            && (word & WAITERS == 0 || self.is_barging)
            && word & COUNT >= u64::from(wakeups)
    }
}

impl Policy for Wakeups {
    const REASON: &'static &'static str = &"semaphore";
    const WAITERS: u64 = WAITERS;
    const WOKEN: u64 = WOKEN;

    #[inline(always)]
    fn pass(&self, word: u64, want: usize) -> Option<(u64, usize)> {
        let wakeups = want as u32;
        if word & CLOSED != 0 {
            Some((word, NO_MORE))
        } else if self.may_take(word, wakeups) {
            Some((word - u64::from(wakeups), SERVED))
        } else {
            None
        }
    }

    #[inline(always)]
    fn admit(&self, word: u64, want: usize) -> Option<(u64, usize)> {
        let wakeups = u64::from(want as u32);
        let tells = self.is_barging && want & PATIENT != 0;
        if word & COUNT < wakeups || (tells && word & WOKEN != 0) {
            None
        } else if tells {
            Some((word | WOKEN, TRY))
        } else {
            Some((word - wakeups, SERVED))
        }
    }

    #[inline(always)]
    fn has_nothing(&self, word: u64, _: usize) -> bool {
        word & (COUNT | CLOSED) == 0
    }

    #[inline(always)]
    fn hands_over(&self) -> bool {
        !self.is_barging
    }

    fn is_closed(&self, word: u64) -> bool {
        word & CLOSED != 0
    }
}

impl Semaphore {
    /// A strong one with so many wakeups.
    pub const fn new(wakeups: u32) -> Semaphore {
        Semaphore::with(wakeups, false)
    }

    /// A barging one with so many wakeups.
    pub const fn barging(wakeups: u32) -> Semaphore {
        Semaphore::with(wakeups, true)
    }

    const fn with(wakeups: u32, is_barging: bool) -> Semaphore {
        Semaphore {
            gate: Gate::new(
                wakeups as u64,
                Wakeups {
                    is_barging,
                    guess: AtomicU8::new(if wakeups == 1 { ONE } else { NOTHING }),
                },
            ),
        }
    }

    /// Takes a wakeup; waits until there is one. A point of cancellation if it has to wait; a wait
    /// that is cancelled has taken nothing. Switches.
    ///
    /// # Errors
    /// [`Closed`].
    #[inline]
    pub fn acquire(&self) -> Result<(), Closed> {
        self.acquire_many(1)
    }

    /// Takes so many at once. A waiter for many is not overtaken by a caller that wants few.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    #[inline]
    pub fn acquire_many(&self, wakeups: u32) -> Result<(), Closed> {
        if self.take_as_guessed(wakeups) {
            Ok(())
        } else {
            self.acquire_slow(wakeups)
        }
    }

    /// Takes a wakeup if there is one, and no waiter for it. Never waits.
    ///
    /// # Errors
    /// [`TryAcquireError`].
    #[inline]
    pub fn try_acquire(&self) -> Result<(), TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes so many if they are there. Never waits.
    ///
    /// # Errors
    /// [`TryAcquireError`].
    #[inline]
    pub fn try_acquire_many(&self, wakeups: u32) -> Result<(), TryAcquireError> {
        if self.take_as_guessed(wakeups) {
            Ok(())
        } else {
            self.try_acquire_slow(wakeups)
        }
    }

    /// [`Semaphore::try_acquire`] for a look at many: it writes nothing to a semaphore without
    /// wakeups.
    #[inline(always)]
    pub(super) fn try_among_others(&self) -> Result<(), TryAcquireError> {
        if self.gate.policy.has_nothing(self.gate.word.load(), 1) {
            Err(TryAcquireError::Empty)
        } else {
            self.try_acquire()
        }
    }

    timed! {
        "Semaphore::acquire";
        /// # Errors
        /// [`AcquireError`].
        pub fn acquire_deadline, acquire_timeout(&self) -> Result<(), AcquireError>;
        |deadline| self.acquire_until(1, deadline)
    }

    timed! {
        "Semaphore::acquire_many";
        /// # Errors
        /// [`AcquireError`].
        pub fn acquire_many_deadline, acquire_many_timeout(&self, wakeups: u32)
            -> Result<(), AcquireError>;
        |deadline| self.acquire_until(wakeups, deadline)
    }

    /// [`Semaphore::acquire_many_deadline`] in nanoseconds.
    pub(crate) fn acquire_until(&self, wakeups: u32, deadline: u64) -> Result<(), AcquireError> {
        if self.take_as_guessed(wakeups) || self.take_as_read(wakeups) {
            Ok(())
        } else {
            self.wait(wakeups, deadline)
        }
    }

    /// Takes a wakeup, and gives it back when the value is dropped.
    ///
    /// # Errors
    /// As [`Semaphore::acquire`].
    pub fn access(&self) -> Result<Permit<'_>, Closed> {
        self.acquire().map(|()| Permit(self))
    }

    /// Like [`Semaphore::access`], if there is a wakeup, and no waiter for it. Never waits.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire`].
    pub fn try_access(&self) -> Result<Permit<'_>, TryAcquireError> {
        self.try_acquire().map(|()| Permit(self))
    }

    timed! {
        "Semaphore::access";
        /// # Errors
        /// [`AcquireError`].
        pub fn access_deadline, access_timeout(&self) -> Result<Permit<'_>, AcquireError>;
        |deadline| self.acquire_until(1, deadline).map(|()| Permit(self))
    }

    /// The gate, for waits beside others.
    #[inline(always)]
    pub(crate) fn gate(&self) -> &Gate<Wakeups> {
        &self.gate
    }

    /// [`Semaphore::acquire`] as an operation, to wait for it beside others: see
    /// [`select`](mod@crate::select).
    pub fn acquiring(&self) -> Acquiring<'_> {
        Acquiring {
            semaphore: self,
            place: Place::new(),
            outcome: Cell::new(None),
        }
    }

    /// Adds so many wakeups: waiters get them in their order. Does not switch.
    ///
    /// # Errors
    /// [`Overflow`]: nothing was added.
    #[inline]
    pub fn release(&self, wakeups: u32) -> Result<(), Overflow> {
        let give = |from| self.gate.word.give(from, from + 1).is_ok();
        let guessed = wakeups == 1
            && match self.gate.policy.guess.load(Relaxed) {
                ONE => give(0),
                ONE_AND_TOLD => give(TOLD),
                ONE_AND_WOKEN => give(WOKEN),
                _ => false,
            };
        if guessed {
            Ok(())
        } else {
            self.release_slow(wakeups)
        }
    }

    /// Ends all waiting: all waiters, and all later callers, get [`Closed`]. Wakeups can still be
    /// released and counted, but not acquired. Does not switch.
    pub fn close(&self) {
        wait::undisturbed(|served| {
            let word = self.gate.word.lock() | CLOSED;
            while let Some(claimed) = self.gate.places.claim_first() {
                claimed.place().note.set(NO_MORE);
                served.push(claimed);
            }
            self.gate.word.unlock(self.gate.noted(word));
        });
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.gate.word.load() & CLOSED != 0
    }

    /// How many wakeups are saved; may be outdated at once.
    pub fn available(&self) -> u32 {
        (self.gate.word.load() & COUNT) as u32
    }

    /// False when that could not be done in one step.
    #[inline(always)]
    fn take_as_guessed(&self, wakeups: u32) -> bool {
        let take = |to| self.gate.word.take(to + 1, to).is_ok();
        wakeups == 1
            && match self.gate.policy.guess.load(Relaxed) {
                ONE => take(0),
                ONE_AND_TOLD => take(TOLD),
                ONE_AND_WOKEN => take(WOKEN),
                _ => false,
            }
    }

    /// Likewise.
    #[inline]
    fn take_as_read(&self, wakeups: u32) -> bool {
        let word = self.gate.word.load();
        if word & LOCKED != 0 || !self.gate.policy.may_take(word, wakeups) {
            self.guess_next(NOTHING);
            return false;
        }
        self.guess_from(word.wrapping_sub(1));
        self.gate.word.take(word, word - u64::from(wakeups)).is_ok()
    }

    /// Likewise.
    #[inline]
    fn release_as_read(&self, wakeups: u32) -> bool {
        let word = self.gate.word.load();
        // A waiter that was told to try will see the wakeups that were added.
        let nobody_to_tell = word & (WAITERS | JOINT) == 0
            || (self.gate.policy.is_barging && word & (WOKEN | JOINT) == WOKEN);
        if word & LOCKED != 0 || !nobody_to_tell || (word & COUNT) + u64::from(wakeups) > COUNT {
            self.guess_next(NOTHING);
            return false;
        }
        self.guess_from(word);
        self.gate.word.give(word, word + u64::from(wakeups)).is_ok()
    }

    /// Sets the guess for a semaphore whose word is `taken` while the wakeup is taken.
    #[inline(always)]
    fn guess_from(&self, taken: u64) {
        let guess = match taken {
            0 => ONE,
            TOLD if self.gate.policy.is_barging => ONE_AND_TOLD,
            WOKEN => ONE_AND_WOKEN,
            _ => NOTHING,
        };
        self.guess_next(guess);
    }

    /// Writes only a new guess, because other threads read it.
    #[inline(always)]
    fn guess_next(&self, guess: u8) {
        if self.gate.policy.guess.load(Relaxed) != guess {
            self.gate.policy.guess.store(guess, Relaxed);
        }
    }

    #[cold]
    fn try_acquire_slow(&self, wakeups: u32) -> Result<(), TryAcquireError> {
        if self.take_as_read(wakeups) {
            return Ok(());
        }
        let word = &self.gate.word;
        let take = |word: u64| {
            let may_take = self.gate.policy.may_take(word, wakeups);
            may_take.then(|| word - u64::from(wakeups))
        };
        match word.take_while(word.load(), take) {
            Ok(_) => Ok(()),
            Err(word) if word & CLOSED != 0 => Err(TryAcquireError::Closed),
            Err(_) => Err(TryAcquireError::Empty),
        }
    }

    #[inline(never)]
    fn acquire_slow(&self, wakeups: u32) -> Result<(), Closed> {
        // Without a deadline there is no other error.
        if self.take_as_read(wakeups) {
            Ok(())
        } else {
            self.wait(wakeups, u64::MAX).map_err(|_| Closed)
        }
    }

    #[inline(always)]
    fn wait(&self, wakeups: u32, deadline: u64) -> Result<(), AcquireError> {
        match self.gate.wait(wakeups as usize, Until::Deadline(deadline)) {
            None => Err(AcquireError::TimedOut),
            Some(NO_MORE) => Err(AcquireError::Closed),
            Some(_) => Ok(()),
        }
    }

    #[inline(never)]
    fn release_slow(&self, wakeups: u32) -> Result<(), Overflow> {
        if self.release_as_read(wakeups) || (self.gate.policy.hands_over() && self.hand_on(wakeups))
        {
            return Ok(());
        }
        let add = |word: u64| {
            let fits = (word & COUNT) + u64::from(wakeups) <= COUNT;
            fits.then(|| word + u64::from(wakeups))
        };
        self.gate
            .give_locked(&add)
            .map_err(|_| Overflow)
            .map(|_| ())
    }

    /// Gives the first waiter of a strong semaphore its wakeups, if it wants just so many, and the
    /// next one wants at least one: then no other waiter is to be served. False if that is not so.
    #[inline(always)]
    fn hand_on(&self, wakeups: u32) -> bool {
        wait::hand_over(|| {
            let word = self.gate.word.lock();
            let wanted = |place: &Place| place.note.get() as u32;
            let next_waits = |first: &Place| {
                self.gate
                    .places
                    .after(first)
                    .is_none_or(|next| wanted(next) != 0)
            };
            let is_all = |first: &&Place| {
                wanted(first) == wakeups && word & (COUNT | JOINT) == 0 && next_waits(first)
            };
            let claimed = self
                .gate
                .places
                .first()
                .filter(is_all)
                .and_then(|first| self.gate.places.claim(first));
            if let Some(claimed) = &claimed {
                claimed.place().note.set(SERVED);
            }
            self.gate.word.unlock(if self.gate.places.is_empty() {
                word & !WAITERS
            } else {
                word
            });
            claimed
        })
    }
}

impl Default for Semaphore {
    /// A strong one without wakeups.
    fn default() -> Semaphore {
        Semaphore::new(0)
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.gate.word.load();
        f.debug_struct("Semaphore")
            .field("available", &(word & COUNT))
            .field("has_waiters", &(word & WAITERS != 0))
            .field("waiters", &self.gate.waiters())
            .field("closed", &(word & CLOSED != 0))
            .finish()
    }
}

/// A wakeup that goes back to its semaphore when this is dropped. By [`Semaphore::access`].
#[derive(Debug)]
#[must_use = "dropping it gives the wakeup back"]
pub struct Permit<'a>(&'a Semaphore);

impl Permit<'_> {
    /// Keeps the wakeup from going back.
    pub fn forget(self) {
        std::mem::forget(self);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        // A taken wakeup fits again, unless the program has released more than the semaphore can
        // keep: then it is lost, as that one would be.
        let _ = self.0.release(1);
    }
}

/// Takes a wakeup, when it is selected. By [`Semaphore::acquiring`].
#[derive(Debug)]
pub struct Acquiring<'a> {
    semaphore: &'a Semaphore,
    place: Place,
    outcome: Cell<Option<Result<(), Closed>>>,
}

impl OperationParts for Acquiring<'_> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        Some(&self.semaphore.gate)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn note(&self) -> usize {
        1
    }

    fn finish(&self, note: usize) -> bool {
        self.outcome
            .set(Some(if note == NO_MORE { Err(Closed) } else { Ok(()) }));
        true
    }
}

impl Operation for Acquiring<'_> {
    type Output = Result<(), Closed>;

    fn outcome(&mut self) -> Result<(), Closed> {
        self.outcome.take().expect("the operation was not selected")
    }
}
