//! Locks that many may have to read, or one to write.
//!
//! # The word
//!
//! ```text
//!   63       62    35     34         33          32      31      0
//!  | LOCKED | unused | WAITERS | UPGRADABLE | WRITER |  readers  |
//! ```
//!
//! - R1: a WRITER is alone. Who reads so that it may write later (UPGRADABLE) is not among the
//!   readers; there is one such at most.
//! - R2: WAITERS says that the queue is not empty. Then whoever comes stands behind: so a writer
//!   that waits holds off readers that come later, and the other way round. The first in the queue
//!   cannot have the lock as it is; whatever makes that untrue serves the queue, in its order,
//!   under its lock.
//! - R3: who waits to upgrade stands in front of all others: nobody but it can have the lock next,
//!   once the readers have gone.
//!
//! The lock of the queue, and who may write the word: [`word`](super::word). Readers that need not
//! wait touch the word only.

use super::word::Word;
use crate::rt::time;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued};
use lock_api::{
    RawRwLock as _, RawRwLockRecursive as _, RawRwLockTimed as _, RawRwLockUpgrade as _,
};
use std::fmt;
use std::time::{Duration, Instant};

const FREE: u64 = 0;
const READER: u64 = 1;
const READERS: u64 = u32::MAX as u64;
const WRITER: u64 = 1 << 32;
const UPGRADABLE: u64 = 1 << 33;
const WAITERS: u64 = 1 << 34;

const REASON: &&str = &"rwlock";

/// A value that many workers or threads may read, or one may change.
///
/// Fair: in the order in which they came, readers that stand one behind the other together. So a
/// writer that waits is not starved by readers that come and go, and who reads already must not
/// call `read` again while it does: it would wait behind a writer that waits for it.
/// `read_recursive` is for that.
///
/// `upgradable_read` is for who reads and may then want to write, of which there is one at a time,
/// beside plain readers.
///
/// No poisoning, guards that may be sent and held over anything that waits, and points of
/// cancellation: as [`Mutex`](super::Mutex). Not for signal handlers.
///
/// ```
/// use umcg::sync::RwLock;
///
/// static TABLE: RwLock<Vec<u32>> = RwLock::new(Vec::new());
///
/// TABLE.write().push(7);
/// let (one, other) = (TABLE.read(), TABLE.read());
/// assert_eq!(one[0] + other[0], 14);
/// ```
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;

/// May read what is in a [`RwLock`]; unlocks it when dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// May change what is in a [`RwLock`]; unlocks it when dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// May read what is in a [`RwLock`], and become a [`RwLockWriteGuard`]; unlocks it when dropped.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// A [`RwLockReadGuard`] for a part of what is in there.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// A [`RwLockWriteGuard`] for a part of what is in there.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A [`RwLockReadGuard`] for a lock in an `Arc`, which it keeps.
pub type ArcRwLockReadGuard<T> = lock_api::ArcRwLockReadGuard<RawRwLock, T>;

/// A [`RwLockWriteGuard`] for a lock in an `Arc`, which it keeps.
pub type ArcRwLockWriteGuard<T> = lock_api::ArcRwLockWriteGuard<RawRwLock, T>;

/// What locks a [`RwLock`], without a value: its operations are those of the traits of `lock_api`.
#[repr(C)]
pub struct RawRwLock {
    word: Word,
    places: Places,
}

// SAFETY: the queue is touched by who has the lock in the word.
unsafe impl Sync for RawRwLock {}

/// What somebody wants: in a place's note.
#[derive(Clone, Copy)]
#[repr(usize)]
pub(crate) enum Want {
    Read,
    Write,
    Upgradable,
    /// Has the upgradable lock already.
    Upgrade,
}

impl Want {
    fn of(place: &Place) -> Want {
        match place.note.get() {
            0 => Want::Read,
            1 => Want::Write,
            2 => Want::Upgradable,
            _ => Want::Upgrade,
        }
    }

    /// The steps of those whom nobody is in the way of.
    #[inline(always)]
    fn usual(self) -> (u64, u64) {
        match self {
            Want::Read => (FREE, READER),
            Want::Write => (FREE, WRITER),
            Want::Upgradable => (FREE, UPGRADABLE),
            Want::Upgrade => (UPGRADABLE, WRITER),
        }
    }

    /// The word with it, if it can be had beside those that have the lock. Who waits is not looked
    /// at.
    #[inline(always)]
    fn step(self, word: u64) -> Option<u64> {
        match self {
            Want::Read => (word & WRITER == 0 && word & READERS != READERS).then(|| word + READER),
            Want::Write => (word & (WRITER | UPGRADABLE | READERS) == 0).then_some(word | WRITER),
            Want::Upgradable => (word & (WRITER | UPGRADABLE) == 0).then_some(word | UPGRADABLE),
            Want::Upgrade => (word & READERS == 0).then_some((word & !UPGRADABLE) | WRITER),
        }
    }

    /// The same for who comes now: it stands behind those that wait.
    #[inline(always)]
    fn step_in(self, word: u64) -> Option<u64> {
        if word & WAITERS != 0 && !matches!(self, Want::Upgrade) {
            None
        } else {
            self.step(word)
        }
    }
}

/// How long to wait.
#[derive(Clone, Copy)]
pub(crate) enum Until {
    /// It is no point of cancellation.
    TheEnd,
    /// It is one.
    Deadline(u64),
}

impl Until {
    fn at(deadline: Instant) -> Until {
        Until::Deadline(time::nanos(deadline))
    }

    fn after(timeout: Duration) -> Until {
        Until::Deadline(time::after(timeout))
    }
}

impl RawRwLock {
    /// A free one.
    pub const fn new() -> RawRwLock {
        RawRwLock {
            word: Word::new(FREE),
            places: Places::new(),
        }
    }

    /// Whether somebody reads, and may not write later.
    pub(crate) fn has_readers(&self) -> bool {
        self.word.load() & READERS != 0
    }

    /// Whether somebody reads who may write later.
    pub(crate) fn has_upgradable(&self) -> bool {
        self.word.load() & UPGRADABLE != 0
    }

    /// False when the deadline has passed.
    #[inline(always)]
    pub(crate) fn lock(&self, want: Want, until: Until) -> bool {
        let (from, to) = want.usual();
        match self.word.take(from, to) {
            Ok(_) => true,
            Err(word) => self.lock_slow(word, want, until),
        }
    }

    #[inline(always)]
    fn try_lock(&self, want: Want) -> bool {
        let (from, to) = want.usual();
        match self.word.take(from, to) {
            Ok(_) => true,
            Err(word) => self.try_slow(word, want),
        }
    }

    #[inline(always)]
    fn unlock(&self, from: u64, to: u64, step: impl Fn(u64) -> u64) {
        if let Err(word) = self.word.give(from, to) {
            self.give_slow(word, step);
        }
    }

    #[cold]
    fn try_slow(&self, word: u64, want: Want) -> bool {
        self.word
            .take_while(word, |word| want.step_in(word))
            .is_ok()
    }

    /// False when the deadline has passed.
    #[cold]
    fn lock_slow(&self, word: u64, want: Want, until: Until) -> bool {
        self.try_slow(word, want) || self.wait(want, until)
    }

    fn wait(&self, want: Want, until: Until) -> bool {
        self.expect_room();
        let (deadline, to_the_end) = match until {
            Until::TheEnd => (u64::MAX, true),
            Until::Deadline(deadline) => (deadline, false),
        };
        let served = wait::one(self, REASON, deadline, |single, _| {
            let word = self.word.lock();
            if let Some(word) = want.step_in(word) {
                self.word.unlock(word);
                return Some(0);
            }
            let note = want as usize;
            let place = if to_the_end {
                single.place_to_the_end(note)
            } else {
                single.place(note)
            };
            // SAFETY: who waits leaves the queue before the place ends.
            unsafe { self.places.push(place, matches!(want, Want::Upgrade)) };
            self.word.unlock(word | WAITERS);
            None
        });
        served.is_some()
    }

    /// Guards can be forgotten, but not as many as would overflow the count.
    fn expect_room(&self) {
        assert!(self.word.load() & READERS < READERS / 2, "too many readers");
    }

    /// Changes the word by `step`, which makes room, and serves those that wait.
    #[cold]
    fn give_slow(&self, word: u64, step: impl Fn(u64) -> u64) {
        if self
            .word
            .give_while(word, |word| (word & WAITERS == 0).then(|| step(word)))
            .is_err()
        {
            wait::undisturbed(|served| {
                let word = self.serve(step(self.word.lock()), served);
                self.word.unlock(word);
            });
        }
    }

    /// Where there are others, or somebody waits.
    #[cold]
    fn unlock_shared_slow(&self, word: u64) {
        // Nobody waits for one of many readers to go.
        let is_last = |word: u64| word & READERS == READER && word & WAITERS != 0;
        if self
            .word
            .give_while(word, |word| (!is_last(word)).then(|| word - READER))
            .is_err()
        {
            self.give_slow(self.word.load(), |word| word - READER);
        }
    }

    /// The word after those were served who can have the lock, as far as they stand one behind the
    /// other.
    fn serve(&self, mut word: u64, served: &mut ClaimedList) -> u64 {
        while let Some(first) = self.places.first() {
            let Some(next) = Want::of(first).step(word) else {
                return word;
            };
            if let Some(claimed) = self.places.claim(first) {
                word = next;
                served.push(claimed);
            }
        }
        word & !WAITERS
    }
}

/// For who reads already: it does not stand behind those that wait for it.
fn step_again(word: u64) -> Option<u64> {
    if word & (READERS | UPGRADABLE) != 0 {
        Want::Read.step(word)
    } else {
        Want::Read.step_in(word)
    }
}

impl Default for RawRwLock {
    fn default() -> RawRwLock {
        RawRwLock::new()
    }
}

// SAFETY: WRITER is set for one, while there are no readers, and stays until that one gives it
// back; readers are counted.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(
        clippy::declare_interior_mutable_const,
        reason = "as lock_api wants it"
    )]
    const INIT: RawRwLock = RawRwLock::new();

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock_shared(&self) {
        self.lock(Want::Read, Until::TheEnd);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.try_lock(Want::Read)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        if let Err(word) = self.word.give(READER, FREE) {
            self.unlock_shared_slow(word);
        }
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.lock(Want::Write, Until::TheEnd);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.try_lock(Want::Write)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.unlock(WRITER, FREE, |word| word & !WRITER);
    }

    fn is_locked(&self) -> bool {
        self.word.load() & (READERS | WRITER | UPGRADABLE) != 0
    }

    fn is_locked_exclusive(&self) -> bool {
        self.word.load() & WRITER != 0
    }
}

// SAFETY: as above. Unlocking is fair anyway.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    unsafe fn unlock_shared_fair(&self) {
        // SAFETY: passed on.
        unsafe { self.unlock_shared() };
    }

    unsafe fn unlock_exclusive_fair(&self) {
        // SAFETY: passed on.
        unsafe { self.unlock_exclusive() };
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, timeout: Duration) -> bool {
        self.lock(Want::Read, Until::after(timeout))
    }

    fn try_lock_shared_until(&self, deadline: Instant) -> bool {
        self.lock(Want::Read, Until::at(deadline))
    }

    fn try_lock_exclusive_for(&self, timeout: Duration) -> bool {
        self.lock(Want::Write, Until::after(timeout))
    }

    fn try_lock_exclusive_until(&self, deadline: Instant) -> bool {
        self.lock(Want::Write, Until::at(deadline))
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        if !self.try_lock_shared_recursive() {
            self.lock_shared();
        }
    }

    fn try_lock_shared_recursive(&self) -> bool {
        self.word.take_while(self.word.load(), step_again).is_ok()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursiveTimed for RawRwLock {
    fn try_lock_shared_recursive_for(&self, timeout: Duration) -> bool {
        self.try_lock_shared_recursive() || self.try_lock_shared_for(timeout)
    }

    fn try_lock_shared_recursive_until(&self, deadline: Instant) -> bool {
        self.try_lock_shared_recursive() || self.try_lock_shared_until(deadline)
    }
}

// SAFETY: as above; it is WRITER until it is a reader.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        self.unlock(WRITER, READER, |word| (word & !WRITER) + READER);
    }
}

// SAFETY: as above; UPGRADABLE is set for one, and stays until that one gives it back or makes it
// WRITER.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    fn lock_upgradable(&self) {
        self.lock(Want::Upgradable, Until::TheEnd);
    }

    fn try_lock_upgradable(&self) -> bool {
        self.try_lock(Want::Upgradable)
    }

    unsafe fn unlock_upgradable(&self) {
        self.unlock(UPGRADABLE, FREE, |word| word & !UPGRADABLE);
    }

    unsafe fn upgrade(&self) {
        self.lock(Want::Upgrade, Until::TheEnd);
    }

    unsafe fn try_upgrade(&self) -> bool {
        self.try_lock(Want::Upgrade)
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgradeFair for RawRwLock {
    unsafe fn unlock_upgradable_fair(&self) {
        // SAFETY: passed on.
        unsafe { self.unlock_upgradable() };
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgradeDowngrade for RawRwLock {
    unsafe fn downgrade_upgradable(&self) {
        self.expect_room();
        self.unlock(UPGRADABLE, READER, |word| (word & !UPGRADABLE) + READER);
    }

    unsafe fn downgrade_to_upgradable(&self) {
        self.unlock(WRITER, UPGRADABLE, |word| (word & !WRITER) | UPGRADABLE);
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockUpgradeTimed for RawRwLock {
    fn try_lock_upgradable_for(&self, timeout: Duration) -> bool {
        self.lock(Want::Upgradable, Until::after(timeout))
    }

    fn try_lock_upgradable_until(&self, deadline: Instant) -> bool {
        self.lock(Want::Upgradable, Until::at(deadline))
    }

    unsafe fn try_upgrade_for(&self, timeout: Duration) -> bool {
        self.lock(Want::Upgrade, Until::after(timeout))
    }

    unsafe fn try_upgrade_until(&self, deadline: Instant) -> bool {
        self.lock(Want::Upgrade, Until::at(deadline))
    }
}

// SAFETY: the queue is touched under the lock in the word only.
unsafe impl Queued for RawRwLock {
    fn leave(&self, place: &Place, served: &mut ClaimedList) -> bool {
        let word = self.word.lock();
        let left = self.places.remove(place);
        // It may have stood before others who can have the lock.
        let word = self.serve(word, served);
        self.word.unlock(word);
        left
    }
}

impl Drop for RawRwLock {
    fn drop(&mut self) {
        debug_assert!(
            self.places.is_empty(),
            "a lock is dropped while somebody waits for it"
        );
    }
}

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word.load();
        f.debug_struct("RawRwLock")
            .field("readers", &(word & READERS))
            .field("is_written", &(word & WRITER != 0))
            .field("is_upgradable", &(word & UPGRADABLE != 0))
            .field("waiters", &self.word.count(&self.places))
            .finish()
    }
}
