//! Mutexes, on the protocol of waiting.

use crate::checker::{check, check_large, check_with_heavy, leak, pause};
use crate::parties::{Data, be, deadline_if, ender, join_all, parties, party};
use crate::sync::mutex::RawMutex;
use lock_api::{RawMutex as _, RawMutexFair as _};
use std::cell::Cell;

/// A mutex, and whether a party is in there.
pub(crate) struct Room {
    pub(crate) mutex: RawMutex,
    is_taken: Cell<bool>,
    data: &'static Data,
}

// SAFETY: the cell fails where it is not so, or threads switch only where a scenario pauses.
unsafe impl Sync for Room {}

impl Room {
    pub(crate) fn new(is_fair: bool) -> &'static Room {
        let mutex = if is_fair {
            RawMutex::fair()
        } else {
            RawMutex::new()
        };
        leak(Room {
            mutex,
            is_taken: Cell::new(false),
            data: Data::new(),
        })
    }

    /// By a party that has locked it.
    pub(crate) fn enter(&self) {
        assert!(!self.is_taken.replace(true), "two are in there");
        self.data.write();
        // Not before: a look may acquire what the lock has to.
        assert!(self.mutex.is_locked());
    }

    pub(crate) fn leave(&self) {
        assert!(self.is_taken.replace(false));
    }

    /// Unlocks it, too.
    pub(crate) fn pass(&self, hands_over: bool) {
        self.enter();
        pause();
        self.leave();
        self.unlock(hands_over);
    }

    pub(crate) fn unlock(&self, hands_over: bool) {
        match hands_over {
            // SAFETY: the caller has locked it, and unlocks it once.
            true => unsafe { self.mutex.unlock_fair() },
            // SAFETY: as above.
            false => unsafe { self.mutex.unlock() },
        }
    }

    /// How many have been in there, when nobody is any more.
    pub(crate) fn count(&self) -> u32 {
        self.data.read()
    }
}

/// One at a time, and everybody gets there.
fn through(is_fair: bool, is_worker: bool, parties: u32, turns: u32) {
    let room = Room::new(is_fair);
    let body = move |n: u32| {
        for turn in 0..turns {
            room.mutex.lock();
            room.pass((n + turn) % 2 == 1);
        }
    };
    let others: Vec<_> = (1..parties)
        .map(|n| party(is_worker, move || body(n)).1)
        .collect();
    be(is_worker);
    body(0);
    join_all(others);
    assert_eq!(room.count(), parties * turns);
    assert!(!room.mutex.is_locked());
}

#[test]
fn all_come_through() {
    check(2, || through(false, true, 2, 2));
    check(2, || through(false, false, 2, 1));
    check(2, || through(true, true, 2, 2));
    check(2, || through(true, false, 2, 1));
    check(3, || through(false, true, 3, 1));
    check(3, || through(true, true, 3, 1));
    check_large(|| through(false, false, 2, 2));
    check_large(|| through(true, false, 2, 2));
    check_large(|| through(false, true, 3, 2));
    check_large(|| through(true, true, 3, 2));
    check_large(|| through(false, false, 3, 1));
}

/// A party whose wait is ended has not locked it; so many others get there, besides the one that
/// has it at first.
fn revoked(is_fair: bool, is_worker: bool, by_deadline: bool, others: u32) {
    let room = Room::new(is_fair);
    be(true);
    room.mutex.lock();
    let deadline = deadline_if(by_deadline);
    let (task, hasty) = party(is_worker, move || {
        let is_locked = room.mutex.lock_until(deadline);
        if is_locked {
            room.pass(false);
        }
        is_locked
    });
    let patient = parties(others, is_worker, || {
        room.mutex.lock();
        room.pass(false);
    });
    let ender = ender(task, by_deadline);
    room.pass(false);
    let is_locked = hasty.join().unwrap();
    join_all(patient.into_iter().chain([ender]));
    assert_eq!(room.count(), 1 + others + u32::from(is_locked));
    assert!(!room.mutex.is_locked());
}

#[test]
fn a_revoked_wait_locks_nothing() {
    check_with_heavy(3, || revoked(false, true, true, 0));
    check_with_heavy(3, || revoked(true, true, false, 0));
    check_large(|| revoked(false, true, true, 2));
    check_large(|| revoked(false, true, false, 2));
    check_large(|| revoked(false, false, true, 2));
    check_large(|| revoked(true, true, true, 2));
    check_large(|| revoked(true, true, false, 2));
    check_large(|| revoked(true, false, true, 2));
}
