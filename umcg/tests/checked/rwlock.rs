//! Locks that many may read, or one write, on the protocol of waiting.

use crate::checker::{check, check_large, leak, pause};
use crate::parties::{Data, be, join_all, party};
use crate::sync::rwlock::RawRwLock;
use lock_api::{
    RawRwLock as _, RawRwLockDowngrade as _, RawRwLockUpgrade as _, RawRwLockUpgradeDowngrade as _,
};

/// A lock, and what it is for: two numbers that are the same but for a writer.
pub(crate) struct Room {
    pub(crate) lock: RawRwLock,
    data: [&'static Data; 2],
}

impl Room {
    pub(crate) fn new() -> &'static Room {
        leak(Room {
            lock: RawRwLock::new(),
            data: [Data::new(), Data::new()],
        })
    }

    /// By a party that may read: a reader sees all that a writer did, and none sees half of it.
    /// Returns the number of writes.
    pub(crate) fn look(&self) -> u32 {
        let seen = self.data[0].read();
        pause();
        assert_eq!(self.data[1].read(), seen, "a writer is in there");
        seen
    }

    /// By a party that may write.
    pub(crate) fn change(&self) {
        let seen = self.look();
        self.data[0].write();
        pause();
        self.data[1].write();
        assert_eq!(self.look(), seen + 1, "others are in there");
    }

    /// By a party that reads.
    pub(crate) fn end_read(&self) {
        // SAFETY: the caller has begun to read, and ends it once.
        unsafe { self.lock.unlock_shared() };
    }

    /// By a party that writes.
    pub(crate) fn end_write(&self) {
        // SAFETY: as above, for writing.
        unsafe { self.lock.unlock_exclusive() };
    }

    pub(crate) fn read(&self) {
        self.lock.lock_shared();
        self.look();
        self.end_read();
    }

    pub(crate) fn write(&self) {
        self.lock.lock_exclusive();
        self.change();
        self.end_write();
    }

    fn upgrade(&self) {
        self.lock.lock_upgradable();
        self.look();
        // SAFETY: it is locked so, by the first line.
        unsafe { self.lock.upgrade() };
        self.change();
        self.end_write();
    }

    /// From writing to reading, step by step.
    fn downgrade(&self, at_once: bool) {
        self.lock.lock_exclusive();
        self.change();
        if at_once {
            // SAFETY: it is locked for writing, by the first line.
            unsafe { self.lock.downgrade() };
        } else {
            // SAFETY: likewise.
            unsafe { self.lock.downgrade_to_upgradable() };
            self.look();
            // SAFETY: it is locked so just now.
            unsafe { self.lock.downgrade_upgradable() };
        }
        self.look();
        self.end_read();
    }

    /// Some ways to go through it, one after the other.
    fn go(&self, ways: &str) {
        for way in ways.chars() {
            match way {
                'r' => self.read(),
                'w' => self.write(),
                'u' => self.upgrade(),
                'd' => self.downgrade(true),
                _ => self.downgrade(false),
            }
        }
    }
}

/// Everybody gets there, and a writer is alone. The ways of each party; the last is the first
/// thread.
fn through(ways: &'static [&'static str], is_worker: bool) {
    let room = Room::new();
    let (own, others) = ways.split_last().unwrap();
    let others: Vec<_> = others
        .iter()
        .map(|ways| party(is_worker, move || room.go(ways)).1)
        .collect();
    be(is_worker);
    room.go(own);
    join_all(others);
    let all = ways.iter().flat_map(|ways| ways.chars());
    assert_eq!(room.look() as usize, all.filter(|way| *way != 'r').count());
    assert!(!room.lock.is_locked());
}

#[test]
fn all_come_through() {
    check(2, || through(&["r", "wrw"], true));
    check(2, || through(&["r", "wrw"], false));
    check_large(|| through(&["r", "r", "w"], true));
    check_large(|| through(&["r", "w", "w"], true));
    check_large(|| through(&["r", "w"], false));
    check_large(|| through(&["r", "u", "w"], true));
    check_large(|| through(&["u", "u", "r"], true));
    check_large(|| through(&["r", "d", "w"], true));
    check_large(|| through(&["r", "D", "w"], true));
    check_large(|| through(&["u", "D"], false));
    check_large(|| through(&["r", "r", "r", "w"], true));
}
