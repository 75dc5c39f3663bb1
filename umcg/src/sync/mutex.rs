//! Mutexes.
//!
//! # The word
//!
//! ```text
//!   63       62      61      3      2       1        0
//!  | LOCKED | JOINT | unused | WOKEN | WAITERS | HELD |
//! ```
//!
//! - M1: FREE to HELD locks, HELD to FREE unlocks: one compare-and-swap each, with constants, and
//!   nothing is read before. A caller that finds another word takes the slow path. While a waiter
//!   was told to try, the constants are others (`guess`, a hint).
//! - M2: WAITERS says that there are waiters, not counting [joint](super::joint) ones. A fair mutex
//!   with WAITERS is HELD: it is handed on under the lock of the queue, to the longest waiter.
//! - M3: a barging one becomes free, and the first waiter is told to try. Any caller may lock it
//!   before. So a free mutex with WAITERS has WOKEN: a waiter is on the way that tells the next.
//!
//! It is the word of a [gate](super::gate).

use super::gate::{Gate, PATIENT, Policy, SERVED, TRY, Until};
use super::joint::{self, JOINT};
use crate::rt::server;
use crate::rt::sync::{is_alone, spin};
use crate::rt::time;
use crate::rt::wait::{self, ClaimedList, Place, Queued, SelectQueue};
use crate::select::operation::{Operation, OperationParts};
use std::cell::Cell;
use std::fmt;
use std::mem::offset_of;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::time::{Duration, Instant};

const FREE: u64 = 0;
const HELD: u64 = 1;
const WAITERS: u64 = 1 << 1;
const WOKEN: u64 = 1 << 2;
/// Free, with waiters of which one was told to try.
const TOLD: u64 = WAITERS | WOKEN;

/// How often a thread checks for a free mutex before it stands in the queue.
const LOOKS: u32 = 5;

/// A value that one worker or thread at a time may touch.
///
/// A mutex made by `Mutex::new` is *barging*: a running caller may take it before the waiters, and
/// a waiter is overtaken a bounded number of times. One made by `Mutex::from_raw(RawMutex::fair(),
/// value)` always goes to the longest waiter: in order, and slower where many kernel threads
/// contend for it.
///
/// There is no poisoning: a guard that is dropped by a panic, or by a worker that is aborted,
/// unlocks the mutex, and the value stays as it was then.
///
/// A guard may be held over anything that waits, and moves with its worker from one kernel thread
/// to another; it may also be sent. Waiting for a mutex stops the worker, not its server. `lock` is
/// no point of cancellation, as `pthread_mutex_lock` is none: an aborted worker waits until it has
/// the mutex, and unwinds later. `try_lock_for` and `try_lock_until` are, so
/// `try_lock_for(Duration::MAX)` is a `lock` that can be cut short. [`locking`] is for waiting
/// beside other things. Uncontended, `lock` and `unlock` are one locked operation each. Not for
/// signal handlers.
///
/// ```
/// use umcg::sync::{Mutex, RawMutex};
///
/// static TOTAL: Mutex<u64> = Mutex::new(0);
/// static IN_ORDER: Mutex<Vec<u64>> = Mutex::from_raw(RawMutex::fair(), Vec::new());
///
/// let workers: Vec<_> = (0..4)
///     .map(|n| {
///         umcg::spawn(move || {
///             *TOTAL.lock() += n;
///             IN_ORDER.lock().push(n);
///         })
///     })
///     .collect();
/// workers.into_iter().for_each(|worker| worker.join().unwrap());
/// assert_eq!(*TOTAL.lock(), 6);
/// assert_eq!(IN_ORDER.lock().len(), 4);
/// ```
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;

/// A guard: holds a [`Mutex`], and unlocks it when dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;

/// The same for a part of the value.
pub type MappedMutexGuard<'a, T> = lock_api::MappedMutexGuard<'a, RawMutex, T>;

/// The same for a [`Mutex`] in an `Arc`, of which it keeps a clone.
pub type ArcMutexGuard<T> = lock_api::ArcMutexGuard<RawMutex, T>;

/// The lock of a [`Mutex`], without a value: its operations are those of the traits of `lock_api`.
#[repr(C)]
pub struct RawMutex {
    gate: Gate<Exclusion>,
}

/// The offset of a mutex's fairness.
pub(super) const IS_FAIR: usize = offset_of!(RawMutex, gate.policy.is_fair);

#[repr(C)]
pub(crate) struct Exclusion {
    is_fair: bool,
    /// The word of a free mutex, as the last slow path has found it: FREE, WOKEN or TOLD. Not a
    /// matter of policy, but there is room for it here.
    guess: AtomicU8,
}

impl Policy for Exclusion {
    const REASON: &'static &'static str = &"mutex";
    const WAITERS: u64 = WAITERS;
    const WOKEN: u64 = WOKEN;

    #[inline(always)]
    fn pass(&self, word: u64, _: usize) -> Option<(u64, usize)> {
        Some((step(word)?, SERVED))
    }

    #[inline(always)]
    fn admit(&self, word: u64, want: usize) -> Option<(u64, usize)> {
        let tells = !self.is_fair && want & PATIENT != 0;
        if word & HELD != 0 || (tells && word & WOKEN != 0) {
            None
        } else if tells {
            Some((word | WOKEN, TRY))
        } else {
            Some((word | HELD, SERVED))
        }
    }

    #[inline(always)]
    fn hands_over(&self) -> bool {
        self.is_fair
    }
}

impl RawMutex {
    /// A barging one.
    pub const fn new() -> RawMutex {
        RawMutex::with(false)
    }

    /// One that goes to the longest waiter.
    pub const fn fair() -> RawMutex {
        RawMutex::with(true)
    }

    const fn with(is_fair: bool) -> RawMutex {
        RawMutex {
            gate: Gate::new(
                FREE,
                Exclusion {
                    is_fair,
                    guess: AtomicU8::new(0),
                },
            ),
        }
    }

    /// The gate, for waits beside others.
    #[inline(always)]
    pub(crate) fn gate(&self) -> &Gate<Exclusion> {
        &self.gate
    }

    /// One step, from the word as it is guessed. The error is the word as it is.
    #[inline(always)]
    fn lock_as_guessed(&self) -> Result<u64, u64> {
        match self.gate.policy.guess.load(Relaxed) {
            0 => self.gate.word.take(FREE, HELD),
            1 => self.gate.word.take(WOKEN, WOKEN | HELD),
            _ => self.gate.word.take(TOLD, TOLD | HELD),
        }
    }

    /// Likewise.
    #[inline(always)]
    fn unlock_as_guessed(&self) -> Result<u64, u64> {
        match self.gate.policy.guess.load(Relaxed) {
            0 => self.gate.word.give(HELD, FREE),
            1 => self.gate.word.give(WOKEN | HELD, WOKEN),
            _ => self.gate.word.give(TOLD | HELD, TOLD),
        }
    }

    /// Bases the guess on this word from now on.
    #[inline(always)]
    fn guess_from(&self, word: u64) {
        let guess = match word & !HELD {
            WOKEN => 1,
            TOLD if !self.gate.policy.is_fair => 2,
            _ => 0,
        };
        if self.gate.policy.guess.load(Relaxed) != guess {
            self.gate.policy.guess.store(guess, Relaxed);
        }
    }

    #[cold]
    fn try_lock_slow(&self, word: u64) -> bool {
        self.guess_from(word);
        self.gate.word.take_while(word, step).is_ok()
    }

    #[cold]
    fn lock_slow(&self, word: u64) {
        let _ = self.try_lock_slow(word) || self.look_for_a_while() || self.wait(Until::TheEnd);
    }

    /// `try_lock_until`, in nanoseconds.
    #[cold]
    pub(crate) fn lock_until(&self, deadline: u64) -> bool {
        self.try_lock_slow(self.gate.word.load())
            || self.look_for_a_while()
            || self.wait(Until::Deadline(deadline))
    }

    /// A thread spins for a while until the mutex is free, if there are no waiters.
    fn look_for_a_while(&self) -> bool {
        if is_alone() || server::running().is_some() {
            return false;
        }
        for look in 0..LOOKS {
            let word = self.gate.word.load();
            if word & WAITERS != 0 {
                break;
            }
            if step(word).is_some() && self.try_lock_slow(word) {
                return true;
            }
            // Longer and longer: the holder needs the cache line that is looked at.
            (0..1 << look).for_each(|_| spin());
        }
        false
    }

    /// False when the deadline has passed.
    fn wait(&self, until: Until) -> bool {
        self.gate.wait(0, until).is_some()
    }

    #[cold]
    fn unlock_slow(&self, word: u64) {
        self.guess_from(word);
        // A waiter that was told to try will see that it is free.
        let nobody_to_tell =
            |word: u64| word & JOINT == 0 && (word & WAITERS == 0 || word & WOKEN != 0);
        if self
            .gate
            .word
            .give_while(word, |word| nobody_to_tell(word).then_some(word & !HELD))
            .is_err()
        {
            wait::undisturbed(|served| self.hand_over(self.gate.policy.is_fair, served));
        }
    }

    /// Unlocks it in the midst of a wait that the caller enters.
    ///
    /// # Safety
    /// As `unlock`; the caller is not preempted, and holds no object's lock.
    pub(super) unsafe fn unlock_by(&self, served: &mut ClaimedList) {
        if self.gate.word.give(HELD, FREE).is_err() {
            self.hand_over(self.gate.policy.is_fair, served);
        }
    }

    /// Unlocks it. If `is_strong`, it is handed over to the first waiter.
    fn hand_over(&self, is_strong: bool, served: &mut ClaimedList) {
        let (word, held) = joint::lock_to_give(&self.gate);
        let handed = if is_strong { !PATIENT } else { !0 };
        let word = self
            .gate
            .serve_by(word & !HELD, held.as_ref(), served, |word, want| {
                self.gate.policy.admit(word, want & handed)
            });
        self.gate.word.unlock(word);
    }
}

/// If it is free: the word when it is locked. A fair one is not free while there are waiters,
/// except joint ones.
#[inline(always)]
fn step(word: u64) -> Option<u64> {
    (word & HELD == 0).then_some(word | HELD)
}

impl Default for RawMutex {
    fn default() -> RawMutex {
        RawMutex::new()
    }
}

// SAFETY: HELD is set by one caller, and stays until that one unlocks or hands over.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "as lock_api wants it"
    )]
    const INIT: RawMutex = RawMutex::new();

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        if let Err(word) = self.lock_as_guessed() {
            self.lock_slow(word);
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        match self.lock_as_guessed() {
            Ok(_) => true,
            Err(word) => self.try_lock_slow(word),
        }
    }

    #[inline]
    unsafe fn unlock(&self) {
        if let Err(word) = self.unlock_as_guessed() {
            self.unlock_slow(word);
        }
    }

    fn is_locked(&self) -> bool {
        self.gate.word.load() & HELD != 0
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexFair for RawMutex {
    unsafe fn unlock_fair(&self) {
        if self.gate.word.give(HELD, FREE).is_err() {
            wait::undisturbed(|served| self.hand_over(true, served));
        }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        self.lock_as_guessed().is_ok() || self.lock_until(time::after(timeout))
    }

    fn try_lock_until(&self, deadline: Instant) -> bool {
        self.lock_as_guessed().is_ok() || self.lock_until(time::nanos(deadline))
    }
}

impl fmt::Debug for RawMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.gate.word.load();
        f.debug_struct("RawMutex")
            .field("is_held", &(word & HELD != 0))
            .field("waiters", &self.gate.waiters())
            .field("is_fair", &self.gate.policy.is_fair)
            .finish()
    }
}

/// Locks a mutex, when it is selected. Made by [`locking`]. If the mutex was locked, and the guard
/// was not asked for, the next wait for this operation is done at once; or the mutex is unlocked
/// when the operation is dropped.
pub struct Locking<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    place: Place,
    is_locked: Cell<bool>,
}

/// Locking the mutex as an operation, to wait for it beside others: see
/// [`select`](mod@crate::select). A caller that waits so is not overtaken once it is its turn.
///
/// ```
/// use umcg::sync::{Mutex, locking};
///
/// let (left, right) = (Mutex::new("left"), Mutex::new("right"));
/// let busy = left.lock();
/// let found = umcg::select! {
///     guard = locking(&left) => *guard,
///     guard = locking(&right) => *guard,
/// };
/// assert_eq!(found, "right");
/// drop(busy);
/// ```
pub fn locking<T: ?Sized>(mutex: &Mutex<T>) -> Locking<'_, T> {
    Locking {
        mutex,
        place: Place::new(),
        is_locked: Cell::new(false),
    }
}

/// The lock of this mutex.
#[inline(always)]
pub(super) fn raw<T: ?Sized>(mutex: &Mutex<T>) -> &RawMutex {
    // SAFETY: the code of this room unlocks only a mutex that it has locked.
    unsafe { mutex.raw() }
}

impl<T: ?Sized> OperationParts for Locking<'_, T> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn finish(&self, _: usize) -> bool {
        self.is_locked.set(true);
        true
    }
}

// SAFETY: it is the mutex's.
unsafe impl<T: ?Sized> Queued for Locking<'_, T> {
    fn leave(&self, place: &Place, served: &mut ClaimedList) -> bool {
        raw(self.mutex).gate.leave(place, served)
    }
}

// SAFETY: it is the mutex's.
unsafe impl<T: ?Sized> SelectQueue for Locking<'_, T> {
    fn serve_now(&self, note: usize) -> Option<usize> {
        // Locked before, and not asked for.
        if self.is_locked.get() {
            Some(note)
        } else {
            raw(self.mutex).gate.serve_now(note)
        }
    }

    fn enter_or_claim(
        &self,
        place: &Place,
        claim: &mut dyn FnMut() -> bool,
        served: &mut ClaimedList,
    ) {
        if self.is_locked.get() {
            claim();
        } else {
            raw(self.mutex).gate.enter_or_claim(place, claim, served);
        }
    }
}

impl<'a, T: ?Sized> Operation for Locking<'a, T> {
    type Output = MutexGuard<'a, T>;

    fn outcome(&mut self) -> MutexGuard<'a, T> {
        assert!(
            self.is_locked.replace(false),
            "the operation was not selected"
        );
        // SAFETY: it was locked for this operation, and was not unlocked since.
        unsafe { self.mutex.make_guard_unchecked() }
    }
}

impl<T: ?Sized> Drop for Locking<'_, T> {
    fn drop(&mut self) {
        if self.is_locked.get() {
            // SAFETY: as in `outcome`.
            unsafe { self.mutex.force_unlock() };
        }
    }
}

impl<T: ?Sized> fmt::Debug for Locking<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locking")
            .field("is_locked", &self.is_locked.get())
            .finish_non_exhaustive()
    }
}
