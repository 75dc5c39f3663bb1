//! Groups of things to be done.

use crate::parties::{Party, Sort, abort, everywhere, join_all, until_waiting};
use crate::support::{HOUR, counter, silence_what_is_expected};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::Elapsed;
use umcg::sync::WaitGroup;

const SHORT: Duration = Duration::from_millis(2);

/// Many wait for many, again and again.
#[test]
fn all_that_is_to_be_done() {
    everywhere("group", |place| {
        let (group, done) = (Arc::new(WaitGroup::new()), counter());
        for round in 1..20 {
            let doing = place.crowd(2, |n| {
                let (entry, done) = (WaitGroup::enter_arc(&group), done.clone());
                move || {
                    if n % 2 == 0 {
                        umcg::yield_now();
                    }
                    done.fetch_add(1, Relaxed);
                    drop(entry);
                }
            });
            let waiting = place.crowd(1, |_| {
                let (group, done) = (group.clone(), done.clone());
                move || {
                    group.wait();
                    assert_eq!(done.load(Relaxed), 6 * round);
                }
            });
            join_all(doing.into_iter().chain(waiting));
            assert_eq!(group.count(), 0);
        }
    });
}

#[test]
fn deadlines_and_aborts() {
    everywhere("deadlines", |place| {
        let group = Arc::new(WaitGroup::new());
        assert_eq!(group.wait_deadline(Instant::now()), Ok(()));
        let doing = group.enter();
        let start = Instant::now();
        assert_eq!(group.wait_timeout(SHORT), Err(Elapsed));
        assert!(start.elapsed() >= SHORT);
        for sort in [Sort::Worker, Sort::Blocking] {
            let inside = group.clone();
            let Party::Worker(worker) = place.start(sort, move || inside.wait()) else {
                unreachable!()
            };
            until_waiting(&*group, 1);
            abort(worker);
            until_waiting(&*group, 0);
        }
        let inside = group.clone();
        let waits = place.worker(move || inside.wait_timeout(HOUR));
        until_waiting(&*group, 1);
        // Things added before the last is done are waited for as well.
        group.add(2);
        drop(doing);
        group.done();
        assert_eq!((group.count(), crate::parties::waiters(&*group)), (1, 1));
        group.done();
        assert_eq!(waits.join().unwrap(), Ok(()));
    });
}

/// Things that end by unwinding are done.
#[test]
fn unwinding_is_done() {
    everywhere("unwinding", |place| {
        let group = Arc::new(WaitGroup::new());
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let doing = WaitGroup::enter_arc(&group);
                place.worker(move || {
                    umcg::park();
                    drop(doing);
                })
            })
            .collect();
        workers.iter().for_each(umcg::JoinHandle::abort);
        group.wait();
        workers.into_iter().for_each(|worker| drop(worker.join()));
    });
}

#[test]
fn limits() {
    silence_what_is_expected();
    let group = WaitGroup::new();
    let panics = |f: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)).is_err();
    assert!(panics(&|| group.done()));
    group.add(u32::MAX);
    assert!(panics(&|| group.add(1)));
    assert_eq!(group.count(), u32::MAX);
    group.done();
    group.add(1);
    assert_eq!(group.wait_timeout(Duration::ZERO), Err(Elapsed));
}
