//! Mutexes: which waiter is handed one, that locking is no point of cancellation, and one of two.

use crate::check;
use crate::parties::{join_all, party, until_it_waits};
use crate::rt::cancel;
use crate::sync::objects::any;
use lock_api::RawMutex as _;
use shuttle::thread;

#[path = "../checked/mutex.rs"]
mod checked;
pub(crate) use checked::Room;

/// A waiter is handed it by a fair unlock, and by a caller that asks for that.
fn handed(is_fair: bool) {
    let room = Room::new(is_fair);
    room.mutex.lock();
    let (task, waiter) = party(true, || {
        room.mutex.lock();
        room.pass(false);
    });
    until_it_waits(task);
    room.unlock(!is_fair);
    let (_, late) = party(true, || {
        if room.mutex.try_lock() {
            assert_eq!(room.count(), 1, "overtaken");
            room.pass(false);
        }
    });
    join_all([waiter, late]);
}

#[test]
fn nobody_overtakes() {
    check(|| handed(true));
    check(|| handed(false));
}

/// To lock it is no point of cancellation: a worker that is asked to end has it afterwards.
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
        join_all([waiter, end]);
        assert_eq!(room.count(), 2);
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
    join_all(parties);
    assert_eq!(rooms.map(|room| room.count()).iter().sum::<u32>(), 3);
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
