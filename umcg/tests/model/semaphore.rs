//! Semaphores and altsems, on the protocol of waiting.

use crate::check;
use crate::rt::task::{self, Task};
use crate::rt::{cancel, time};
use crate::sync::{Semaphore, any};
use shuttle::sync::atomic::Ordering::SeqCst;
use shuttle::thread::{self, JoinHandle};

/// The deadline of those that have one.
pub(crate) const SOON: u64 = 10;

/// A task of its own that does something with the semaphores.
pub(crate) fn party<R: Send + 'static>(
    is_worker: bool,
    f: impl FnOnce() -> R + Send + 'static,
) -> (&'static Task, JoinHandle<R>) {
    let task = task::make(is_worker);
    (
        task,
        thread::spawn(move || {
            task::enter(task);
            f()
        }),
    )
}

fn leak(semaphore: Semaphore) -> &'static Semaphore {
    Box::leak(Box::new(semaphore))
}

fn of_kind(is_barging: bool) -> &'static Semaphore {
    leak(if is_barging {
        Semaphore::barging(0)
    } else {
        Semaphore::new(0)
    })
}

/// As many come through as there are wakeups: a lost one is a deadlock, one too many is left over.
fn through(is_barging: bool, is_worker: bool, parties: u32) {
    let semaphore = of_kind(is_barging);
    let takers: Vec<_> = (0..parties)
        .map(|_| party(is_worker, || semaphore.acquire().unwrap()).1)
        .collect();
    let givers: Vec<_> = (0..parties)
        .map(|_| party(true, || semaphore.release(1).unwrap()).1)
        .collect();
    takers
        .into_iter()
        .chain(givers)
        .for_each(|party| party.join().unwrap());
    assert_eq!(semaphore.available(), 0);
}

#[test]
fn all_come_through() {
    check(|| through(false, true, 2));
    check(|| through(false, false, 2));
    check(|| through(true, true, 2));
    check(|| through(true, false, 2));
    check(|| through(true, true, 3));
}

/// A wakeup given while a caller waits cannot be taken by a later caller.
#[test]
fn nobody_is_overtaken() {
    check(|| {
        let semaphore = of_kind(false);
        let (task, waiter) = party(true, || semaphore.acquire().unwrap());
        while task.departed.load(SeqCst) == 0 {
            thread::yield_now();
        }
        semaphore.release(1).unwrap();
        assert!(semaphore.try_acquire().is_err());
        waiter.join().unwrap();
    });
}

/// The first to come is served first.
#[test]
fn first_come_first_served() {
    fn in_order(is_worker: bool) {
        let semaphore = of_kind(false);
        let (_, first) = party(is_worker, || semaphore.acquire().unwrap());
        while !format!("{semaphore:?}").contains("has_waiters: true") {
            thread::yield_now();
        }
        let (_, second) = party(true, || semaphore.acquire_until(1, SOON).is_ok());
        semaphore.release(1).unwrap();
        first.join().unwrap();
        crate::kernel::advance(SOON);
        assert!(!second.join().unwrap());
    }
    check(|| in_order(true));
    check(|| in_order(false));
}

/// A waiter that is asked to end does, though it is given nothing.
fn asked(is_worker: bool) {
    let semaphore = of_kind(false);
    let (task, waiter) = party(is_worker, move || {
        semaphore.acquire_until(1, u64::MAX).is_ok()
    });
    let end = thread::spawn(move || cancel::ask(task));
    assert!(!waiter.join().unwrap());
    end.join().unwrap();
}

#[test]
fn a_reason_is_not_missed() {
    check(|| asked(true));
    check(|| asked(false));
}

/// A waiter whose time passes has taken nothing; nor has one that is asked to end.
fn revoked(is_barging: bool, is_worker: bool, by_deadline: bool) {
    let semaphore = of_kind(is_barging);
    let deadline = if by_deadline { SOON } else { u64::MAX };
    let (task, waiter) = party(is_worker, move || {
        semaphore.acquire_until(1, deadline).is_ok()
    });
    let (_, another) = party(is_worker, || semaphore.acquire().unwrap());
    let givers: Vec<_> = (0..2)
        .map(|_| party(true, || semaphore.release(1).unwrap()).1)
        .collect();
    let end = thread::spawn(move || {
        if by_deadline {
            crate::kernel::advance(SOON)
        } else {
            cancel::ask(task)
        }
    });
    let taken = waiter.join().unwrap();
    givers
        .into_iter()
        .chain([another, end])
        .for_each(|party| party.join().unwrap());
    assert_eq!(semaphore.available(), u32::from(!taken));
    assert!(!by_deadline || taken || time::now() >= SOON);
}

#[test]
fn a_revoked_wait_loses_nothing() {
    check(|| revoked(false, true, true));
    check(|| revoked(false, true, false));
    check(|| revoked(false, false, true));
    check(|| revoked(false, false, false));
    check(|| revoked(true, true, true));
    check(|| revoked(true, true, false));
    check(|| revoked(true, false, true));
}

/// A waiter that goes away from the front makes way for one that wants less.
#[test]
fn who_goes_makes_way() {
    check(|| {
        let semaphore = leak(Semaphore::new(1));
        let (_, large) = party(true, || semaphore.acquire_until(2, SOON).is_ok());
        let (_, small) = party(true, || semaphore.acquire().unwrap());
        let clock = thread::spawn(|| crate::kernel::advance(SOON));
        assert!(!large.join().unwrap());
        [small, clock]
            .into_iter()
            .for_each(|party| party.join().unwrap());
        assert_eq!(semaphore.available(), 0);
    });
}

/// Exactly one wakeup of exactly one semaphore, for each of two that wait for any.
fn one_of_two(is_barging: bool, is_worker: bool, deadline: u64) {
    let pair: &'static [&'static Semaphore; 2] =
        Box::leak(Box::new([of_kind(is_barging), of_kind(is_barging)]));
    let anys: Vec<_> = (0..2)
        .map(|_| party(is_worker, move || any(pair, deadline).ok()).1)
        .collect();
    let givers: Vec<_> = pair
        .iter()
        .map(|semaphore| party(true, || semaphore.release(1).unwrap()).1)
        .collect();
    let clock = (deadline != u64::MAX).then(|| thread::spawn(|| crate::kernel::advance(SOON)));
    let mut taken = [0; 2];
    anys.into_iter()
        .filter_map(|party| party.join().unwrap())
        .for_each(|index| taken[index] += 1);
    givers
        .into_iter()
        .chain(clock)
        .for_each(|party| party.join().unwrap());
    for (semaphore, taken) in pair.iter().zip(taken) {
        assert_eq!(semaphore.available() + taken, 1);
    }
    assert!(deadline != u64::MAX || taken == [1, 1]);
}

#[test]
fn any_takes_one_of_one() {
    check(|| one_of_two(false, true, u64::MAX));
    check(|| one_of_two(false, false, u64::MAX));
    check(|| one_of_two(true, true, u64::MAX));
    check(|| one_of_two(false, true, SOON));
    check(|| one_of_two(false, false, SOON));
}

/// The same one twice, beside one that waits plainly.
#[test]
fn the_same_one_twice() {
    check(|| {
        let semaphore = of_kind(false);
        let twice: &'static [&'static Semaphore; 2] = Box::leak(Box::new([semaphore, semaphore]));
        let parties = [
            party(true, || _ = any(twice, u64::MAX).unwrap()).1,
            party(true, || semaphore.acquire().unwrap()).1,
        ];
        semaphore.release(2).unwrap();
        parties.into_iter().for_each(|party| party.join().unwrap());
        assert_eq!(semaphore.available(), 0);
    });
}

/// All that wait, and all that come, are told that it was closed.
#[test]
fn nobody_waits_for_a_closed_one() {
    check(|| {
        let pair: &'static [&'static Semaphore; 2] =
            Box::leak(Box::new([of_kind(false), of_kind(false)]));
        let plain = party(true, || assert!(pair[0].acquire().is_err())).1;
        let either = party(false, || assert!(any(pair, u64::MAX).is_err())).1;
        pair[0].close();
        [plain, either]
            .into_iter()
            .for_each(|party| party.join().unwrap());
    });
}
