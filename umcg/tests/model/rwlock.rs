//! Locks for many readers or one writer, on the protocol of waiting.

use crate::check;
use crate::rt::cancel;
use crate::semaphore::{SOON, party};
use crate::sync::gate::Until;
use crate::sync::rwlock::{RawRwLock, Want};
use lock_api::{
    RawRwLock as _, RawRwLockDowngrade as _, RawRwLockUpgrade as _, RawRwLockUpgradeDowngrade as _,
};
use shuttle::sync::atomic::{AtomicI32, AtomicU32, Ordering::SeqCst};
use shuttle::thread;

/// A lock, and its holders: the number of readers, or -1 for a writer.
struct Room {
    lock: RawRwLock,
    inside: AtomicI32,
    written: AtomicU32,
}

impl Room {
    fn new() -> &'static Room {
        Box::leak(Box::new(Room {
            lock: RawRwLock::new(),
            inside: AtomicI32::new(0),
            written: AtomicU32::new(0),
        }))
    }

    /// By a caller that may read.
    fn look(&self) {
        assert!(
            self.inside.fetch_add(1, SeqCst) >= 0,
            "a writer is in there"
        );
        thread::yield_now();
        self.inside.fetch_sub(1, SeqCst);
    }

    /// By a caller that may write.
    fn change(&self) {
        assert_eq!(self.inside.swap(-1, SeqCst), 0, "others are in there");
        self.written.fetch_add(1, SeqCst);
        thread::yield_now();
        assert_eq!(self.inside.swap(0, SeqCst), -1);
    }

    /// By a reader.
    fn end_read(&self) {
        // SAFETY: the caller has begun to read, and calls this once for that.
        unsafe { self.lock.unlock_shared() };
    }

    /// By the writer.
    fn end_write(&self) {
        // SAFETY: as above, for writing.
        unsafe { self.lock.unlock_exclusive() };
    }

    fn read(&self) {
        self.lock.lock_shared();
        self.look();
        self.end_read();
    }

    fn write(&self) {
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

    fn one_way(&self, way: char) {
        match way {
            'r' => self.read(),
            'w' => self.write(),
            'u' => self.upgrade(),
            'd' => self.downgrade(true),
            _ => self.downgrade(false),
        }
    }
}

/// Every caller gets there, and a writer is alone.
fn through(ways: &str, is_worker: bool) {
    let room = Room::new();
    let parties: Vec<_> = ways
        .chars()
        .map(|way| party(is_worker, move || room.one_way(way)).1)
        .collect();
    parties.into_iter().for_each(|party| party.join().unwrap());
    assert_eq!(
        room.written.load(SeqCst) as usize,
        ways.chars().filter(|way| *way != 'r').count()
    );
    assert!(!room.lock.is_locked());
}

#[test]
fn all_come_through() {
    check(|| through("rrw", true));
    check(|| through("rww", true));
    check(|| through("rw", false));
    check(|| through("ruw", true));
    check(|| through("uur", true));
    check(|| through("rdw", true));
    check(|| through("rDw", true));
    check(|| through("uD", false));
    check(|| through("rrrw", true));
}

/// A writer that waits is not overtaken by a reader that comes later; a thread that reads already
/// reads again all the same.
#[test]
fn a_waiting_writer_is_next() {
    check(|| {
        let room = Room::new();
        room.lock.lock_shared();
        let (task, writer) = party(true, || room.write());
        while task.departed.load(SeqCst) == 0 {
            thread::yield_now();
        }
        assert!(!room.lock.try_lock_shared());
        use lock_api::RawRwLockRecursive as _;
        room.lock.lock_shared_recursive();
        room.end_read();
        let (_, reader) = party(true, || {
            room.lock.lock_shared();
            assert_eq!(room.written.load(SeqCst), 1, "overtaken");
            room.end_read();
        });
        thread::yield_now();
        room.end_read();
        [writer, reader]
            .into_iter()
            .for_each(|party| party.join().unwrap());
    });
}

/// A waiter that gives up lets in those that it kept out.
fn revoked(way: Want, is_worker: bool, by_deadline: bool) {
    let room = Room::new();
    let deadline = if by_deadline { SOON } else { u64::MAX };
    room.lock.lock_shared();
    let (asked, hasty) = party(is_worker, move || {
        if matches!(way, Want::Upgrade) {
            room.lock.lock_upgradable();
        }
        let done = room.lock.lock(way, Until::Deadline(deadline));
        match (way, done) {
            // SAFETY: it is locked so above, and a holder that was not upgraded still has that.
            (Want::Upgrade, false) => unsafe { room.lock.unlock_upgradable() },
            (_, true) => {
                room.change();
                room.end_write();
            }
            _ => {}
        }
    });
    let others: Vec<_> = (0..2)
        .map(|n| {
            party(is_worker, move || {
                room.one_way(if n == 0 { 'r' } else { 'w' })
            })
            .1
        })
        .collect();
    let end = thread::spawn(move || {
        if by_deadline {
            crate::kernel::advance(SOON)
        } else {
            cancel::ask(asked)
        }
    });
    room.look();
    room.end_read();
    others
        .into_iter()
        .chain([hasty, end])
        .for_each(|party| party.join().unwrap());
    assert!(!room.lock.is_locked());
}

#[test]
fn a_revoked_wait_makes_way() {
    check(|| revoked(Want::Write, true, true));
    check(|| revoked(Want::Write, true, false));
    check(|| revoked(Want::Write, false, true));
    check(|| revoked(Want::Upgrade, true, true));
}

/// The same, where the reader does not go before those behind the writer have.
#[test]
fn readers_behind_a_writer_that_gives_up() {
    check(|| {
        let room = Room::new();
        room.lock.lock_shared();
        let (_, writer) = party(true, move || {
            room.lock.lock(Want::Write, Until::Deadline(SOON))
        });
        let (_, reader) = party(true, || room.read());
        crate::kernel::advance(SOON);
        assert!(!writer.join().unwrap());
        reader.join().unwrap();
        room.end_read();
        assert!(!room.lock.is_locked());
    });
}
