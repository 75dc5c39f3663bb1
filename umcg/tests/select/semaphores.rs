//! Over semaphores.

use crate::support::{eventually, over};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use umcg::JoinError;
use umcg::select::Select;
use umcg::sync::{Closed, Semaphore};

fn semaphores(count: usize) -> Arc<Vec<Semaphore>> {
    Arc::new((0..count).map(|_| Semaphore::new(0)).collect())
}

fn wait_for_one_of(semaphores: &[Semaphore]) -> usize {
    let mut operations: Vec<_> = semaphores.iter().map(Semaphore::acquiring).collect();
    let index = Select::new().wait(&mut operations);
    umcg::select::Operation::outcome(&mut operations[index]).unwrap();
    index
}

/// Many that wait for any of many, and as many wakeups: each gets one, from the semaphore that it
/// says, and none is left.
#[test]
fn each_gets_one() {
    over("each gets one", |runtime, kind| {
        for count in [1, 2, 5, 40] {
            let semaphores = semaphores(count);
            let takers: Vec<_> = (0..20)
                .map(|_| {
                    let semaphores = semaphores.clone();
                    kind.spawn_on(runtime, move || wait_for_one_of(&semaphores))
                })
                .collect();
            let mut given = vec![0; count];
            for turn in 0..20 {
                semaphores[turn * 7 % count].release(1).unwrap();
                given[turn * 7 % count] += 1;
            }
            for taker in takers {
                given[taker.join().unwrap()] -= 1;
            }
            assert_eq!(given, vec![0; count]);
            assert!(
                semaphores
                    .iter()
                    .all(|semaphore| semaphore.available() == 0)
            );
        }
    });
}

/// Workers and threads at once, over and over.
#[test]
fn nothing_is_lost_in_a_crowd() {
    const EACH: u64 = 500;
    over("a crowd", |runtime, kind| {
        let (semaphores, taken) = (semaphores(3), Arc::new(AtomicU64::new(0)));
        let body = || {
            let (semaphores, taken) = (semaphores.clone(), taken.clone());
            move || {
                for _ in 0..EACH {
                    let index = wait_for_one_of(&semaphores);
                    taken.fetch_add(1, Relaxed);
                    semaphores[(index + 1) % 3].release(1).unwrap();
                }
            }
        };
        let workers: Vec<_> = (0..4).map(|_| kind.spawn_on(runtime, body())).collect();
        let threads: Vec<_> = (0..2).map(|_| std::thread::spawn(body())).collect();
        semaphores[0].release(2).unwrap();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert_eq!(taken.load(Relaxed), 6 * EACH);
        assert_eq!(semaphores.iter().map(Semaphore::available).sum::<u32>(), 2);
    });
}

/// A waiter that is aborted has taken nothing.
#[test]
fn an_aborted_wait_takes_nothing() {
    over("aborts", |runtime, kind| {
        let semaphores = semaphores(3);
        for _ in 0..50 {
            let inside = semaphores.clone();
            let waiter = kind.spawn_on(runtime, move || wait_for_one_of(&inside));
            std::thread::yield_now();
            semaphores[1].release(1).unwrap();
            waiter.abort();
            match waiter.join() {
                Ok(index) => assert_eq!(index, 1),
                Err(JoinError::Cancelled) => semaphores[1].try_acquire().unwrap(),
                Err(error) => panic!("{error}"),
            }
            assert_eq!(semaphores.iter().map(Semaphore::available).sum::<u32>(), 0);
        }
    });
}

/// Of those that are ready at once the first, or any.
#[test]
fn biased_and_fair() {
    let semaphores: Vec<_> = (0..4).map(|_| Semaphore::new(1000)).collect();
    let mut operations: Vec<_> = semaphores.iter().map(Semaphore::acquiring).collect();
    for _ in 0..100 {
        assert_eq!(Select::new().biased().wait(&mut operations), 0);
    }
    for _ in 0..400 {
        Select::new().wait(&mut operations);
    }
    let left: Vec<_> = semaphores.iter().map(Semaphore::available).collect();
    assert_eq!(left.iter().sum::<u32>(), 3500);
    assert!(
        left[1..].iter().all(|left| (850..950).contains(left)),
        "{left:?}"
    );
}

#[test]
fn a_closed_one_is_selected() {
    let (open, closed) = (Semaphore::new(0), Semaphore::new(0));
    closed.close();
    umcg::select! {
        _ = open.acquiring() => unreachable!(),
        taken = closed.acquiring() => assert_eq!(taken, Err(Closed)),
    }
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| umcg::select! { taken = open.acquiring() => taken });
        eventually("it waits", || {
            format!("{open:?}").contains("has_waiters: true")
        });
        open.close();
        assert_eq!(waiter.join().unwrap(), Err(Closed));
    });
}

#[test]
fn barging_ones_too() {
    over("barging", |runtime, kind| {
        let semaphores = Arc::new([Semaphore::barging(1), Semaphore::barging(0)]);
        let workers: Vec<_> = (0..4)
            .map(|n| {
                let semaphores = semaphores.clone();
                kind.spawn_on(runtime, move || {
                    for turn in 0..200 {
                        let index = wait_for_one_of(&*semaphores);
                        if turn % 3 == 0 {
                            umcg::yield_now();
                        }
                        semaphores[(index + n + turn) % 2].release(1).unwrap();
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        assert_eq!(semaphores.iter().map(Semaphore::available).sum::<u32>(), 1);
    });
}

/// A comma may stand behind each arm, and need not stand behind a block, nor at the end.
#[test]
fn arms_of_all_forms() {
    let (never, one) = (Semaphore::new(0), Semaphore::new(3));
    let mut taken = 0;
    umcg::select! {
        _ = never.acquiring() => unreachable!(),
        wakeup = one.acquiring() => { wakeup.unwrap(); taken += 1 },
    }
    umcg::select! {
        _ = never.acquiring() => { unreachable!() }
        wakeup = one.acquiring() => { wakeup.unwrap(); taken += 1 },
    };
    umcg::select! {
        _ = never.acquiring() => { unreachable!() },
        wakeup = one.acquiring() => { wakeup.unwrap(); taken += 1 }
        default => { unreachable!() },
    }
    assert_eq!(taken, 3);
}
