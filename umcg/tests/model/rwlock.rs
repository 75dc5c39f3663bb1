//! Locks that many may read, or one write: the order, and waits that are revoked.

use crate::check;
use crate::parties::{SOON, deadline_if, ender, join_all, party, until_it_waits};
use crate::sync::gate::Until;
use crate::sync::rwlock::Want;
use lock_api::{RawRwLock as _, RawRwLockUpgrade as _};
use shuttle::thread;

#[path = "../checked/rwlock.rs"]
mod checked;
use checked::Room;

/// A writer that waits is not overtaken by a reader that comes later; a thread that reads already
/// reads again all the same.
#[test]
fn a_waiting_writer_is_next() {
    check(|| {
        let room = Room::new();
        room.lock.lock_shared();
        let (task, writer) = party(true, || room.write());
        until_it_waits(task);
        assert!(!room.lock.try_lock_shared());
        use lock_api::RawRwLockRecursive as _;
        room.lock.lock_shared_recursive();
        room.end_read();
        let (_, reader) = party(true, || {
            room.lock.lock_shared();
            assert_eq!(room.look(), 1, "overtaken");
            room.end_read();
        });
        thread::yield_now();
        room.end_read();
        join_all([writer, reader]);
    });
}

/// A waiter that gives up lets in those that it kept out.
fn revoked(way: Want, is_worker: bool, by_deadline: bool) {
    let room = Room::new();
    let deadline = deadline_if(by_deadline);
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
            party(
                is_worker,
                move || {
                    if n == 0 { room.read() } else { room.write() }
                },
            )
            .1
        })
        .collect();
    let end = ender(asked, by_deadline);
    room.look();
    room.end_read();
    join_all(others.into_iter().chain([hasty, end]));
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
