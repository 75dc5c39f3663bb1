//! Semaphores and altsems, on the protocol of waiting.

use crate::rt::cancel;
use crate::rt::task::Task;
use crate::rt::wait::deadline;
use crate::shim::cell::Cell;
use crate::sync::{Semaphore, any};
use crate::{be, check, check_with_heavy, leak, party};
use std::sync::atomic::Ordering::Relaxed;

/// The deadline of those that have one.
pub(crate) const SOON: u64 = 10;

/// A value given with a wakeup, and seen by the thread that takes it.
pub(crate) struct Data(Cell<u32>);

// SAFETY: the cell fails where it is not so.
unsafe impl Sync for Data {}

impl Data {
    pub(crate) fn new() -> &'static Data {
        leak(Data(Cell::new(0)))
    }

    pub(crate) fn write(&self) {
        self.0.set(self.0.get() + 1);
    }

    pub(crate) fn read(&self) -> u32 {
        self.0.get()
    }
}

fn of_kind(is_barging: bool) -> &'static Semaphore {
    leak(if is_barging {
        Semaphore::barging(0)
    } else {
        Semaphore::new(0)
    })
}

/// A thread that comes through sees the earlier changes.
fn one(is_barging: bool, is_worker: bool) {
    let (semaphore, data) = (of_kind(is_barging), Data::new());
    let (_, taker) = party(is_worker, || {
        semaphore.acquire().unwrap();
        assert_eq!(data.read(), 1);
    });
    be(true);
    data.write();
    semaphore.release(1).unwrap();
    taker.join().unwrap();
    assert_eq!(semaphore.available(), 0);
}

#[test]
fn a_wakeup_says_what_was_before() {
    check(2, || one(false, true));
    check(2, || one(false, false));
    check(2, || one(true, true));
    check(2, || one(true, false));
}

/// Two wait, or come in time, and each gets one of two.
fn two(is_worker: bool) {
    let (semaphore, data) = (of_kind(false), Data::new());
    let take = || {
        semaphore.acquire().unwrap();
        assert_eq!(data.read(), 1);
    };
    let takers = [party(is_worker, take).1, party(is_worker, take).1];
    be(true);
    data.write();
    semaphore.release(2).unwrap();
    takers.into_iter().for_each(|taker| taker.join().unwrap());
    assert_eq!(semaphore.available(), 0);
}

#[test]
fn each_gets_one() {
    check(3, || two(true));
    check(3, || two(false));
}

/// As a lock: the changes of one holder are seen by the next.
fn excludes(is_barging: bool, is_worker: bool, turns: u32) {
    let semaphore = leak(if is_barging {
        Semaphore::barging(1)
    } else {
        Semaphore::new(1)
    });
    let data = Data::new();
    let pass = move || {
        for _ in 0..turns {
            semaphore.acquire().unwrap();
            data.write();
            semaphore.release(1).unwrap();
        }
    };
    let (_, other) = party(is_worker, pass);
    be(is_worker);
    pass();
    other.join().unwrap();
    assert_eq!(data.read(), 2 * turns);
}

#[test]
fn one_at_a_time() {
    check(2, || excludes(false, true, 2));
    check(2, || excludes(false, false, 1));
    check(2, || excludes(true, true, 2));
    check(2, || excludes(true, false, 1));
}

/// The reason to end a wait, and then its end, by a third party.
pub(crate) fn end(task: &'static Task, by_deadline: bool) {
    if by_deadline {
        deadline::pass(task, SOON);
    } else {
        cancel::ask(task);
    }
}

/// A waiter whose wait is ended has taken nothing.
fn revoked(is_worker: bool, by_deadline: bool) {
    let (semaphore, data) = (of_kind(false), Data::new());
    let deadline = if by_deadline { SOON } else { u64::MAX };
    let (task, taker) = party(is_worker, move || {
        let taken = semaphore.acquire_until(1, deadline).is_ok();
        assert!(!taken || data.read() == 1);
        taken
    });
    let (_, ender) = party(true, move || end(task, by_deadline));
    be(true);
    data.write();
    semaphore.release(1).unwrap();
    let taken = taker.join().unwrap();
    ender.join().unwrap();
    assert_eq!(semaphore.available(), u32::from(!taken));
}

/// A reason is not missed, though no wakeup is given; nor does the frame go while a thread looks at
/// it.
fn only_ended(is_worker: bool, by_deadline: bool) {
    let semaphore = of_kind(false);
    let deadline = if by_deadline { SOON } else { u64::MAX };
    let (task, taker) = party(is_worker, move || {
        assert!(semaphore.acquire_until(1, deadline).is_err() || !by_deadline)
    });
    be(true);
    end(task, by_deadline);
    taker.join().unwrap();
}

/// A thread looks, without a reason, while the waiter goes on and waits again, in the same place.
fn looked_at(is_worker: bool) {
    let semaphore = of_kind(false);
    let (task, taker) = party(is_worker, || {
        (0..2).for_each(|_| semaphore.acquire().unwrap())
    });
    be(true);
    semaphore.release(1).unwrap();
    deadline::pass(task, SOON);
    semaphore.release(1).unwrap();
    taker.join().unwrap();
}

#[test]
fn a_frame_is_there_while_somebody_looks() {
    check_with_heavy(2, || looked_at(true));
    check_with_heavy(2, || looked_at(false));
}

#[test]
fn a_reason_is_not_missed() {
    check_with_heavy(2, || only_ended(true, true));
    check_with_heavy(2, || only_ended(true, false));
    check_with_heavy(2, || only_ended(false, true));
    check_with_heavy(2, || only_ended(false, false));
}

#[test]
fn a_revoked_wait_takes_nothing() {
    check_with_heavy(3, || revoked(true, true));
    check_with_heavy(3, || revoked(true, false));
    check_with_heavy(3, || revoked(false, true));
    check_with_heavy(3, || revoked(false, false));
}

/// One wakeup of one of two semaphores, each of which is given one.
fn one_of_two(is_worker: bool) {
    let pair: &'static [Semaphore; 2] = leak([Semaphore::new(0), Semaphore::new(0)]);
    let data = [Data::new(), Data::new()];
    let give = move |index: usize| {
        data[index].write();
        pair[index].release(1).unwrap();
    };
    let (_, taker) = party(is_worker, move || {
        let index = any(&[&pair[0], &pair[1]], u64::MAX).unwrap();
        assert_eq!(data[index].read(), 1);
        index
    });
    let (_, giver) = party(true, move || give(0));
    be(true);
    give(1);
    giver.join().unwrap();
    let index = taker.join().unwrap();
    assert_eq!(pair[index].available(), 0);
    assert_eq!(pair[1 - index].available(), 1);
}

#[test]
fn any_takes_one_of_one() {
    check(3, || one_of_two(true));
    check(3, || one_of_two(false));
}
