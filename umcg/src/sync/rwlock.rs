//! Locks that many may hold to read, or one to write.
//!
//! # The word
//!
//! ```text
//!   63       62    35     34         33          32      31      0
//!  | LOCKED | unused | WAITERS | UPGRADABLE | WRITER |  readers  |
//! ```
//!
//! - R1: a WRITER is alone. The holder of the upgradable lock, which reads and may write later
//!   (UPGRADABLE), is not among the readers; there is at most one.
//! - R2: WAITERS says that the queue is not empty. Then every new caller stands behind: a writer
//!   that waits holds off readers that come later, and the other way round. The first in the queue
//!   cannot have the lock as it is; each step that makes that untrue serves the queue, in its
//!   order, under its lock.
//! - R3: a waiter that wants to upgrade stands in front of all others: only it can have the lock
//!   next, once the readers have gone.
//!
//! It is the word of a [gate](super::gate). Readers that need not wait touch the word only.

use super::gate::{Gate, Policy, SERVED, Until};
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

/// A value that many workers or threads may read, or one may change.
///
/// Fair: in the order in which they came; readers that stand one behind the other go together. So
/// readers that come and go do not starve a writer that waits. A reader must not call `read` again
/// while it reads: it would wait behind a writer that waits for it. Use `read_recursive` for that.
///
/// `upgradable_read` is for a caller that reads and may then want to write. There is one such at a
/// time, beside plain readers.
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

/// A guard: may read the value of a [`RwLock`]; unlocks it when dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;

/// A guard: may change the value of a [`RwLock`]; unlocks it when dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// A guard: may read the value of a [`RwLock`], and become a [`RwLockWriteGuard`]; unlocks it when
/// dropped.
pub type RwLockUpgradableReadGuard<'a, T> = lock_api::RwLockUpgradableReadGuard<'a, RawRwLock, T>;

/// A [`RwLockReadGuard`] for a part of the value.
pub type MappedRwLockReadGuard<'a, T> = lock_api::MappedRwLockReadGuard<'a, RawRwLock, T>;

/// A [`RwLockWriteGuard`] for a part of the value.
pub type MappedRwLockWriteGuard<'a, T> = lock_api::MappedRwLockWriteGuard<'a, RawRwLock, T>;

/// A [`RwLockReadGuard`] for a lock in an `Arc`, which it keeps.
pub type ArcRwLockReadGuard<T> = lock_api::ArcRwLockReadGuard<RawRwLock, T>;

/// A [`RwLockWriteGuard`] for a lock in an `Arc`, which it keeps.
pub type ArcRwLockWriteGuard<T> = lock_api::ArcRwLockWriteGuard<RawRwLock, T>;

/// The lock of a [`RwLock`], without a value: its operations are those of the traits of `lock_api`.
#[repr(C)]
pub struct RawRwLock {
    gate: Gate<ReadWrite>,
}

struct ReadWrite;

impl Policy for ReadWrite {
    const REASON: &'static &'static str = &"rwlock";
    const WAITERS: u64 = WAITERS;

    #[inline(always)]
    fn pass(&self, word: u64, want: usize) -> Option<(u64, usize)> {
        Some((Want::of(want).step_in(word)?, SERVED))
    }

    #[inline(always)]
    fn admit(&self, word: u64, want: usize) -> Option<(u64, usize)> {
        Some((Want::of(want).step(word)?, SERVED))
    }

    #[inline(always)]
    fn goes_first(&self, want: usize) -> bool {
        matches!(Want::of(want), Want::Upgrade)
    }
}

/// The kind of lock that a caller or waiter wants.
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
    fn of(want: usize) -> Want {
        match want {
            0 => Want::Read,
            1 => Want::Write,
            2 => Want::Upgradable,
            _ => Want::Upgrade,
        }
    }

    /// The step of the word where no other holds the lock or waits for it.
    #[inline(always)]
    fn usual(self) -> (u64, u64) {
        match self {
            Want::Read => (FREE, READER),
            Want::Write => (FREE, WRITER),
            Want::Upgradable => (FREE, UPGRADABLE),
            Want::Upgrade => (UPGRADABLE, WRITER),
        }
    }

    /// The word with it, if it can be had beside the present holders. Waiters are not considered.
    #[inline(always)]
    fn step(self, word: u64) -> Option<u64> {
        match self {
            Want::Read => (word & WRITER == 0 && word & READERS != READERS).then(|| word + READER),
            Want::Write => (word & (WRITER | UPGRADABLE | READERS) == 0).then_some(word | WRITER),
            Want::Upgradable => (word & (WRITER | UPGRADABLE) == 0).then_some(word | UPGRADABLE),
            Want::Upgrade => (word & READERS == 0).then_some((word & !UPGRADABLE) | WRITER),
        }
    }

    /// The same for a caller that comes now: it stands behind the waiters.
    #[inline(always)]
    fn step_in(self, word: u64) -> Option<u64> {
        if word & WAITERS != 0 && !matches!(self, Want::Upgrade) {
            None
        } else {
            self.step(word)
        }
    }
}

impl RawRwLock {
    /// A free one.
    pub const fn new() -> RawRwLock {
        RawRwLock {
            gate: Gate::new(FREE, ReadWrite),
        }
    }

    /// Whether there are plain readers.
    pub(crate) fn has_readers(&self) -> bool {
        self.gate.word.load() & READERS != 0
    }

    /// Whether the upgradable lock is held.
    pub(crate) fn has_upgradable(&self) -> bool {
        self.gate.word.load() & UPGRADABLE != 0
    }

    /// False when the deadline has passed.
    #[inline(always)]
    pub(crate) fn lock(&self, want: Want, until: Until) -> bool {
        let (from, to) = want.usual();
        match self.gate.word.take(from, to) {
            Ok(_) => true,
            Err(word) => self.lock_slow(word, want, until),
        }
    }

    #[inline(always)]
    fn try_lock(&self, want: Want) -> bool {
        let (from, to) = want.usual();
        match self.gate.word.take(from, to) {
            Ok(_) => true,
            Err(word) => self.try_slow(word, want),
        }
    }

    #[inline(always)]
    fn unlock(&self, from: u64, to: u64, step: impl Fn(u64) -> u64) {
        if let Err(word) = self.gate.word.give(from, to) {
            self.give_slow(word, step);
        }
    }

    #[cold]
    fn try_slow(&self, word: u64, want: Want) -> bool {
        self.gate
            .word
            .take_while(word, |word| want.step_in(word))
            .is_ok()
    }

    /// False when the deadline has passed.
    #[cold]
    fn lock_slow(&self, word: u64, want: Want, until: Until) -> bool {
        self.try_slow(word, want) || self.wait(want, until)
    }

    fn wait(&self, want: Want, until: Until) -> bool {
        self.assert_room();
        self.gate.wait(want as usize, until).is_some()
    }

    /// Guards can be forgotten, but not as many as would overflow the count.
    fn assert_room(&self) {
        assert!(
            self.gate.word.load() & READERS < READERS / 2,
            "too many readers"
        );
    }

    /// Changes the word by `step`, which makes room, and serves the waiters.
    #[cold]
    fn give_slow(&self, word: u64, step: impl Fn(u64) -> u64) {
        let _ = self.gate.give(word, |word| Some(step(word)));
    }

    /// Unlocks where there are other readers, or waiters.
    #[cold]
    fn unlock_shared_slow(&self, word: u64) {
        // The queue is served only when the last reader goes.
        let is_last = |word: u64| word & READERS == READER && word & WAITERS != 0;
        if self
            .gate
            .word
            .give_while(word, |word| (!is_last(word)).then(|| word - READER))
            .is_err()
        {
            self.give_slow(self.gate.word.load(), |word| word - READER);
        }
    }
}

/// For a caller that reads already: it does not stand behind the waiters, which wait for it.
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

// SAFETY: WRITER is set for one caller, while there are no readers, and stays until that one gives
// it back; readers are counted.
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
        if let Err(word) = self.gate.word.give(READER, FREE) {
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
        self.gate.word.load() & (READERS | WRITER | UPGRADABLE) != 0
    }

    fn is_locked_exclusive(&self) -> bool {
        self.gate.word.load() & WRITER != 0
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
        self.gate
            .word
            .take_while(self.gate.word.load(), step_again)
            .is_ok()
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

// SAFETY: as above; UPGRADABLE is set for one caller, and stays until that one gives it back or
// makes it WRITER.
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
        self.assert_room();
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

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.gate.word.load();
        f.debug_struct("RawRwLock")
            .field("readers", &(word & READERS))
            .field("is_written", &(word & WRITER != 0))
            .field("is_upgradable", &(word & UPGRADABLE != 0))
            .field("waiters", &self.gate.waiters())
            .finish()
    }
}
