//! Semaphores and altsems, on the protocol of waiting.

use crate::checker::{check, check_large, check_with_heavy, leak, pass};
use crate::parties::{
    Data, NEVER, SOON, be, clock, deadline_if, end, ender, join_all, parties, party,
    until_it_waits, worker,
};
use crate::rt::time;
use crate::sync::{Semaphore, any};

fn of_kind(is_barging: bool, wakeups: u32) -> &'static Semaphore {
    leak(if is_barging {
        Semaphore::barging(wakeups)
    } else {
        Semaphore::new(wakeups)
    })
}

/// As many come through as there are wakeups: a lost one is a deadlock, one too many is left over.
/// With one giver they see what it did before.
fn through(is_barging: bool, is_worker: bool, takers: u32, givers: u32) {
    let (semaphore, data) = (of_kind(is_barging, 0), Data::new());
    let taking = parties(takers, is_worker, move || {
        semaphore.acquire().unwrap();
        assert!(givers > 1 || data.read() == 1);
    });
    let giving = parties(givers - 1, true, || semaphore.release(1).unwrap());
    be(true);
    data.write();
    semaphore.release(takers + 1 - givers).unwrap();
    join_all(taking.into_iter().chain(giving));
    assert_eq!(semaphore.available(), 0);
}

#[test]
fn all_come_through() {
    check(2, || through(false, true, 1, 1));
    check(2, || through(false, false, 1, 1));
    check(2, || through(true, true, 1, 1));
    check(2, || through(true, false, 1, 1));
    check(3, || through(false, true, 2, 1));
    check(3, || through(false, false, 2, 1));
    check_large(|| through(false, true, 2, 2));
    check_large(|| through(false, false, 2, 2));
    check_large(|| through(true, true, 2, 2));
    check_large(|| through(true, false, 2, 2));
    check_large(|| through(true, true, 3, 3));
}

/// As a lock: what one does in there the next one sees.
fn excludes(is_barging: bool, is_worker: bool, turns: u32) {
    let (semaphore, data) = (of_kind(is_barging, 1), Data::new());
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

/// What was given while somebody waits cannot be taken by a party that comes then.
#[test]
fn nobody_is_overtaken() {
    check(2, || {
        let semaphore = of_kind(false, 0);
        let (task, waiter) = party(true, || semaphore.acquire().unwrap());
        be(true);
        until_it_waits(task);
        semaphore.release(1).unwrap();
        assert!(semaphore.try_acquire().is_err());
        waiter.join().unwrap();
    });
}

/// A reason is not missed, though nobody gives anything; nor does the frame go while somebody looks
/// at it.
fn only_ended(is_worker: bool, by_deadline: bool) {
    let semaphore = of_kind(false, 0);
    let deadline = deadline_if(by_deadline);
    let (task, waiter) = party(is_worker, move || {
        semaphore.acquire_until(1, deadline).is_ok()
    });
    be(true);
    end(task, by_deadline);
    assert!(!waiter.join().unwrap());
}

#[test]
fn a_reason_is_not_missed() {
    check_with_heavy(2, || only_ended(true, true));
    check_with_heavy(2, || only_ended(true, false));
    check_with_heavy(2, || only_ended(false, true));
    check_with_heavy(2, || only_ended(false, false));
}

/// A party whose wait is ended has taken nothing. So many others come through beside it.
fn revoked(is_barging: bool, is_worker: bool, by_deadline: bool, others: u32) {
    let (semaphore, data) = (of_kind(is_barging, 0), Data::new());
    let deadline = deadline_if(by_deadline);
    let (task, waiter) = party(is_worker, move || {
        let taken = semaphore.acquire_until(1, deadline).is_ok();
        assert!(!taken || others > 0 || data.read() == 1);
        taken
    });
    let patient = parties(others, is_worker, || semaphore.acquire().unwrap());
    let givers = parties(others, true, || semaphore.release(1).unwrap());
    let ender = ender(task, by_deadline);
    be(true);
    data.write();
    semaphore.release(1).unwrap();
    let taken = waiter.join().unwrap();
    join_all(patient.into_iter().chain(givers).chain([ender]));
    assert_eq!(semaphore.available(), u32::from(!taken));
    assert!(!by_deadline || taken || time::now() >= SOON);
}

#[test]
fn a_revoked_wait_takes_nothing() {
    check_with_heavy(3, || revoked(false, true, true, 0));
    check_with_heavy(3, || revoked(false, true, false, 0));
    check_with_heavy(3, || revoked(false, false, true, 0));
    check_with_heavy(3, || revoked(false, false, false, 0));
    check_large(|| revoked(false, true, true, 1));
    check_large(|| revoked(false, true, false, 1));
    check_large(|| revoked(false, false, true, 1));
    check_large(|| revoked(false, false, false, 1));
    check_large(|| revoked(true, true, true, 1));
    check_large(|| revoked(true, true, false, 1));
    check_large(|| revoked(true, false, true, 1));
}

/// A party that goes away from the front makes way for one that wants less.
#[test]
fn who_goes_makes_way() {
    check_with_heavy(3, || {
        let semaphore = of_kind(false, 1);
        let (task, large) = party(true, || semaphore.acquire_until(2, SOON).is_ok());
        let small = worker(|| semaphore.acquire().unwrap());
        be(true);
        pass(task, SOON);
        assert!(!large.join().unwrap());
        small.join().unwrap();
        assert_eq!(semaphore.available(), 0);
    });
}

/// Exactly one wakeup of exactly one semaphore, for each of those that wait for either.
fn one_of_two(is_barging: bool, is_worker: bool, takers: u32, deadline: u64) {
    let pair: &'static [&Semaphore; 2] = leak([of_kind(is_barging, 0), of_kind(is_barging, 0)]);
    let data = [Data::new(), Data::new()];
    let give = move |index: usize| {
        data[index].write();
        pair[index].release(1).unwrap();
    };
    let taking = parties(takers, is_worker, move || {
        let index = any(pair, deadline).ok()?;
        assert_eq!(data[index].read(), 1);
        Some(index)
    });
    let giver = worker(move || give(0));
    let clock = (deadline != NEVER).then(clock);
    be(true);
    give(1);
    let mut taken = [0; 2];
    join_all(taking)
        .into_iter()
        .flatten()
        .for_each(|index| taken[index] += 1);
    join_all([giver].into_iter().chain(clock));
    for (semaphore, taken) in pair.iter().zip(taken) {
        assert_eq!(semaphore.available() + taken, 1);
    }
    assert!(deadline != NEVER || taken.iter().sum::<u32>() == takers);
}

#[test]
fn any_takes_one_of_one() {
    check(3, || one_of_two(false, true, 1, NEVER));
    check(3, || one_of_two(false, false, 1, NEVER));
    check_large(|| one_of_two(false, true, 2, NEVER));
    check_large(|| one_of_two(false, false, 2, NEVER));
    check_large(|| one_of_two(true, true, 2, NEVER));
    check_large(|| one_of_two(false, true, 2, SOON));
    check_large(|| one_of_two(false, false, 2, SOON));
}

/// All that wait, and all that come, are told that it was closed.
#[test]
fn nobody_waits_for_a_closed_one() {
    check(3, || {
        let pair = [of_kind(false, 0), of_kind(false, 0)];
        let plain = worker(move || assert!(pair[0].acquire().is_err()));
        let either = party(false, move || assert!(any(&pair, NEVER).is_err())).1;
        be(true);
        pair[0].close();
        join_all([plain, either]);
    });
}
