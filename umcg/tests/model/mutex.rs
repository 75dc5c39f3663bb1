//! Mutexes, on the protocol of waiting.

use crate::check;
use crate::rt::cancel;
use crate::semaphore::{SOON, party};
use crate::sync::mutex::RawMutex;
use crate::sync::objects::any;
use lock_api::{RawMutex as _, RawMutexFair as _};
use shuttle::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use shuttle::thread;

/// A mutex, and its holder.
pub(crate) struct Room {
    pub(crate) mutex: RawMutex,
    is_taken: AtomicBool,
    count: AtomicU32,
}

impl Room {
    pub(crate) fn new(is_fair: bool) -> &'static Room {
        let mutex = if is_fair {
            RawMutex::fair()
        } else {
            RawMutex::new()
        };
        Box::leak(Box::new(Room {
            mutex,
            is_taken: AtomicBool::new(false),
            count: AtomicU32::new(0),
        }))
    }

    /// Called by the holder.
    pub(crate) fn enter(&self) {
        assert!(self.mutex.is_locked());
        assert!(!self.is_taken.swap(true, SeqCst), "two are in there");
        self.count.fetch_add(1, SeqCst);
    }

    pub(crate) fn leave(&self) {
        assert!(self.is_taken.swap(false, SeqCst));
    }

    /// Unlocks it, too.
    fn pass(&self, hands_over: bool) {
        self.enter();
        thread::yield_now();
        self.leave();
        self.unlock(hands_over);
    }

    fn unlock(&self, hands_over: bool) {
        match hands_over {
            // SAFETY: the caller has locked it, and calls this once for that.
            true => unsafe { self.mutex.unlock_fair() },
            // SAFETY: as above.
            false => unsafe { self.mutex.unlock() },
        }
    }
}

/// One at a time, and every thread gets there.
fn through(is_fair: bool, is_worker: bool, parties: u32, turns: u32) {
    let room = Room::new(is_fair);
    let parties: Vec<_> = (0..parties)
        .map(|n| {
            let body = move || {
                for turn in 0..turns {
                    room.mutex.lock();
                    room.pass((n + turn) % 3 == 2);
                }
            };
            party(is_worker, body).1
        })
        .collect();
    let expected = parties.len() as u32 * turns;
    parties.into_iter().for_each(|party| party.join().unwrap());
    assert_eq!(room.count.load(SeqCst), expected);
    assert!(!room.mutex.is_locked());
}

#[test]
fn all_come_through() {
    check(|| through(false, true, 2, 2));
    check(|| through(false, false, 2, 2));
    check(|| through(true, true, 2, 2));
    check(|| through(true, false, 2, 2));
    check(|| through(false, true, 3, 2));
    check(|| through(true, true, 3, 2));
    check(|| through(false, false, 3, 1));
}

/// A waiter is handed it by a fair unlock, and by a caller that asks for that.
fn handed(is_fair: bool) {
    let room = Room::new(is_fair);
    room.mutex.lock();
    let (task, waiter) = party(true, || {
        room.mutex.lock();
        room.pass(false);
    });
    while task.departed.load(SeqCst) == 0 {
        thread::yield_now();
    }
    room.unlock(!is_fair);
    let (_, late) = party(true, || {
        if room.mutex.try_lock() {
            assert_eq!(room.count.load(SeqCst), 1, "overtaken");
            room.pass(false);
        }
    });
    [waiter, late]
        .into_iter()
        .for_each(|party| party.join().unwrap());
}

#[test]
fn nobody_overtakes() {
    check(|| handed(true));
    check(|| handed(false));
}

/// A waiter whose time passes, or that is asked to end, has not locked it; the others get there.
fn revoked(is_fair: bool, is_worker: bool, by_deadline: bool) {
    let room = Room::new(is_fair);
    let deadline = if by_deadline { SOON } else { u64::MAX };
    let (asked, hasty) = party(is_worker, move || {
        if room.mutex.lock_until(deadline) {
            room.pass(false);
        }
    });
    let patient = (0..2).map(|_| {
        party(is_worker, || {
            room.mutex.lock();
            room.pass(false);
        })
        .1
    });
    let patient: Vec<_> = patient.collect();
    let end = thread::spawn(move || {
        if by_deadline {
            crate::kernel::advance(SOON)
        } else {
            cancel::ask(asked)
        }
    });
    patient
        .into_iter()
        .chain([hasty, end])
        .for_each(|party| party.join().unwrap());
    assert!(room.count.load(SeqCst) >= 2 && !room.mutex.is_locked());
}

#[test]
fn a_revoked_wait_loses_nothing() {
    check(|| revoked(false, true, true));
    check(|| revoked(false, true, false));
    check(|| revoked(false, false, true));
    check(|| revoked(true, true, true));
    check(|| revoked(true, true, false));
    check(|| revoked(true, false, true));
}

/// To lock it is no point of cancellation: a thread that is asked to end has it afterwards.
#[test]
fn lock_waits_to_the_end() {
    check(|| {
        let room = Room::new(false);
        room.mutex.lock();
        room.enter();
        let (asked, waiter) = party(true, || {
            room.mutex.lock();
            room.pass(false);
        });
        let end = thread::spawn(move || cancel::ask(asked));
        thread::yield_now();
        room.leave();
        room.unlock(false);
        [waiter, end]
            .into_iter()
            .for_each(|party| party.join().unwrap());
        assert_eq!(room.count.load(SeqCst), 2);
    });
}

/// One of two, whichever is unlocked first; the other is untouched.
fn one_of_two(is_fair: bool, is_worker: bool) {
    let rooms = [Room::new(is_fair), Room::new(is_fair)];
    let parties = (0..3).map(|n| {
        party(is_worker, move || {
            let which = match n {
                0 => {
                    rooms[1].mutex.lock();
                    1
                }
                n => any(&[&Of(rooms[n - 1]), &Of(rooms[2 - n])], u64::MAX)
                    .map_or(2, |index| if n == 1 { index } else { 1 - index }),
            };
            rooms[which].pass(false);
        })
        .1
    });
    let parties: Vec<_> = parties.collect();
    parties.into_iter().for_each(|party| party.join().unwrap());
    assert_eq!(
        rooms
            .map(|room| room.count.load(SeqCst))
            .iter()
            .sum::<u32>(),
        3
    );
    assert!(rooms.iter().all(|room| !room.mutex.is_locked()));
}

/// The raw mutex of a room as an object.
pub(crate) struct Of(pub(crate) &'static Room);

impl crate::sync::objects::ObjectParts for Of {
    fn queue(&self) -> &dyn crate::rt::wait::SelectQueue {
        self.0.mutex.gate()
    }

    fn joint(&self) -> &dyn crate::sync::joint::Joint {
        self.0.mutex.gate()
    }
}

#[test]
fn any_locks_one_of_two() {
    check(|| one_of_two(false, true));
    check(|| one_of_two(true, true));
    check(|| one_of_two(false, false));
}
