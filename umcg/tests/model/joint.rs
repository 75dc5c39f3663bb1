//! Waiting for all of many objects, on the protocol of waiting.

use crate::check;
use crate::mutex::{Of, Room};
use crate::parties::{SOON, clock, deadline_if, ender, join_all, party, until_it_waits};
use crate::sync::Semaphore;
use crate::sync::event::Event;
use crate::sync::objects::{Object, all};
use lock_api::RawMutex as _;
use shuttle::thread;

fn pair(is_barging: bool) -> [&'static Semaphore; 2] {
    let one = || {
        if is_barging {
            Semaphore::barging(0)
        } else {
            Semaphore::new(0)
        }
    };
    [Box::leak(Box::new(one())), Box::leak(Box::new(one()))]
}

fn saved(pair: [&Semaphore; 2]) -> [u32; 2] {
    pair.map(Semaphore::available)
}

/// In whatever order things come and are asked for: all waiters come through, and nothing is left.
fn through(is_barging: bool, is_worker: bool, waiters: u32) {
    let pair = pair(is_barging);
    let waiters: Vec<_> = (0..waiters)
        .map(|n| {
            let list = if n == 0 { pair } else { [pair[1], pair[0]] };
            party(is_worker, move || {
                all(&[list[0], list[1]], u64::MAX).unwrap()
            })
            .1
        })
        .collect();
    let count = waiters.len() as u32;
    let givers = pair.map(|semaphore| {
        party(true, move || {
            for _ in 0..count {
                semaphore.release(1).unwrap();
            }
        })
        .1
    });
    join_all(waiters.into_iter().chain(givers));
    assert_eq!(saved(pair), [0, 0]);
}

#[test]
fn all_come_through() {
    check(|| through(false, true, 1));
    check(|| through(false, false, 1));
    check(|| through(true, true, 1));
    check(|| through(false, true, 2));
    check(|| through(true, false, 2));
}

/// Beside one that wants one of them only.
fn beside(is_barging: bool, is_worker: bool) {
    let pair = pair(is_barging);
    let (_, joint) = party(is_worker, move || {
        all(&[pair[0], pair[1]], u64::MAX).unwrap()
    });
    let (_, plain) = party(is_worker, move || pair[0].acquire().unwrap());
    let (_, giver) = party(true, move || {
        pair[0].release(1).unwrap();
        pair[1].release(1).unwrap();
    });
    pair[0].release(1).unwrap();
    join_all([joint, plain, giver]);
    assert_eq!(saved(pair), [0, 0]);
}

#[test]
fn beside_a_plain_one() {
    check(|| beside(false, true));
    check(|| beside(true, true));
    check(|| beside(false, false));
}

/// All or nothing.
fn revoked(is_worker: bool, by_deadline: bool) {
    let pair = pair(false);
    let deadline = deadline_if(by_deadline);
    let (asked, hasty) = party(is_worker, move || {
        all(&[pair[0], pair[1]], deadline).is_ok()
    });
    let givers = pair.map(|semaphore| party(true, move || semaphore.release(1).unwrap()).1);
    let end = ender(asked, by_deadline);
    let taken = hasty.join().unwrap();
    join_all(givers.into_iter().chain([end]));
    assert_eq!(saved(pair), if taken { [0, 0] } else { [1, 1] });
}

#[test]
fn all_or_nothing() {
    check(|| revoked(true, true));
    check(|| revoked(true, false));
    check(|| revoked(false, true));
    check(|| revoked(false, false));
}

/// Nothing is kept from others as long as the rest is missing.
#[test]
fn nothing_is_withheld() {
    check(|| {
        let pair = pair(false);
        let (_, joint) = party(true, move || all(&[pair[0], pair[1]], u64::MAX).unwrap());
        // It needs the first to give the second.
        let (_, plain) = party(true, move || {
            pair[0].acquire().unwrap();
            pair[0].release(1).unwrap();
            pair[1].release(1).unwrap();
        });
        pair[0].release(1).unwrap();
        join_all([joint, plain]);
        assert_eq!(saved(pair), [0, 0]);
    });
}

/// An earlier waiter that goes makes way.
#[test]
fn who_goes_makes_way() {
    check(|| {
        let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(1)));
        let event: &'static Event = Box::leak(Box::new(Event::manual(true)));
        let (_, large) = party(true, || semaphore.acquire_until(2, SOON).is_ok());
        let (_, joint) = party(true, || all(&[semaphore, event], u64::MAX).unwrap());
        let clock = clock();
        assert!(!large.join().unwrap());
        join_all([joint, clock]);
        assert_eq!(semaphore.available(), 0);
    });
}

/// A pulse counts if all the rest is there.
#[test]
fn a_pulse_counts() {
    check(|| {
        let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(0)));
        let event: &'static Event = Box::leak(Box::new(Event::manual(false)));
        let (task, joint) = party(true, || all(&[event, semaphore], SOON).is_ok());
        until_it_waits(task);
        let (_, giver) = party(true, || semaphore.release(1).unwrap());
        event.pulse();
        let was_there = semaphore.available() == 0;
        giver.join().unwrap();
        crate::kernel::advance(SOON);
        let taken = joint.join().unwrap();
        assert!(!event.is_set());
        assert_eq!(semaphore.available() == 0, taken);
        assert!(!taken || was_there);
    });
}

/// Mutexes, by two that want both: as philosophers do.
fn forks(is_fair: bool, is_worker: bool) {
    let forks = [Room::new(is_fair), Room::new(is_fair)];
    let parties: Vec<_> = (0..3)
        .map(|n| {
            party(is_worker, move || {
                let pair = if n == 0 { forks } else { [forks[1], forks[0]] };
                let objects: [&dyn Object; 2] = [&Of(pair[0]), &Of(pair[1])];
                if n == 2 {
                    pair[0].mutex.lock();
                } else {
                    all(&objects, u64::MAX).unwrap();
                }
                for fork in &pair[..if n == 2 { 1 } else { 2 }] {
                    fork.enter();
                    thread::yield_now();
                    fork.leave();
                    // SAFETY: it was taken above, alone or with the other.
                    unsafe { fork.mutex.unlock() };
                }
            })
            .1
        })
        .collect();
    join_all(parties);
    assert!(forks.iter().all(|fork| !fork.mutex.is_locked()));
}

#[test]
fn philosophers() {
    check(|| forks(false, true));
    check(|| forks(true, true));
    check(|| forks(false, false));
}

/// Closing one of them tells the waiter for all.
#[test]
fn closed() {
    check(|| {
        let pair = pair(false);
        let (_, joint) = party(true, move || {
            assert!(all(&[pair[0], pair[1]], u64::MAX).is_err())
        });
        let (_, giver) = party(true, move || pair[0].release(1).unwrap());
        pair[1].close();
        join_all([joint, giver]);
        assert_eq!(saved(pair), [1, 0]);
    });
}
