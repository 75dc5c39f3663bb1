//! Objects of one's own.

use crate::support::{HOUR, eventually, over, silence_what_is_expected};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use umcg::JoinError;
use umcg::select::{
    Select, Set, Waitable, Waiters, taking, wait_for, wait_for_deadline, wait_for_timeout,
};
use umcg::sync::Semaphore;

/// A number of coins.
#[derive(Default)]
struct Purse {
    coins: AtomicU64,
    waiters: Waiters,
}

impl Purse {
    fn put(&self) {
        self.coins.fetch_add(1, SeqCst);
        self.waiters.notify_one();
    }
}

impl Waitable for Purse {
    type Output = u64;

    fn try_take(&self) -> Option<u64> {
        self.coins
            .fetch_update(SeqCst, SeqCst, |coins| coins.checked_sub(1))
            .ok()
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

/// Every coin is taken by one, beside a semaphore, and no waiter is left.
#[test]
fn each_coin_is_taken_once() {
    const EACH: u64 = 300;
    over("coins", |runtime, kind| {
        let (purse, semaphore) = (Arc::new(Purse::default()), Arc::new(Semaphore::new(0)));
        let body = || {
            let (purse, semaphore) = (purse.clone(), semaphore.clone());
            move || {
                let mut coins = 0;
                for _ in 0..EACH {
                    umcg::select! {
                        _ = taking(&*purse) => coins += 1,
                        taken = semaphore.acquiring() => taken.unwrap(),
                    }
                }
                coins
            }
        };
        let workers: Vec<_> = (0..4).map(|_| kind.spawn_on(runtime, body())).collect();
        let thread = std::thread::spawn(body());
        for turn in 0..5 * EACH {
            if turn % 5 < 3 {
                purse.put()
            } else {
                semaphore.release(1).unwrap()
            }
            if turn % 64 == 0 {
                std::thread::yield_now();
            }
        }
        let coins: u64 = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum::<u64>()
            + thread.join().unwrap();
        assert_eq!(coins, 3 * EACH);
        assert_eq!((purse.coins.load(SeqCst), semaphore.available()), (0, 0));
    });
}

#[test]
fn all_are_told() {
    over("all", |runtime, kind| {
        let purse = Arc::new(Purse::default());
        let workers: Vec<_> = (0..5)
            .map(|_| {
                let purse = purse.clone();
                kind.spawn_on(runtime, move || wait_for(&*purse))
            })
            .collect();
        purse.coins.fetch_add(5, SeqCst);
        purse.waiters.notify_all();
        workers
            .into_iter()
            .for_each(|worker| assert!(worker.join().unwrap() > 0));
        assert!(!purse.waiters.notify_one());
    });
}

/// A waiter that is late or aborted has taken nothing, and is told nothing any more.
#[test]
fn late_and_aborted() {
    over("late", |runtime, kind| {
        let purse = Arc::new(Purse::default());
        let begun = Instant::now();
        assert_eq!(wait_for_timeout(&*purse, Duration::from_millis(2)), None);
        assert!(begun.elapsed() >= Duration::from_millis(2));
        assert_eq!(wait_for_deadline(&*purse, begun), None);
        let inside = purse.clone();
        let waiter = kind.spawn_on(runtime, move || wait_for(&*inside));
        umcg::sleep(Duration::from_millis(1));
        waiter.abort();
        assert!(matches!(waiter.join(), Err(JoinError::Cancelled)));
        assert!(!purse.waiters.notify_one());
        purse.put();
        assert_eq!(
            (
                wait_for_deadline(&*purse, begun),
                wait_for_timeout(&*purse, Duration::from_millis(5))
            ),
            (Some(1), None)
        );
        let inside = purse.clone();
        let waiter = kind.spawn_on(runtime, move || wait_for_timeout(&*inside, HOUR));
        purse.put();
        assert_eq!(waiter.join().unwrap(), Some(1));
    });
}

/// A set of them: coins put while it waits, and while it does not, several at once too.
#[test]
fn a_set_of_purses() {
    over("purses", |runtime, kind| {
        let purses: Arc<Vec<Purse>> = Arc::new((0..3).map(|_| Purse::default()).collect());
        let inside = purses.clone();
        let waiter = kind.spawn_on(runtime, move || {
            let mut set: Set<_> = inside.iter().map(taking).collect();
            for turn in 0..600 {
                let index = set.wait();
                assert!(set.outcome(index) > 0);
                if turn % 5 == 0 {
                    umcg::yield_now();
                }
            }
            set.try_wait()
        });
        for turn in 0..300 {
            purses[turn * 7 % 3].put();
            if turn % 10 == 0 {
                std::thread::yield_now();
            }
            purses[turn * 7 % 3].put();
        }
        assert_eq!(waiter.join().unwrap(), None);
        assert!(purses.iter().all(|purse| purse.coins.load(SeqCst) == 0));
    });
}

/// Says something else each time it is asked, and panics when it has nothing for the third time.
#[derive(Default)]
struct Fickle {
    asked: AtomicU64,
    looks: AtomicU64,
    waiters: [Waiters; 2],
}

impl Waitable for Fickle {
    type Output = ();

    fn try_take(&self) -> Option<()> {
        assert!(self.looks.fetch_add(1, SeqCst) < 2, "expected");
        None
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters[self.asked.fetch_add(1, SeqCst) as usize % 2]
    }
}

/// An object that contradicts itself, or unwinds, leaves no waiter in a queue.
#[test]
fn one_that_is_not_to_be_trusted() {
    silence_what_is_expected();
    over("fickle", |runtime, kind| {
        let (object, semaphore) = (Arc::new(Fickle::default()), Arc::new(Semaphore::new(0)));
        let (inside, other) = (object.clone(), semaphore.clone());
        let waiter = kind.spawn_on(runtime, move || {
            let wait = || {
                umcg::select! {
                    _ = taking(&*inside) => {}
                    _ = other.acquiring() => {}
                }
            };
            assert!(
                catch_unwind(AssertUnwindSafe(wait)).is_err(),
                "it looks until that panics"
            );
            assert!(
                inside.waiters.iter().all(|waiters| !waiters.notify_one()),
                "it stands in a queue"
            );
        });
        eventually("it is told", || {
            object.waiters.iter().for_each(|waiters| {
                waiters.notify_all();
            });
            waiter.is_finished()
        });
        waiter.join().unwrap();
        semaphore.release(1).unwrap();
        assert_eq!(semaphore.available(), 1);
        object.looks.store(0, SeqCst);
        assert_eq!(
            Select::new().wait_timeout(&mut [taking(&*object)], Duration::from_micros(100)),
            None
        );
        assert!(object.waiters.iter().all(|waiters| !waiters.notify_one()));
    });
}

/// Finds nothing, and before it says so another puts something; waits itself, which it should not.
#[derive(Default)]
struct Late {
    looks: AtomicU64,
    waiters: Waiters,
}

impl Waitable for Late {
    type Output = u64;

    fn try_take(&self) -> Option<u64> {
        let looks = self.looks.fetch_add(1, SeqCst);
        umcg::yield_now();
        if looks % 2 == 0 {
            assert!(!self.waiters.notify_one(), "nobody waits yet");
        }
        (looks % 2 == 1).then_some(looks)
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

/// A coin that comes between the look and the queue is seen.
#[test]
fn what_comes_in_between() {
    over("in between", |runtime, kind| {
        kind.run(runtime, || {
            let (object, never) = (Late::default(), Semaphore::new(0));
            assert_eq!(wait_for_timeout(&object, HOUR), Some(1));
            umcg::select! {
                _ = never.acquiring() => unreachable!(),
                looks = taking(&object) => assert_eq!(looks, 3),
            }
            let mut set = Set::new([taking(&object)]);
            for turn in 2..5 {
                assert_eq!(set.wait(), 0);
                assert_eq!(set.outcome(0), 2 * turn + 1);
            }
        });
    });
}
