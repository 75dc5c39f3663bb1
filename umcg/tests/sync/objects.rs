//! Waiting for any, or for all, of many objects.

use crate::mutexes::raw;
use crate::parties::{Party, SORTS, Sort, abort, everywhere, join_all, until_waiting, waiters};
use crate::support::{HOUR, counter, eventually, flag};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::JoinError;
use umcg::sync::{
    AcquireError, Closed, Event, Mutex, Object, RawMutex, Semaphore, TryAcquireError, try_wait_all,
    try_wait_any, wait_all, wait_all_deadline, wait_all_timeout, wait_any, wait_any_deadline,
    wait_any_timeout,
};

const SHORT: Duration = Duration::from_millis(2);

/// One of each.
struct Things {
    auto: Event,
    manual: Event,
    strong: Semaphore,
    barging: Semaphore,
    mutex: Mutex<u64>,
    fair: Mutex<u64>,
}

impl Things {
    /// Nothing is there.
    fn new() -> Arc<Things> {
        let things = Things {
            auto: Event::auto(false),
            manual: Event::manual(false),
            strong: Semaphore::new(0),
            barging: Semaphore::barging(0),
            mutex: Mutex::new(0),
            fair: Mutex::from_raw(RawMutex::fair(), 0),
        };
        (0..2).for_each(|n| std::mem::forget(things.mutexes()[n].lock()));
        Arc::new(things)
    }

    fn all(&self) -> [&dyn Object; 6] {
        [
            &self.auto,
            &self.manual,
            &self.strong,
            &self.barging,
            &self.mutex,
            &self.fair,
        ]
    }

    fn mutexes(&self) -> [&Mutex<u64>; 2] {
        [&self.mutex, &self.fair]
    }

    fn give(&self, n: usize) {
        match n {
            0 => self.auto.set(),
            1 => self.manual.set(),
            2 => self.strong.release(1).unwrap(),
            3 => self.barging.release(1).unwrap(),
            // SAFETY: locked by `new`, by `try_take` or by a wait, none of which leaves a guard;
            // and given once for each time.
            n => unsafe { self.mutexes()[n - 4].force_unlock() },
        }
    }

    fn is_there(&self, n: usize) -> bool {
        match n {
            0 => self.auto.is_set(),
            1 => self.manual.is_set(),
            2 => self.strong.available() > 0,
            3 => self.barging.available() > 0,
            n => !self.mutexes()[n - 4].is_locked(),
        }
    }

    fn try_take(&self, n: usize) -> bool {
        match n {
            0 => self.auto.try_wait(),
            1 => self.manual.try_wait(),
            2 => self.strong.try_acquire().is_ok(),
            3 => self.barging.try_acquire().is_ok(),
            n => self.mutexes()[n - 4]
                .try_lock()
                .map(std::mem::forget)
                .is_some(),
        }
    }

    fn waiting(&self) -> [usize; 6] {
        let raw = self.mutexes().map(|mutex| waiters(raw(mutex)));
        [
            waiters(&self.auto),
            waiters(&self.manual),
            waiters(&self.strong),
            waiters(&self.barging),
            raw[0],
            raw[1],
        ]
    }

    #[track_caller]
    fn until_waiting(&self, count: usize) {
        eventually("they wait", || self.waiting() == [count; 6]);
    }
}

/// Nothing is taken before all are there; then all are taken, whichever comes last.
#[test]
fn all_or_nothing() {
    everywhere("all", |place| {
        for last in 0..6 {
            for sort in SORTS {
                let (things, is_over) = (Things::new(), flag());
                let (inside, over) = (things.clone(), is_over.clone());
                let party = place.start(sort, move || {
                    wait_all(&inside.all()).unwrap();
                    over.store(true, Relaxed);
                });
                things.until_waiting(1);
                for n in (0..6).filter(|n| *n != last) {
                    things.give(n);
                    assert_eq!(try_wait_all(&things.all()), Err(TryAcquireError::Empty));
                    assert!(things.is_there(n), "nothing is taken before all is there");
                    // Others may have it meanwhile.
                    assert!(things.try_take(n));
                    things.give(n);
                }
                assert!(!is_over.load(Relaxed));
                things.give(last);
                party.join();
                assert_eq!(
                    [0, 1, 2, 3, 4, 5].map(|n| things.is_there(n)),
                    [false, true, false, false, false, false]
                );
                assert_eq!(things.waiting(), [0; 6]);
            }
        }
    });
}

/// The lowest of those that are there; the others stay as they were.
#[test]
fn any_of_all() {
    everywhere("any", |place| {
        let things = Things::new();
        assert_eq!(try_wait_any(&things.all()), Err(TryAcquireError::Empty));
        for n in [5, 3, 0] {
            things.give(n);
        }
        for n in [0, 3, 5] {
            assert_eq!(wait_any(&things.all()), Ok(n));
        }
        for n in 0..6 {
            let inside = things.clone();
            let party = place.start(SORTS[n % 3], move || wait_any(&inside.all()));
            things.until_waiting(1);
            things.give(n);
            assert_eq!(party.join(), Ok(n));
            things.manual.reset();
            assert_eq!([0, 1, 2, 3, 4, 5].map(|n| things.is_there(n)), [false; 6]);
            assert_eq!(things.waiting(), [0; 6]);
        }
        // More than fit on the stack, and one of them twice.
        let many: Vec<&dyn Object> = things.all().into_iter().cycle().take(20).collect();
        assert_eq!(wait_any_timeout(&many, SHORT), Err(AcquireError::TimedOut));
        things.give(4);
        assert_eq!(wait_any_timeout(&many, HOUR), Ok(4));
        things.give(2);
        assert_eq!(wait_any_deadline(&many, Instant::now()), Ok(2));
    });
}

/// The earlier waiter comes before, and the later one after, where all are there.
#[test]
fn in_order() {
    everywhere("order", |place| {
        let (pair, log) = (
            Arc::new([Semaphore::new(0), Semaphore::new(0)]),
            Arc::new(Mutex::new(Vec::new())),
        );
        let mut parties = Vec::new();
        for n in 0..6 {
            let (inside, log) = (pair.clone(), log.clone());
            parties.push(place.start(SORTS[n % 3], move || {
                match n {
                    0 | 2 | 5 => inside[0].acquire().unwrap(),
                    1 => wait_all(&[&inside[0], &inside[1]]).unwrap(),
                    _ => wait_all(&[&inside[1], &inside[0]]).unwrap(),
                }
                log.lock().push(n);
            }));
            until_waiting(&pair[0], n + 1);
        }
        let give = |which: usize, then: &[usize]| {
            pair[which].release(1).unwrap();
            eventually("they go on", || log.lock().len() >= then.len());
            assert_eq!(*log.lock(), then);
        };
        // 1 is before 2 but has not all yet.
        give(0, &[0]);
        give(0, &[0, 2]);
        give(1, &[0, 2]);
        // Now it has, and is before 5. So is 3.
        give(0, &[0, 2, 1]);
        give(1, &[0, 2, 1]);
        give(0, &[0, 2, 1, 3]);
        give(0, &[0, 2, 1, 3, 5]);
        pair[0].release(1).unwrap();
        pair[1].release(1).unwrap();
        join_all(parties);
        assert_eq!((pair[0].available(), pair[1].available()), (0, 0));
    });
}

/// Plain waiters that cannot be served hold off those behind them; when they go away that ends.
#[test]
fn who_gives_up_makes_way() {
    everywhere("giving up", |place| {
        let (semaphore, event) = (Arc::new(Semaphore::new(1)), Arc::new(Event::manual(false)));
        let inside = semaphore.clone();
        let large = place.worker(move || inside.acquire_many(2));
        until_waiting(&*semaphore, 1);
        let (one, other) = (semaphore.clone(), event.clone());
        let joint = place.start(Sort::Thread, move || wait_all(&[&*one, &*other]).unwrap());
        until_waiting(&*semaphore, 2);
        event.set();
        assert_eq!(
            try_wait_all(&[&*event, &*semaphore]),
            Err(TryAcquireError::Empty)
        );
        assert_eq!(waiters(&*semaphore), 2);
        abort(large);
        joint.join();
        assert_eq!(semaphore.available(), 0);
    });
}

/// A plain waiter of a barging semaphore that wants more holds up a joint one behind it, whichever
/// object is given last.
#[test]
fn a_barging_semaphore_is_served_in_order() {
    for barging_last in [false, true] {
        everywhere("held up", |place| {
            let pair = Arc::new((Semaphore::barging(0), Semaphore::new(0)));
            let inside = pair.clone();
            let large = place.worker(move || inside.0.acquire_many(4));
            until_waiting(&pair.0, 1);
            let inside = pair.clone();
            let joint = place.start(Sort::Thread, move || {
                wait_all(&[&inside.0, &inside.1]).unwrap()
            });
            until_waiting(&pair.0, 2);
            if barging_last {
                pair.1.release(1).unwrap();
                pair.0.release(2).unwrap();
            } else {
                pair.0.release(2).unwrap();
                pair.1.release(1).unwrap();
            }
            assert_eq!(waiters(&pair.1), 1);
            abort(large);
            joint.join();
            assert_eq!((pair.0.available(), pair.1.available()), (1, 0));
        });
    }
}

/// A closed semaphore does not say that it has waiters.
#[test]
fn no_waiters_are_left_by_a_close() {
    everywhere("closed", |place| {
        let semaphore = Arc::new(Semaphore::new(0));
        let inside = semaphore.clone();
        let waiter = place.start(Sort::Thread, move || {
            assert_eq!(inside.acquire(), Err(Closed))
        });
        until_waiting(&*semaphore, 1);
        semaphore.close();
        waiter.join();
        assert!(format!("{semaphore:?}").contains("has_waiters: false"));
    });
}

/// A pulse is for a waiter that wants this and nothing else, or has all the rest.
#[test]
fn pulses() {
    everywhere("pulse", |place| {
        for event in [Event::auto(false), Event::manual(false)].map(Arc::new) {
            let semaphore = Arc::new(Semaphore::new(0));
            let (one, other) = (semaphore.clone(), event.clone());
            let joint = place.start(Sort::Worker, move || wait_all(&[&*one, &*other]).unwrap());
            until_waiting(&*event, 1);
            event.pulse();
            semaphore.release(1).unwrap();
            until_waiting(&*event, 1);
            assert_eq!(semaphore.available(), 1);
            event.pulse();
            joint.join();
            assert!(!event.is_set() && semaphore.available() == 0);
        }
    });
}

/// A waiter whose time passes, or that is aborted, has taken nothing.
#[test]
fn deadlines_and_aborts() {
    everywhere("deadlines", |place| {
        let things = Things::new();
        (0..5).for_each(|n| things.give(n));
        let start = Instant::now();
        assert_eq!(
            wait_all_timeout(&things.all(), SHORT),
            Err(AcquireError::TimedOut)
        );
        assert!(start.elapsed() >= SHORT);
        assert_eq!(
            wait_all_deadline(&things.all(), start),
            Err(AcquireError::TimedOut)
        );
        for sort in [Sort::Worker, Sort::Blocking] {
            let inside = things.clone();
            let Party::Worker(worker) = place.start(sort, move || wait_all(&inside.all())) else {
                unreachable!()
            };
            things.until_waiting(1);
            abort(worker);
            things.until_waiting(0);
        }
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(|n| things.is_there(n)),
            [true, true, true, true, true, false]
        );
        things.give(5);
        assert_eq!(wait_all_timeout(&things.all(), HOUR), Ok(()));
    });
}

/// An abort against the last object to come: all are taken, or nothing.
#[test]
fn an_abort_takes_all_or_nothing() {
    everywhere("aborts", |place| {
        for turn in 0..60 {
            let (things, taken) = (Things::new(), counter());
            (0..6)
                .filter(|n| *n != turn % 6)
                .for_each(|n| things.give(n));
            let (inside, count) = (things.clone(), taken.clone());
            let worker = place.worker(move || {
                wait_all(&inside.all()).unwrap();
                count.fetch_add(1, Relaxed);
            });
            things.until_waiting(1);
            let inside = things.clone();
            let giver = place.start(SORTS[turn % 3], move || inside.give(turn % 6));
            worker.abort();
            giver.join();
            let result = worker.join();
            let is_taken = taken.load(Relaxed) == 1;
            assert!(is_taken || matches!(result, Err(JoinError::Cancelled)));
            let left = !is_taken;
            assert_eq!(
                [0, 1, 2, 3, 4, 5].map(|n| things.is_there(n)),
                [left, true, left, left, left, left]
            );
            assert_eq!(things.waiting(), [0; 6]);
        }
    });
}

#[test]
fn closed() {
    everywhere("closed", |place| {
        let things = Things::new();
        let parties = place.crowd(1, |n| {
            let things = things.clone();
            move || match n {
                0 => assert_eq!(wait_any(&things.all()), Err(Closed)),
                _ => assert_eq!(wait_all(&things.all()), Err(Closed)),
            }
        });
        things.until_waiting(3);
        things.barging.close();
        join_all(parties);
        assert_eq!(things.waiting(), [0; 6]);
        assert_eq!(wait_all(&things.all()), Err(Closed));
        assert_eq!(try_wait_all(&things.all()), Err(TryAcquireError::Closed));
        assert_eq!(try_wait_any(&things.all()), Err(TryAcquireError::Closed));
        assert_eq!(
            wait_all_timeout(&things.all(), HOUR),
            Err(AcquireError::Closed)
        );
        assert_eq!(
            wait_any_timeout(&things.all(), HOUR),
            Err(AcquireError::Closed)
        );
    });
}

#[test]
fn nothing_and_the_same_twice() {
    crate::support::silence_what_is_expected();
    let panics =
        |f: &(dyn Fn() + std::panic::RefUnwindSafe)| std::panic::catch_unwind(f).unwrap_err();
    let words = panics(&|| assert!(wait_any(&[]).is_err()));
    assert_eq!(
        *words.downcast::<&str>().unwrap(),
        "wait_any: an empty list"
    );
    assert_eq!(wait_all(&[]), Ok(()));
    let words = panics(&|| {
        let event = Event::manual(true);
        assert!(wait_all(&[&event, &event]).is_err());
    });
    assert_eq!(
        *words.downcast::<&str>().unwrap(),
        "wait_all: the same object twice"
    );
}

/// Philosophers that take their forks in any order: none starves, and a fork is one's at a time.
#[test]
fn philosophers() {
    const MEALS: u64 = 60;
    everywhere("philosophers", |place| {
        let forks: Arc<Vec<Mutex<u64>>> = Arc::new((0..6).map(|_| Mutex::new(0)).collect());
        let parties = place.crowd(2, |n| {
            let forks = forks.clone();
            move || {
                let (left, right) = (&forks[n], &forks[(n + 1) % 6]);
                for meal in 0..MEALS {
                    match meal % 3 {
                        0 => wait_all(&[left, right]).unwrap(),
                        1 => wait_all(&[right, left]).unwrap(),
                        _ => {
                            while wait_all_timeout(&[left, right], Duration::from_micros(100))
                                .is_err()
                            {}
                        }
                    }
                    for fork in [left, right] {
                        // SAFETY: it is locked, by the wait, and has no other guard.
                        *unsafe { fork.make_guard_unchecked() } += 1;
                        // It has unlocked it: again, plainly.
                        *fork.lock() += 1;
                    }
                }
            }
        });
        join_all(parties);
        assert!(forks.iter().all(|fork| *fork.lock() == 4 * MEALS));
    });
}

/// Every operation on a few semaphores and events at once, with aborts: nothing is lost or doubled,
/// and no waiter is stranded.
#[test]
fn a_crowd_with_aborts() {
    everywhere("crowd", |place| {
        const TOKENS: u32 = 2;
        let pool = Arc::new([
            Semaphore::new(TOKENS),
            Semaphore::barging(TOKENS),
            Semaphore::new(TOKENS),
        ]);
        let (event, stop) = (Arc::new(Event::auto(true)), flag());
        let body = |n: usize| {
            let (pool, event, stop) = (pool.clone(), event.clone(), stop.clone());
            move || {
                let mut turn = n;
                while !stop.load(Relaxed) {
                    turn += 1;
                    let (one, other) = (&pool[turn % 3], &pool[(turn + 1) % 3]);
                    // A thing that is taken is given back at once: an abort comes before or after.
                    match turn % 5 {
                        0 => {
                            wait_all(&[one, other, &*event]).unwrap();
                            event.set();
                            [one, other]
                                .iter()
                                .for_each(|semaphore| semaphore.release(1).unwrap());
                        }
                        1 if wait_all_timeout(&[other, one], Duration::from_micros(50)).is_ok() => {
                            [one, other]
                                .iter()
                                .for_each(|semaphore| semaphore.release(1).unwrap());
                        }
                        2 => [one, other][wait_any(&[one, other]).unwrap()]
                            .release(1)
                            .unwrap(),
                        3 => {
                            event.wait();
                            event.set();
                        }
                        _ => {
                            one.acquire_many(2).unwrap();
                            one.release(2).unwrap();
                        }
                    }
                    if turn % 16 == 0 {
                        umcg::yield_now();
                    }
                }
            }
        };
        place.crowd_with_aborts(&stop, body);
        assert!(
            pool.iter()
                .all(|semaphore| semaphore.available() == TOKENS && waiters(semaphore) == 0)
        );
        assert!(event.is_set() && waiters(&*event) == 0);
    });
}
