//! Events.

use crate::parties::{Party, SORTS, Sort, abort, everywhere, join_all, until_waiting};
use crate::support::{HOUR, counter, eventually};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::Elapsed;
use umcg::select::Select;
use umcg::sync::{Event, Mutex};

const SHORT: Duration = Duration::from_millis(2);

#[test]
fn without_waiting() {
    for event in [Event::auto(false), Event::manual(false)] {
        assert!(!event.try_wait() && !event.is_set());
        assert!(!event.reset());
        event.set();
        event.set();
        assert!(event.is_set());
        assert!(event.reset() && !event.is_set());
        event.pulse();
        assert!(!event.try_wait());
    }
    let (auto, manual) = (Event::auto(true), Event::manual(true));
    auto.wait();
    assert!(!auto.try_wait());
    auto.set();
    auto.set();
    assert!(auto.try_wait() && !auto.try_wait());
    manual.wait();
    assert!(manual.try_wait() && manual.is_set());
    manual.pulse();
    assert!(!manual.is_set());
}

/// Each `set` lets one through, the longest waiter.
#[test]
fn one_by_one() {
    everywhere("auto", |place| {
        let (event, log) = (
            Arc::new(Event::auto(false)),
            Arc::new(Mutex::new(Vec::new())),
        );
        let parties: Vec<_> = (0..6)
            .map(|n| {
                let (inside, log) = (event.clone(), log.clone());
                let party = place.start(SORTS[n % 3], move || {
                    inside.wait();
                    log.lock().push(n);
                });
                until_waiting(&*event, n + 1);
                party
            })
            .collect();
        for n in 0..6 {
            // `pulse` does the same where there is a waiter.
            if n % 2 == 0 {
                event.set()
            } else {
                event.pulse()
            }
            assert!(!event.is_set(), "it was given to a waiter");
            eventually("it goes on", || log.lock().len() == n + 1);
        }
        join_all(parties);
        assert_eq!(*log.lock(), [0, 1, 2, 3, 4, 5]);
    });
}

/// `set` lets all through, and those that come; `pulse` those that wait.
#[test]
fn all_at_once() {
    everywhere("manual", |place| {
        for pulses in [false, true] {
            let event = Arc::new(Event::manual(false));
            let start = |n: usize| {
                let inside = event.clone();
                let party = place.start(SORTS[n % 3], move || inside.wait());
                until_waiting(&*event, n + 1);
                party
            };
            let parties: Vec<_> = (0..6).map(start).collect();
            if pulses {
                event.pulse()
            } else {
                event.set()
            }
            join_all(parties);
            assert_eq!(event.is_set(), !pulses);
            assert_eq!(
                event.wait_timeout(SHORT),
                if pulses { Err(Elapsed) } else { Ok(()) }
            );
        }
    });
}

#[test]
fn deadlines_and_aborts() {
    everywhere("deadlines", |place| {
        for event in [Event::auto(false), Event::manual(false)].map(Arc::new) {
            let parties = place.crowd(1, |_| {
                let event = event.clone();
                move || {
                    let start = Instant::now();
                    assert_eq!(event.wait_timeout(SHORT), Err(Elapsed));
                    assert!(start.elapsed() >= SHORT);
                    assert_eq!(event.wait_deadline(start), Err(Elapsed));
                }
            });
            join_all(parties);
            for sort in [Sort::Worker, Sort::Blocking] {
                let inside = event.clone();
                let Party::Worker(worker) = place.start(sort, move || inside.wait()) else {
                    unreachable!()
                };
                until_waiting(&*event, 1);
                abort(worker);
                until_waiting(&*event, 0);
            }
            let inside = event.clone();
            let waits = place.worker(move || inside.wait_timeout(HOUR));
            until_waiting(&*event, 1);
            event.set();
            assert_eq!(waits.join().unwrap(), Ok(()));
            assert_eq!(event.wait_deadline(Instant::now()).is_ok(), event.is_set());
        }
    });
}

/// An event that is set while a waiter is aborted reaches one waiter, once.
#[test]
fn nothing_is_lost_by_an_abort() {
    everywhere("not lost", |place| {
        let event = Arc::new(Event::auto(false));
        for turn in 0..100 {
            let through = counter();
            let (inside, count) = (event.clone(), through.clone());
            let worker = place.worker(move || {
                inside.wait();
                count.fetch_add(1, Relaxed);
            });
            until_waiting(&*event, 1);
            let inside = event.clone();
            let setter = place.start(SORTS[turn % 3], move || inside.set());
            worker.abort();
            setter.join();
            let _ = worker.join();
            assert_eq!(through.load(Relaxed) + usize::from(event.reset()), 1);
        }
    });
}

/// Beside others: of two that are set one is taken.
#[test]
fn selected() {
    everywhere("selected", |place| {
        let events: Arc<Vec<Event>> = Arc::new((0..3).map(|_| Event::auto(false)).collect());
        let waiters: Vec<_> = (0..6)
            .map(|n| {
                let events = events.clone();
                place.start(SORTS[n % 3], move || {
                    let mut operations: Vec<_> = events.iter().map(Event::waiting).collect();
                    Select::new().wait(&mut operations)
                })
            })
            .collect();
        eventually("all wait", || {
            events
                .iter()
                .all(|event| crate::parties::waiters(event) == 6)
        });
        for n in 0..6 {
            events[n % 3].set();
        }
        let mut taken = join_all(waiters);
        taken.sort_unstable();
        assert_eq!(taken, [0, 0, 1, 1, 2, 2]);
        assert!(
            events
                .iter()
                .all(|event| !event.is_set() && crate::parties::waiters(event) == 0)
        );
        let manual = Event::manual(true);
        assert_eq!(
            Select::new()
                .biased()
                .wait(&mut [events[0].waiting(), manual.waiting()]),
            1
        );
        assert!(manual.is_set());
    });
}

/// A crowd that waits and sets: each `set` that found the event reset lets one through.
#[test]
fn ping_pong() {
    everywhere("ping-pong", |place| {
        const ROUNDS: usize = 300;
        let events = Arc::new([Event::auto(true), Event::auto(false)]);
        let parties: Vec<_> = (0..6)
            .map(|n| {
                let events = events.clone();
                place.start(SORTS[n % 3], move || {
                    for _ in 0..ROUNDS {
                        events[n % 2].wait();
                        events[1 - n % 2].set();
                    }
                })
            })
            .collect();
        join_all(parties);
        assert!(events[0].is_set() && !events[1].is_set());
    });
}
