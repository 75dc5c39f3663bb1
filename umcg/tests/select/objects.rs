//! Objects of one's own.

use crate::support::over;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::*};
use umcg::select::{Waitable, Waiters, taking, wait_for};
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
        self.coins.fetch_update(SeqCst, SeqCst, |coins| coins.checked_sub(1)).ok()
    }

    fn is_ready(&self) -> bool {
        self.coins.load(SeqCst) > 0
    }

    fn waiters(&self) -> &Waiters {
        &self.waiters
    }
}

/// Every coin is taken by one, beside a semaphore, and nobody is left waiting.
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
        let coins: u64 = workers.into_iter().map(|worker| worker.join().unwrap()).sum::<u64>() + thread.join().unwrap();
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
        workers.into_iter().for_each(|worker| assert!(worker.join().unwrap() > 0));
        assert!(!purse.waiters.notify_one());
    });
}
