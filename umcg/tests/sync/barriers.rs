//! Barriers.

use crate::parties::{Party, SORTS, Sort, abort, everywhere, join_all, until_waiting};
use crate::support::counter;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::Elapsed;
use umcg::sync::Barrier;

const SHORT: Duration = Duration::from_millis(2);

/// No party is a round ahead, and each round has one leader.
#[test]
fn rounds() {
    const ROUNDS: usize = 100;
    everywhere("rounds", |place| {
        let (barrier, come) = (Arc::new(Barrier::new(6)), counter());
        let parties = place.crowd(2, |_| {
            let (barrier, come) = (barrier.clone(), come.clone());
            move || {
                let mut led = 0;
                for round in 0..ROUNDS {
                    come.fetch_add(1, Relaxed);
                    led += usize::from(barrier.wait().is_leader());
                    assert!(come.load(Relaxed) >= 6 * (round + 1));
                    assert!(come.load(Relaxed) < 6 * (round + 2));
                }
                led
            }
        });
        assert_eq!(join_all(parties).into_iter().sum::<usize>(), ROUNDS);
    });
}

/// A party that gives up has not come.
#[test]
fn who_gives_up_has_not_come() {
    everywhere("giving up", |place| {
        let barrier = Arc::new(Barrier::new(3));
        for sort in [Sort::Worker, Sort::Blocking] {
            let inside = barrier.clone();
            let Party::Worker(worker) = place.start(sort, move || inside.wait().is_leader()) else {
                unreachable!()
            };
            until_waiting(&*barrier, 1);
            abort(worker);
            let start = Instant::now();
            assert_eq!(barrier.wait_timeout(SHORT), Err(Elapsed));
            assert!(start.elapsed() >= SHORT);
            assert_eq!(barrier.wait_deadline(start), Err(Elapsed));
        }
        let parties: Vec<_> = (0..2)
            .map(|n| {
                let inside = barrier.clone();
                let party = place.start(SORTS[n], move || inside.wait().is_leader());
                until_waiting(&*barrier, n + 1);
                party
            })
            .collect();
        assert!(barrier.wait().is_leader(), "who comes last");
        assert_eq!(join_all(parties), [false, false]);
    });
}

#[test]
fn alone() {
    for parties in [0, 1] {
        let barrier = Barrier::new(parties);
        assert!(barrier.wait().is_leader() && barrier.wait().is_leader());
    }
}
