//! Workers that borrow.

use crate::support::{Counted, HOUR, Kind, counter, eventually, flag, over};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use umcg::{JoinError, ScopedJoinHandle};

/// As a worker, as a worker that blocks, and as this thread, which uses the global runtime.
fn everywhere(name: &'static str, test: impl Fn(Kind) + Copy + Send + 'static) {
    over(name, move |runtime, kind| {
        kind.run(runtime, move || test(kind));
        kind.run(runtime, move || umcg::blocking(|| test(kind)));
    });
    test(Kind::Full);
    test(Kind::Light);
}

#[test]
fn they_borrow() {
    everywhere("scope", |kind| {
        let mut numbers: Vec<u64> = (0..200).collect();
        let factor = 3;
        let sum = umcg::scope(|scope| {
            let halves = numbers.chunks_mut(17).map(|chunk| {
                kind.spawn_in(scope, || {
                    umcg::yield_now();
                    chunk.iter_mut().for_each(|number| *number *= factor);
                    chunk.iter().sum::<u64>()
                })
            });
            let halves: Vec<_> = halves.collect();
            halves
                .into_iter()
                .map(|half| half.join().unwrap())
                .sum::<u64>()
        });
        assert_eq!(sum, 199 * 100 * 3);
        assert_eq!(numbers[199], 597);
    });
}

#[test]
fn unjoined_and_leaked_ones_end_with_it() {
    everywhere("leaks", |kind| {
        let (mut ends, drops) = ([0u8; 60], counter());
        umcg::scope(|scope| {
            for (n, end) in ends.iter_mut().enumerate() {
                let result = Counted(drops.clone());
                let worker = kind.spawn_in(scope, move || {
                    (0..n % 4).for_each(|_| umcg::sleep(Duration::from_micros(50)));
                    *end = 1;
                    result
                });
                match n % 3 {
                    0 => drop(worker),
                    1 => std::mem::forget(worker),
                    _ => drop(worker.join().unwrap()),
                }
            }
        });
        assert_eq!(ends, [1; 60]);
        // The value that was leaked stays; all others were dropped before the scope returned.
        assert_eq!(drops.load(Relaxed), 40);
    });
}

#[test]
fn a_panic_in_it_waits_for_its_workers() {
    everywhere("scope panic", |kind| {
        let mut ends = [0u8; 20];
        let panic = catch_unwind(AssertUnwindSafe(|| {
            umcg::scope(|scope| {
                for end in &mut ends {
                    kind.spawn_in(scope, || {
                        umcg::sleep(Duration::from_micros(300));
                        *end = 1;
                    });
                }
                std::panic::panic_any(12u8);
            })
        }));
        let panic: Box<dyn std::any::Any + Send> = panic.unwrap_err();
        assert_eq!(*panic.downcast::<u8>().unwrap(), 12);
        assert_eq!(ends, [1; 20]);
    });
}

/// A panic goes to the caller that joins the worker; one of a worker that was not joined is the
/// scope's.
#[test]
fn a_panic_that_nobody_has_got_is_the_scopes() {
    everywhere("scoped panics", |kind| {
        let fails = |end: fn(ScopedJoinHandle<'_, u8>)| {
            let (ends, so) = (counter(), AssertUnwindSafe(end));
            let scope = catch_unwind(|| {
                umcg::scope(|scope| {
                    end(kind.spawn_in(scope, || panic!("expected")));
                    kind.spawn_in(scope, || {
                        umcg::sleep(Duration::from_micros(300));
                        ends.fetch_add(1, Relaxed);
                    });
                    5
                })
            });
            assert_eq!(ends.load(Relaxed), 1);
            (so, scope.ok()).1
        };
        assert_eq!(
            fails(|worker| assert!(matches!(worker.join(), Err(JoinError::Panicked(_))))),
            Some(5)
        );
        // Before it ends, and afterwards; and where its handle is leaked.
        assert_eq!(fails(|worker| drop(worker)), None);
        assert_eq!(
            fails(|worker| (eventually("it ends", || worker.is_finished()), drop(worker)).1),
            None
        );
        assert_eq!(fails(|worker| std::mem::forget(worker)), None);
        // That of the scope itself comes first.
        let both = catch_unwind(|| {
            umcg::scope(|scope| {
                drop(kind.spawn_in(scope, || panic!("expected")));
                std::panic::panic_any(12u8);
            })
        });
        assert_eq!(*both.unwrap_err().downcast::<u8>().unwrap(), 12);
        // To be aborted is no panic.
        umcg::scope(|scope| kind.spawn_in(scope, || umcg::sleep(HOUR)).abort());
    });
}

#[test]
fn scopes_in_scopes_and_spawns_by_workers() {
    everywhere("nested scopes", |kind| {
        let sum = counter();
        umcg::scope(|outer| {
            for _ in 0..5 {
                kind.spawn_in(outer, || {
                    umcg::scope(|inner| {
                        for _ in 0..5 {
                            kind.spawn_in(inner, || {
                                umcg::yield_now();
                                sum.fetch_add(1, Relaxed);
                                // Into the outer scope, by a worker of the inner.
                                kind.spawn_in(outer, || sum.fetch_add(100, Relaxed));
                            });
                        }
                    });
                });
            }
        });
        assert_eq!(sum.load(Relaxed), 25 + 2500);
    });
}

#[test]
fn aborting_one_of_its_workers() {
    everywhere("scoped abort", |kind| {
        umcg::scope(|scope| {
            let begun = flag();
            let beginning = begun.clone();
            let worker = kind.spawn_in(scope, move || {
                beginning.store(true, Relaxed);
                umcg::sleep(crate::support::HOUR);
            });
            eventually("it begins", || begun.load(Relaxed));
            assert!(!worker.is_finished());
            worker.handle().unpark(); // means nothing to a worker that sleeps
            worker.abort();
            assert!(matches!(worker.join(), Err(JoinError::Cancelled)));
        });
    });
}

/// An unpark that was meant for something else does not open the scope, and is not lost for it.
#[test]
fn unparks_of_the_owner() {
    everywhere("scope and unparks", |kind| {
        let me = umcg::Handle::current();
        for _ in 0..50 {
            let mut end = 0;
            umcg::scope(|scope| {
                kind.spawn_in(scope, || {
                    (0..5).for_each(|_| {
                        me.unpark();
                        umcg::yield_now();
                    });
                    end = 1;
                });
            });
            assert_eq!(end, 1);
        }
    });
}
