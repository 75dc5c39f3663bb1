//! Semaphores.

use crate::parties::{Party, SORTS, Sort, abort, everywhere, join_all, until_waiting};
use crate::support::{HOUR, counter, eventually, flag};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::sync::{AcquireError, Closed, Mutex, Overflow, Semaphore, TryAcquireError};

const SHORT: Duration = Duration::from_millis(2);

fn both(wakeups: u32) -> [Arc<Semaphore>; 2] {
    [
        Arc::new(Semaphore::new(wakeups)),
        Arc::new(Semaphore::barging(wakeups)),
    ]
}

#[test]
fn without_waiting() {
    for semaphore in both(3) {
        assert_eq!(semaphore.available(), 3);
        assert_eq!(semaphore.acquire(), Ok(()));
        assert_eq!(semaphore.try_acquire_many(3), Err(TryAcquireError::Empty));
        assert_eq!(semaphore.acquire_many(2), Ok(()));
        assert_eq!(semaphore.try_acquire(), Err(TryAcquireError::Empty));
        assert_eq!(semaphore.try_acquire_many(0), Ok(()));
        assert_eq!(semaphore.acquire_many(0), Ok(()));
        semaphore.release(0).unwrap();
        semaphore.release(2).unwrap();
        drop(semaphore.access().unwrap());
        drop((
            semaphore.access_timeout(HOUR).unwrap(),
            semaphore.access_deadline(Instant::now()).unwrap(),
        ));
        assert_eq!(semaphore.available(), 2);
        let permits = (
            semaphore.try_access().unwrap(),
            semaphore.try_access().unwrap(),
        );
        assert_eq!(semaphore.try_access().err(), Some(TryAcquireError::Empty));
        drop(permits);
        semaphore.access().unwrap().forget();
        assert_eq!(semaphore.available(), 1);
    }
    assert_eq!(Semaphore::default().available(), 0);
}

#[test]
fn overflow() {
    for semaphore in both(u32::MAX - 1) {
        assert_eq!(semaphore.release(2), Err(Overflow));
        assert_eq!(semaphore.available(), u32::MAX - 1);
        semaphore.release(1).unwrap();
        assert_eq!(semaphore.release(1), Err(Overflow));
        assert_eq!(semaphore.acquire_many(u32::MAX), Ok(()));
        assert_eq!(semaphore.available(), 0);
    }
}

/// As many are in there as there are wakeups, and no more.
#[test]
fn so_many_at_a_time() {
    everywhere("so many", |place| {
        for semaphore in both(3) {
            let inside = counter();
            let parties = place.crowd(3, |n| {
                let (semaphore, inside) = (semaphore.clone(), inside.clone());
                move || {
                    for turn in 0..100 {
                        let permit = semaphore.access().unwrap();
                        assert!(inside.fetch_add(1, Relaxed) < 3);
                        if (turn + n) % 8 == 0 {
                            umcg::yield_now();
                        }
                        inside.fetch_sub(1, Relaxed);
                        drop(permit);
                    }
                }
            });
            join_all(parties);
            assert_eq!(semaphore.available(), 3);
        }
    });
}

/// In their order; a waiter that wants many is not overtaken by one that wants few.
#[test]
fn in_order() {
    everywhere("order", |place| {
        let (semaphore, log) = (
            Arc::new(Semaphore::new(0)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let wanted = [1, 3, 1, 2, 5, 1];
        let parties: Vec<_> = wanted
            .into_iter()
            .enumerate()
            .map(|(n, wanted)| {
                let (inside, log) = (semaphore.clone(), log.clone());
                let party = place.start(SORTS[n % 3], move || {
                    inside.acquire_many(wanted).unwrap();
                    log.lock().push(n);
                });
                until_waiting(&*semaphore, n + 1);
                party
            })
            .collect();
        let mut given = 0;
        let mut due: u32 = 0;
        for (n, wanted) in wanted.into_iter().enumerate() {
            due += wanted;
            while given < due {
                assert!(semaphore.try_acquire().is_err(), "they wait for it");
                assert_eq!(log.lock().len(), n);
                semaphore.release(1).unwrap();
                given += 1;
            }
            eventually("it goes on", || log.lock().len() == n + 1);
        }
        join_all(parties);
        assert_eq!(
            (log.lock().clone(), semaphore.available()),
            (vec![0, 1, 2, 3, 4, 5], 0)
        );
    });
}

/// Many at once are handed out to as many as can have theirs.
#[test]
fn one_release_serves_many() {
    everywhere("many", |place| {
        for semaphore in both(0) {
            let parties = place.crowd(2, |_| {
                let semaphore = semaphore.clone();
                move || semaphore.acquire_many(2).unwrap()
            });
            until_waiting(&*semaphore, 6);
            semaphore.release(13).unwrap();
            join_all(parties);
            assert_eq!(semaphore.available(), 1);
        }
    });
}

/// A strong one keeps its wakeups for waiters; a barging one gives them to a running caller, but
/// not for ever.
#[test]
fn overtaking() {
    everywhere("overtaking", |place| {
        for (semaphore, is_strong) in both(0).into_iter().zip([true, false]) {
            let (over, inside) = (flag(), semaphore.clone());
            let waiter = place.start(Sort::Thread, move || inside.acquire().unwrap());
            until_waiting(&*semaphore, 1);
            semaphore.release(1).unwrap();
            if is_strong {
                assert!(semaphore.try_acquire().is_err());
                waiter.join();
                continue;
            }
            // A thread takes it again and again.
            let seen = over.clone();
            let inside = semaphore.clone();
            let hog = place.start(Sort::Thread, move || {
                while !seen.load(Relaxed) {
                    if inside.try_acquire().is_ok() {
                        inside.release(1).unwrap();
                    }
                }
            });
            waiter.join();
            over.store(true, Relaxed);
            hog.join();
            assert_eq!(semaphore.available(), 0);
        }
    });
}

#[test]
fn deadlines() {
    everywhere("deadlines", |place| {
        for semaphore in both(0) {
            let parties = place.crowd(1, |_| {
                let semaphore = semaphore.clone();
                move || {
                    let start = Instant::now();
                    assert_eq!(
                        semaphore.acquire_timeout(SHORT),
                        Err(AcquireError::TimedOut)
                    );
                    assert!(start.elapsed() >= SHORT);
                    assert_eq!(
                        semaphore.acquire_deadline(start),
                        Err(AcquireError::TimedOut)
                    );
                    assert_eq!(
                        semaphore.acquire_many_deadline(3, start),
                        Err(AcquireError::TimedOut)
                    );
                    assert_eq!(
                        semaphore.acquire_many_timeout(3, Duration::ZERO),
                        Err(AcquireError::TimedOut)
                    );
                    assert_eq!(
                        semaphore.access_deadline(start).err(),
                        Some(AcquireError::TimedOut)
                    );
                    assert_eq!(
                        semaphore.access_timeout(Duration::ZERO).err(),
                        Some(AcquireError::TimedOut)
                    );
                }
            });
            join_all(parties);
            let inside = semaphore.clone();
            let waits = place.worker(move || inside.acquire_timeout(HOUR));
            until_waiting(&*semaphore, 1);
            semaphore.release(1).unwrap();
            assert_eq!(waits.join().unwrap(), Ok(()));
            semaphore.release(1).unwrap();
            assert_eq!(
                semaphore.acquire_deadline(Instant::now()),
                Ok(()),
                "what is there is taken also when it is late"
            );
        }
    });
}

/// A waiter that goes away from the front makes way for one that wants less; and has taken nothing.
#[test]
fn who_gives_up_makes_way() {
    everywhere("giving up", |place| {
        for semaphore in both(1) {
            let inside = semaphore.clone();
            let large = place.worker(move || inside.acquire_many(2));
            until_waiting(&*semaphore, 1);
            let (inside, is_through) = (semaphore.clone(), flag());
            let through = is_through.clone();
            let small = place.start(Sort::Thread, move || {
                inside.acquire().unwrap();
                through.store(true, Relaxed);
            });
            eventually("it waits, or has overtaken", || {
                is_through.load(Relaxed) || crate::parties::waiters(&*semaphore) == 2
            });
            abort(large);
            small.join();
            assert_eq!(semaphore.available(), 0);
        }
    });
}

/// Aborts against wakeups: each wakeup is taken once, or still there.
#[test]
fn nothing_is_lost_by_an_abort() {
    everywhere("aborts", |place| {
        for semaphore in both(0) {
            for sort in [Sort::Worker, Sort::Blocking] {
                for turn in 0..50 {
                    let taken = counter();
                    let (inside, count) = (semaphore.clone(), taken.clone());
                    let party = place.start(sort, move || {
                        inside.acquire().unwrap();
                        count.fetch_add(1, Relaxed);
                    });
                    let Party::Worker(worker) = party else {
                        unreachable!()
                    };
                    if turn % 2 == 0 {
                        until_waiting(&*semaphore, 1);
                    }
                    let inside = semaphore.clone();
                    let giver = place.start(SORTS[turn % 3], move || inside.release(1).unwrap());
                    worker.abort();
                    giver.join();
                    let _ = worker.join();
                    assert_eq!(taken.load(Relaxed) as u32 + semaphore.available(), 1);
                    let _ = semaphore.try_acquire();
                }
            }
        }
    });
}

#[test]
fn close() {
    everywhere("close", |place| {
        for semaphore in both(0) {
            let parties = place.crowd(2, |_| {
                let semaphore = semaphore.clone();
                move || assert_eq!(semaphore.acquire(), Err(Closed))
            });
            until_waiting(&*semaphore, 6);
            semaphore.close();
            join_all(parties);
            assert!(semaphore.is_closed());
            semaphore.release(2).unwrap();
            assert_eq!(semaphore.acquire(), Err(Closed));
            assert_eq!(semaphore.try_acquire(), Err(TryAcquireError::Closed));
            assert_eq!(semaphore.acquire_timeout(HOUR), Err(AcquireError::Closed));
            assert_eq!(semaphore.access().err(), Some(Closed));
            assert_eq!(semaphore.try_access().err(), Some(TryAcquireError::Closed));
            assert_eq!(
                semaphore.access_timeout(HOUR).err(),
                Some(AcquireError::Closed)
            );
            assert_eq!(semaphore.available(), 2);
        }
    });
}
