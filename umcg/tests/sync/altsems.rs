//! A wakeup from exactly one of many semaphores.

use crate::parties::{Party, SORTS, Sort, everywhere, join_all, waiters};
use crate::support::{counter, eventually};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::JoinError;
use umcg::sync::{
    AcquireError, Closed, Semaphore, TryAcquireError, acquire_any, acquire_any_deadline,
    acquire_any_timeout, try_acquire_any,
};

const SHORT: Duration = Duration::from_millis(2);

/// This many, every other one barging.
fn semaphores(count: usize) -> Arc<Vec<Semaphore>> {
    let of_kind = |n| {
        if n % 2 == 0 {
            Semaphore::new(0)
        } else {
            Semaphore::barging(0)
        }
    };
    Arc::new((0..count).map(of_kind).collect())
}

fn all(semaphores: &[Semaphore]) -> Vec<&Semaphore> {
    semaphores.iter().collect()
}

fn sum(semaphores: &[Semaphore]) -> u32 {
    semaphores.iter().map(Semaphore::available).sum()
}

/// Each of many that wait for any of many, or for one, gets one wakeup from the semaphore that it
/// says.
#[test]
fn exactly_one() {
    everywhere("exactly one", |place| {
        for count in [1, 3, 12] {
            let semaphores = semaphores(count);
            let taken: Arc<Vec<_>> = Arc::new((0..count).map(|_| counter()).collect());
            let parties = place.crowd(2, |n| {
                let (semaphores, taken) = (semaphores.clone(), taken.clone());
                move || {
                    for turn in 0..50 {
                        let index = if (n + turn) % 5 == 0 {
                            semaphores[turn % count].acquire().unwrap();
                            turn % count
                        } else {
                            acquire_any(&all(&semaphores)).unwrap()
                        };
                        taken[index].fetch_add(1, Relaxed);
                        // There, as a plain waiter may wait for it.
                        semaphores[index].release(1).unwrap();
                    }
                }
            });
            semaphores
                .iter()
                .for_each(|semaphore| semaphore.release(1).unwrap());
            join_all(parties);
            assert!(
                semaphores
                    .iter()
                    .all(|semaphore| semaphore.available() == 1 && waiters(semaphore) == 0)
            );
            assert_eq!(
                taken.iter().map(|taken| taken.load(Relaxed)).sum::<usize>(),
                300
            );
        }
    });
}

/// Waiters are served in their order, plain or not; the other semaphores of their lists are left as
/// they are.
#[test]
fn in_order() {
    everywhere("order", |place| {
        let pair = Arc::new([Semaphore::new(0), Semaphore::new(0)]);
        let log = Arc::new(umcg::sync::Mutex::new(Vec::new()));
        let parties: Vec<_> = (0..6)
            .map(|n| {
                let (inside, log) = (pair.clone(), log.clone());
                let party = place.start(SORTS[n % 3], move || {
                    if n % 2 == 0 {
                        acquire_any(&[&inside[1], &inside[0]]).unwrap();
                    } else {
                        inside[0].acquire().unwrap();
                    }
                    log.lock().push(n);
                });
                eventually("it waits", || waiters(&pair[0]) == n + 1);
                party
            })
            .collect();
        for n in 0..6 {
            pair[0].release(1).unwrap();
            eventually("it goes on", || log.lock().len() == n + 1);
        }
        join_all(parties);
        assert_eq!(*log.lock(), [0, 1, 2, 3, 4, 5]);
        assert_eq!((waiters(&pair[0]), waiters(&pair[1])), (0, 0));
        assert_eq!(sum(&*pair), 0);
    });
}

/// The same semaphore may be in the list twice.
#[test]
fn the_same_one_twice() {
    everywhere("twice", |place| {
        let semaphore = Arc::new(Semaphore::new(0));
        let parties = place.crowd(1, |_| {
            let semaphore = semaphore.clone();
            move || acquire_any(&[&semaphore, &semaphore]).unwrap()
        });
        eventually("they wait", || waiters(&*semaphore) == 6);
        semaphore.release(3).unwrap();
        join_all(parties);
        assert_eq!((semaphore.available(), waiters(&*semaphore)), (0, 0));
    });
}

#[test]
fn without_waiting() {
    let semaphores = semaphores(10);
    assert_eq!(
        try_acquire_any(&all(&semaphores)),
        Err(TryAcquireError::Empty)
    );
    assert_eq!(try_acquire_any(&[]), Err(TryAcquireError::Empty));
    semaphores[7].release(2).unwrap();
    assert_eq!(try_acquire_any(&all(&semaphores)), Ok(7));
    semaphores[1].close();
    assert_eq!(try_acquire_any(&all(&semaphores)), Ok(7));
    assert_eq!(
        try_acquire_any(&all(&semaphores)),
        Err(TryAcquireError::Closed)
    );
    assert_eq!(acquire_any(&all(&semaphores)), Err(Closed));
}

#[test]
fn an_empty_list_is_refused() {
    crate::support::silence_what_is_expected();
    let refused = |wait: fn()| {
        *std::panic::catch_unwind(wait)
            .unwrap_err()
            .downcast::<&str>()
            .unwrap()
    };
    let said = "acquire_any: an empty list";
    assert_eq!(refused(|| assert!(acquire_any(&[]).is_err())), said);
    assert_eq!(
        refused(|| assert!(acquire_any_timeout(&[], SHORT).is_err())),
        said
    );
    assert_eq!(
        refused(|| assert!(acquire_any_deadline(&[], Instant::now()).is_err())),
        said
    );
}

/// None of those that have wakeups is preferred.
#[test]
fn fair_between_semaphores() {
    let semaphores = semaphores(4);
    semaphores
        .iter()
        .for_each(|semaphore| semaphore.release(1000).unwrap());
    for _ in 0..400 {
        acquire_any(&all(&semaphores)).unwrap();
    }
    // Several times in a row, so not just that many of each.
    assert!(
        semaphores
            .iter()
            .all(|semaphore| (850..950).contains(&semaphore.available())),
        "{semaphores:?}"
    );
}

#[test]
fn deadlines() {
    everywhere("deadlines", |place| {
        let semaphores = semaphores(10);
        let parties = place.crowd(1, |_| {
            let semaphores = semaphores.clone();
            move || {
                let start = Instant::now();
                assert_eq!(
                    acquire_any_timeout(&all(&semaphores), SHORT),
                    Err(AcquireError::TimedOut)
                );
                assert!(start.elapsed() >= SHORT);
                assert_eq!(
                    acquire_any_deadline(&all(&semaphores), start),
                    Err(AcquireError::TimedOut)
                );
            }
        });
        join_all(parties);
        assert!(semaphores.iter().all(|semaphore| waiters(semaphore) == 0));
    });
}

/// Aborts and deadlines against wakeups: each wakeup is taken once, or still there.
#[test]
fn nothing_is_lost() {
    everywhere("not lost", |place| {
        let semaphores = semaphores(3);
        for turn in 0..60 {
            let inside = semaphores.clone();
            let sort = [Sort::Worker, Sort::Blocking][turn % 2];
            let party = place.start(sort, move || match turn % 3 {
                0 => acquire_any_timeout(&all(&inside), Duration::from_micros(50)).is_ok(),
                _ => acquire_any(&all(&inside)).is_ok(),
            });
            let Party::Worker(worker) = party else {
                unreachable!()
            };
            let inside = semaphores.clone();
            let giver = place.start(SORTS[turn % 3], move || {
                inside[turn % 3].release(1).unwrap()
            });
            worker.abort();
            giver.join();
            let taken = match worker.join() {
                Ok(taken) => taken,
                Err(JoinError::Cancelled) => false,
                Err(error) => error.resume_unwind(),
            };
            assert_eq!(sum(&semaphores) + u32::from(taken), 1);
            let _ = try_acquire_any(&all(&semaphores));
        }
    });
}

#[test]
fn closed_while_they_wait() {
    everywhere("close", |place| {
        let semaphores = semaphores(3);
        let parties = place.crowd(1, |_| {
            let semaphores = semaphores.clone();
            move || assert_eq!(acquire_any(&all(&semaphores)), Err(Closed))
        });
        eventually("they wait", || {
            semaphores.iter().all(|semaphore| waiters(semaphore) == 3)
        });
        semaphores[2].close();
        join_all(parties);
        assert_eq!((waiters(&semaphores[0]), waiters(&semaphores[1])), (0, 0));
    });
}

/// A waiter for several is handed its wakeup, also by barging ones: no caller that comes in that
/// moment has it.
#[test]
fn nobody_overtakes() {
    everywhere("overtaking", |place| {
        for (turn, sort) in (0..3).flat_map(|turn| SORTS.map(|sort| (turn, sort))) {
            let pair = Arc::new([Semaphore::barging(0), Semaphore::new(0)]);
            let inside = pair.clone();
            let waiter = place.start(sort, move || match turn {
                0 => acquire_any(&[&inside[0], &inside[1]]),
                1 => umcg::sync::wait_any(&[&inside[0], &inside[1]]),
                _ => umcg::select! {
                    taken = inside[0].acquiring() => taken.map(|()| 0),
                    taken = inside[1].acquiring() => taken.map(|()| 1),
                },
            });
            eventually("it waits", || {
                (waiters(&pair[0]), waiters(&pair[1])) == (1, 1)
            });
            pair[0].release(1).unwrap();
            assert_eq!(pair[0].try_acquire(), Err(TryAcquireError::Empty));
            assert_eq!(waiter.join(), Ok(0));
            eventually("it has left", || waiters(&pair[1]) == 0);
            assert_eq!(sum(&*pair), 0);
        }
    });
}
