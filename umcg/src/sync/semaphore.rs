//! Semaphores: a number of wakeups, and a queue of those that wait for one.
//!
//! # The word
//!
//! ```text
//!   63       62      61    36    35       34       33        32    31            0
//!  | unused | JOINT | unused | WOKEN | CLOSED | WAITERS | LOCKED | saved wakeups |
//! ```
//!
//! - S1: while LOCKED only the holder of the lock writes the word; it unlocks by a plain store.
//!   Everybody else changes the word by compare-and-swap from a word without LOCKED. So each
//!   operation has one locked operation, whether it has to do with the queue or not.
//! - S2: WAITERS says that somebody waits, not counting those that wait [jointly](super::joint). A
//!   strong semaphore with WAITERS has fewer wakeups than the first waiter wants: whatever comes is
//!   handed on under the lock, to the first; who comes later finds WAITERS, and stands behind. So
//!   nobody is overtaken (blocked-queue strong semantics: K. Reek, "The well-tempered semaphore",
//!   2002; the paper's "strong").
//! - S3: a barging semaphore keeps what comes, and tells the first waiter to try (WOKEN: one has
//!   been told, and has not tried yet). Whoever is there may take it before. One that has tried
//!   [`TRIES`] times in vain, or waits for other things too, is served as by a strong one.
//! - S4: CLOSED: nobody waits, and nobody will.
//! - S5: what excludes goes from 1 to 0 and back. As long as that is so (`guess`, a hint) the word
//!   is guessed rather than read: a locked operation on what was just read takes the processor half
//!   as long again, if it was written by a locked operation, too.
//!
//! `acquire` and `release` are the paper's `downsem` and `upsem` (E. Soriano-Salvador and others,
//! "Optimistic Semaphores with Non-deterministic Choice Operation for Heterogeneous Manycore
//! Systems"), [`acquire_any`](super::acquire_any) is its `altsems`; it takes no lock that all
//! semaphores share.

mod error;

pub use error::{AcquireError, Closed, Overflow, TryAcquireError};

use super::joint::{self, Held, JOINT, Joint};
use crate::rt::spin::look_again;
use crate::rt::sync::{AtomicU64, Ordering::*};
use crate::rt::time;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued, Single, Source};
use crate::select::operation::{Operation, Parts};
use std::cell::Cell;
use std::fmt;
use std::sync::atomic::AtomicU8;
use std::time::{Duration, Instant};

const COUNT: u64 = u32::MAX as u64;
const LOCKED: u64 = 1 << 32;
const WAITERS: u64 = 1 << 33;
const CLOSED: u64 = 1 << 34;
const WOKEN: u64 = 1 << 35;

/// Others wait, but somebody was told to try: who comes may take what is there.
const TOLD: u64 = WAITERS | WOKEN;

/// In `guess`: to read the word; or that there is one wakeup, or it is taken, and nobody waits; or
/// that, but somebody was told to try, as the last one or not.
const NOTHING: u8 = 0;
const ONE: u8 = 1;
const ONE_AND_WOKEN: u8 = 2;
const ONE_AND_TOLD: u8 = 3;

/// In a place's note, how its waiter was served; before that it is how many wakeups it wants.
pub(super) const SERVED: usize = 0;
const TRY: usize = usize::MAX;
pub(super) const NO_MORE: usize = usize::MAX - 1;
/// In the note of a waiter that does not try, or has tried often enough.
const IMPATIENT: usize = 1 << 32;

/// How often a waiter of a barging semaphore tries in vain.
const TRIES: u32 = 8;

const REASON: &&str = &"semaphore";

/// A counter of wakeups: [`release`](Semaphore::release) adds some, [`acquire`](Semaphore::acquire)
/// takes one, and waits while there is none.
///
/// A semaphore made by [`new`](Semaphore::new) is *strong*: who waits longest is served first, and
/// a wakeup that was given to a waiter cannot be taken by who comes later. One made by
/// [`barging`](Semaphore::barging) lets who is running take what is there, and so does more when
/// many threads contend for it; its waiters may be overtaken, but not for ever.
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
    word: AtomicU64,
    places: Places,
    is_barging: bool,
    /// Whoever reads the word says what is guessed next.
    guess: AtomicU8,
}

// SAFETY: the queue is touched by who has the lock in the word.
unsafe impl Sync for Semaphore {}

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
            word: AtomicU64::new(wakeups as u64),
            places: Places::new(),
            is_barging,
            guess: AtomicU8::new(if wakeups == 1 { ONE } else { NOTHING }),
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

    /// Takes so many at once. Who waits for many is not overtaken by who wants few.
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

    /// Takes a wakeup if there is one, and nobody else waits for it. Never waits.
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

    /// [`Semaphore::try_acquire`] for who looks at many: it writes nothing to one that has nothing.
    #[inline(always)]
    pub(super) fn try_among_others(&self) -> Result<(), TryAcquireError> {
        let has_nothing = self.word.load(Relaxed) & (COUNT | CLOSED) == 0;
        if has_nothing {
            Err(TryAcquireError::Empty)
        } else {
            self.try_acquire()
        }
    }

    /// Like [`Semaphore::acquire`], until `deadline` at most.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub fn acquire_deadline(&self, deadline: Instant) -> Result<(), AcquireError> {
        self.acquire_many_deadline(1, deadline)
    }

    /// Like [`Semaphore::acquire`], for `timeout` at most.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<(), AcquireError> {
        self.acquire_many_timeout(1, timeout)
    }

    /// Like [`Semaphore::acquire_many`], until `deadline` at most.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub fn acquire_many_deadline(
        &self,
        wakeups: u32,
        deadline: Instant,
    ) -> Result<(), AcquireError> {
        self.acquire_until(wakeups, time::nanos(deadline))
    }

    /// Like [`Semaphore::acquire_many`], for `timeout` at most.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub fn acquire_many_timeout(
        &self,
        wakeups: u32,
        timeout: Duration,
    ) -> Result<(), AcquireError> {
        self.acquire_until(wakeups, time::after(timeout))
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

    /// Like [`Semaphore::access`], if there is a wakeup, and nobody else waits for it. Never waits.
    ///
    /// # Errors
    /// As [`Semaphore::try_acquire`].
    pub fn try_access(&self) -> Result<Permit<'_>, TryAcquireError> {
        self.try_acquire().map(|()| Permit(self))
    }

    /// Like [`Semaphore::access`], until `deadline` at most.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub fn access_deadline(&self, deadline: Instant) -> Result<Permit<'_>, AcquireError> {
        self.acquire_deadline(deadline).map(|()| Permit(self))
    }

    /// Like [`Semaphore::access`], for `timeout` at most.
    ///
    /// # Errors
    /// [`AcquireError`].
    pub fn access_timeout(&self, timeout: Duration) -> Result<Permit<'_>, AcquireError> {
        self.acquire_timeout(timeout).map(|()| Permit(self))
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
        // ORDERING(wakeup.1): Release, pairs with wakeup.2: who takes the wakeup sees what was done
        // before.
        let give = |from| {
            self.word
                .compare_exchange(from, from + 1, Release, Relaxed)
                .is_ok()
        };
        let guessed = wakeups == 1
            && match self.guess.load(Relaxed) {
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

    /// Lets nobody wait any more: all that wait, and all that come, get [`Closed`]. What is saved
    /// can be released and looked at, but not acquired. Does not switch.
    pub fn close(&self) {
        wait::undisturbed(|served| {
            let word = self.lock() | CLOSED;
            while let Some(claimed) = self.places.claim_first() {
                claimed.place().note.set(NO_MORE);
                served.push(claimed);
            }
            self.unlock(word);
        });
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.word.load(Relaxed) & CLOSED != 0
    }

    /// How many wakeups are saved; may be outdated at once.
    pub fn available(&self) -> u32 {
        (self.word.load(Relaxed) & COUNT) as u32
    }

    /// How many wait, for people.
    #[cold]
    fn waiters(&self) -> usize {
        wait::undisturbed(|_| {
            let word = self.lock();
            let count = self.places.len();
            self.unlock(word);
            count
        })
    }

    /// False when that could not be done in one step.
    #[inline(always)]
    fn take_as_guessed(&self, wakeups: u32) -> bool {
        // ORDERING(wakeup.2): Acquire, pairs with wakeup.1.
        let take = |to| {
            self.word
                .compare_exchange(to + 1, to, Acquire, Relaxed)
                .is_ok()
        };
        wakeups == 1
            && match self.guess.load(Relaxed) {
                ONE => take(0),
                ONE_AND_TOLD => take(TOLD),
                ONE_AND_WOKEN => take(WOKEN),
                _ => false,
            }
    }

    /// Likewise.
    #[inline]
    fn take_as_read(&self, wakeups: u32) -> bool {
        let word = self.word.load(Relaxed);
        if word & LOCKED != 0 || !self.may_take(word, wakeups) {
            self.guess_next(NOTHING);
            return false;
        }
        self.expect(word.wrapping_sub(1));
        // ORDERING(wakeup.2): Acquire, pairs with wakeup.1.
        self.word
            .compare_exchange(word, word - u64::from(wakeups), Acquire, Relaxed)
            .is_ok()
    }

    /// Likewise.
    #[inline]
    fn release_as_read(&self, wakeups: u32) -> bool {
        let word = self.word.load(Relaxed);
        // One that was told to try will see what was added.
        let nobody_to_tell =
            word & (WAITERS | JOINT) == 0 || (self.is_barging && word & (WOKEN | JOINT) == WOKEN);
        if word & LOCKED != 0 || !nobody_to_tell || (word & COUNT) + u64::from(wakeups) > COUNT {
            self.guess_next(NOTHING);
            return false;
        }
        self.expect(word);
        // ORDERING(wakeup.1): Release, pairs with wakeup.2.
        self.word
            .compare_exchange(word, word + u64::from(wakeups), Release, Relaxed)
            .is_ok()
    }

    /// What to guess when the word is this while the wakeup is taken.
    #[inline(always)]
    fn expect(&self, taken: u64) {
        let guess = match taken {
            0 => ONE,
            TOLD if self.is_barging => ONE_AND_TOLD,
            WOKEN => ONE_AND_WOKEN,
            _ => NOTHING,
        };
        self.guess_next(guess);
    }

    /// Writes only what is new, as others read it.
    #[inline(always)]
    fn guess_next(&self, guess: u8) {
        if self.guess.load(Relaxed) != guess {
            self.guess.store(guess, Relaxed);
        }
    }

    /// Whether so many may be taken at once, as far as the word says.
    #[inline(always)]
    fn may_take(&self, word: u64, wakeups: u32) -> bool {
        word & CLOSED == 0
            && (word & WAITERS == 0 || self.is_barging)
            && word & COUNT >= u64::from(wakeups)
    }

    #[cold]
    fn try_acquire_slow(&self, wakeups: u32) -> Result<(), TryAcquireError> {
        let mut looks = 0;
        loop {
            let word = self.word.load(Relaxed);
            if word & CLOSED != 0 {
                return Err(TryAcquireError::Closed);
            }
            // Also while somebody has the lock: then it comes before what that one does.
            if !self.may_take(word, wakeups) {
                return Err(TryAcquireError::Empty);
            }
            if self.take_as_read(wakeups) {
                return Ok(());
            }
            look_again(&mut looks);
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
        if self.is_barging {
            return self.wait_and_try(wakeups, deadline);
        }
        match wait::one(self, REASON, deadline, |single, _| {
            self.enter(single, wakeups)
        }) {
            None => Err(AcquireError::TimedOut),
            Some(NO_MORE) => Err(AcquireError::Closed),
            Some(_) => Ok(()),
        }
    }

    /// Takes so many of a strong semaphore's if they are there, or has the caller stand in the
    /// queue.
    #[inline(always)]
    fn enter(&self, single: &mut Single<'_>, wakeups: u32) -> Option<usize> {
        let word = self.lock();
        if word & CLOSED != 0 {
            self.unlock(word);
            return Some(NO_MORE);
        }
        if self.may_take(word, wakeups) {
            self.unlock(word - u64::from(wakeups));
            return Some(SERVED);
        }
        // SAFETY: who waits leaves the queue before the place ends.
        unsafe { self.places.push(single.place(wakeups as usize), false) };
        self.unlock(word | WAITERS);
        None
    }

    /// The same of a barging one, as often as it takes.
    #[inline(never)]
    fn wait_and_try(&self, wakeups: u32, deadline: u64) -> Result<(), AcquireError> {
        let mut tries = 0;
        loop {
            let enter = |single: &mut Single<'_>, served: &mut ClaimedList| {
                self.enter_or_try(single, wakeups, tries, served)
            };
            match wait::one(self, REASON, deadline, enter) {
                None => return Err(AcquireError::TimedOut),
                Some(NO_MORE) => return Err(AcquireError::Closed),
                Some(TRY) => tries += 1,
                Some(_) => return Ok(()),
            }
        }
    }

    /// Takes so many if they are there, or has the caller stand in the queue: at its end, or in
    /// front if it was told to try before.
    #[inline(always)]
    fn enter_or_try(
        &self,
        single: &mut Single<'_>,
        wakeups: u32,
        tries: u32,
        served: &mut ClaimedList,
    ) -> Option<usize> {
        let (mut word, held) = joint::lock_to_give(self);
        if tries > 0 {
            word &= !WOKEN;
        }
        if word & CLOSED != 0 {
            self.unlock(word);
            return Some(NO_MORE);
        }
        if self.may_take(word, wakeups) {
            word -= u64::from(wakeups);
            self.serve(&mut word, held.as_ref(), served);
            self.unlock(word);
            return Some(SERVED);
        }
        let place = single.place(wakeups as usize | if tries < TRIES { 0 } else { IMPATIENT });
        // SAFETY: as in `enter`.
        unsafe { self.places.push(place, tries > 0) };
        self.unlock(word | WAITERS);
        None
    }

    #[inline(never)]
    fn release_slow(&self, wakeups: u32) -> Result<(), Overflow> {
        if self.release_as_read(wakeups) || (!self.is_barging && self.hand_on(wakeups)) {
            return Ok(());
        }
        wait::undisturbed(|served| {
            let (mut word, held) = joint::lock_to_give(self);
            let fits = (word & COUNT) + u64::from(wakeups) <= COUNT;
            if fits {
                word += u64::from(wakeups);
                self.serve(&mut word, held.as_ref(), served);
            }
            self.unlock(word);
            if fits { Ok(()) } else { Err(Overflow) }
        })
    }

    /// Gives the first waiter of a strong semaphore what it wants, if it is just that, and the next
    /// one wants something: then there is no other to look at. False if it is not so.
    #[inline(always)]
    fn hand_on(&self, wakeups: u32) -> bool {
        wait::hand_over(|| {
            let word = self.lock();
            let wanted = |place: &Place| place.note.get() as u32;
            let next_waits = |first: &Place| {
                self.places
                    .after(first)
                    .is_none_or(|next| wanted(next) != 0)
            };
            let is_all = |first: &&Place| {
                wanted(first) == wakeups && word & (COUNT | JOINT) == 0 && next_waits(first)
            };
            let claimed = self
                .places
                .first()
                .filter(is_all)
                .and_then(|first| self.places.claim(first));
            if let Some(claimed) = &claimed {
                claimed.place().note.set(SERVED);
            }
            self.unlock(if self.places.is_empty() {
                word & !WAITERS
            } else {
                word
            });
            claimed
        })
    }

    /// Hands out what there is, under the lock.
    #[inline(always)]
    fn serve(&self, word: &mut u64, held: Option<&Held>, served: &mut ClaimedList) {
        joint::serve(self, word, held, served, |place, word, served| {
            let wanted = place.note.get();
            let tells = self.is_barging && wanted & IMPATIENT == 0;
            if *word & COUNT < wanted as u64 & COUNT || (tells && *word & WOKEN != 0) {
                return false;
            }
            let Some(claimed) = self.places.claim(place) else {
                return true;
            };
            if tells {
                *word |= WOKEN;
                claimed.place().note.set(TRY);
            } else {
                *word -= wanted as u64 & COUNT;
                claimed.place().note.set(SERVED);
            }
            served.push(claimed);
            true
        });
        if !joint::has_plain(&self.places, *word) {
            *word &= !WAITERS;
        }
    }

    /// The word as it was; without LOCKED.
    #[inline(always)]
    fn lock(&self) -> u64 {
        self.try_lock().unwrap_or_else(|| self.lock_slow())
    }

    #[inline(always)]
    fn try_lock(&self) -> Option<u64> {
        let word = self.word.load(Relaxed);
        // ORDERING(sem-lock.1): Acquire, pairs with sem-lock.2: the queue is as the last holder
        // left it.
        // ORDERING(wakeup.2): likewise, of the wakeups in the word.
        let locks = || {
            self.word
                .compare_exchange(word, word | LOCKED, Acquire, Relaxed)
                .is_ok()
        };
        (word & LOCKED == 0 && locks()).then_some(word)
    }

    #[cold]
    fn lock_slow(&self) -> u64 {
        let mut looks = 0;
        loop {
            look_again(&mut looks);
            if let Some(word) = self.try_lock() {
                return word;
            }
        }
    }

    #[inline]
    fn unlock(&self, word: u64) {
        // ORDERING(sem-lock.2): Release, pairs with sem-lock.1.
        // ORDERING(wakeup.1): likewise, for those that take wakeups from the word.
        self.word.store(word, Release);
    }
}

// SAFETY: the queue is touched under the lock in the word only.
unsafe impl Queued for Semaphore {
    fn leave(&self, place: &Place, served: &mut ClaimedList) -> bool {
        let (mut word, held) = joint::lock_to_give(self);
        let left = self.places.remove(place);
        if left {
            // It may have stood before one that wants less.
            self.serve(&mut word, held.as_ref(), served);
        }
        self.unlock(word);
        left
    }

    fn hands_over(&self) -> bool {
        !self.is_barging
    }
}

// SAFETY: as above.
unsafe impl Source for Semaphore {
    fn serve_now(&self, _: usize) -> Option<usize> {
        match self.try_among_others() {
            Ok(()) => Some(SERVED),
            Err(TryAcquireError::Closed) => Some(NO_MORE),
            Err(TryAcquireError::Empty) => None,
        }
    }

    /// Who waits for other things too is handed a wakeup, and does not try.
    fn enter_or_claim(&self, place: &Place, claim: &mut dyn FnMut() -> bool, _: &mut ClaimedList) {
        let mut word = self.lock();
        if word & CLOSED != 0 {
            if claim() {
                place.note.set(NO_MORE);
            }
        } else if self.may_take(word, 1) {
            if claim() {
                place.note.set(SERVED);
                word -= 1;
            }
        } else {
            place.note.set(1 | IMPATIENT);
            // SAFETY: as in `enter`.
            unsafe { self.places.push(place, false) };
            word |= WAITERS;
        }
        self.unlock(word);
    }
}

// SAFETY: as above.
unsafe impl Joint for Semaphore {
    #[inline]
    fn lock(&self) -> u64 {
        self.lock()
    }

    #[inline]
    fn unlock(&self, word: u64) {
        self.unlock(word);
    }

    fn queue(&self) -> &Places {
        &self.places
    }

    fn is_there(&self, word: u64, _: usize, place: Option<&Place>) -> bool {
        let is_its_turn =
            || place.is_some_and(|place| !joint::plain_before(&self.places, Some(place)));
        word & CLOSED == 0
            && word & COUNT > 0
            && (word & WAITERS == 0 || self.is_barging || is_its_turn())
    }

    fn take(&self, word: u64, _: &Cell<usize>) -> u64 {
        word - 1
    }

    fn is_closed(&self) -> bool {
        self.is_closed()
    }
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        debug_assert!(
            self.places.has_nobody(),
            "a semaphore is dropped while somebody waits for it"
        );
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
        let word = self.word.load(Relaxed);
        f.debug_struct("Semaphore")
            .field("available", &(word & COUNT))
            .field("has_waiters", &(word & WAITERS != 0))
            .field("waiters", &self.waiters())
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
        // What was taken fits again, unless somebody has released more than the semaphore can keep:
        // then it is lost, as it would be there.
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

impl Parts for Acquiring<'_> {
    fn source(&self) -> Option<&dyn Source> {
        Some(self.semaphore)
    }

    fn place(&self) -> &Place {
        &self.place
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
