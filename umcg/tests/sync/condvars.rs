//! Condition variables.

use crate::mutexes::raw;
use crate::parties::{Party, Place, SORTS, Sort, abort, everywhere, join_all, until_waiting};
use crate::support::{HOUR, flag};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::sync::{Condvar, Mutex, MutexGuard, RawMutex};
use umcg::{Elapsed, JoinError};

const SHORT: Duration = Duration::from_millis(2);

struct Shared<T> {
    value: Mutex<T>,
    changed: Condvar,
}

fn both<T>(make: impl Fn() -> T) -> [Arc<Shared<T>>; 2] {
    [
        Mutex::new(make()),
        Mutex::from_raw(RawMutex::fair(), make()),
    ]
    .map(|value| {
        Arc::new(Shared {
            value,
            changed: Condvar::new(),
        })
    })
}

/// Waits once, in the queue's order, and says so.
fn waiter(place: Place<'_>, shared: &Arc<Shared<Vec<usize>>>, sort: Sort, n: usize) -> Party<()> {
    let inside = shared.clone();
    let party = place.start(sort, move || {
        let mut log = inside.value.lock();
        inside.changed.wait(&mut log);
        log.push(n);
    });
    until_waiting(&shared.changed, n + 1);
    party
}

/// One at a time, the longest waiter first; with the mutex locked and without.
#[test]
fn one_by_one() {
    everywhere("one by one", |place| {
        for shared in both(Vec::new) {
            assert!(!shared.changed.notify_one());
            let parties: Vec<_> = (0..6)
                .map(|n| waiter(place, &shared, SORTS[n % 3], n))
                .collect();
            for n in 0..6 {
                let mut log = (n % 2 == 0).then(|| shared.value.lock());
                assert!(shared.changed.notify_one());
                if let Some(log) = &mut log {
                    assert_eq!(log.len(), n);
                    MutexGuard::unlocked(log, umcg::yield_now);
                }
                drop(log);
                crate::support::eventually("it goes on", || shared.value.lock().len() == n + 1);
            }
            join_all(parties);
            assert_eq!(*shared.value.lock(), [0, 1, 2, 3, 4, 5]);
        }
    });
}

#[test]
fn all_at_once() {
    everywhere("all at once", |place| {
        for shared in both(Vec::new) {
            assert_eq!(shared.changed.notify_all(), 0);
            let parties: Vec<_> = (0..6)
                .map(|n| waiter(place, &shared, SORTS[n % 3], n))
                .collect();
            assert_eq!(shared.changed.notify_all(), 6);
            join_all(parties);
            let mut log = shared.value.lock();
            log.sort_unstable();
            assert_eq!(*log, [0, 1, 2, 3, 4, 5]);
        }
    });
}

/// A bounded buffer, in the usual way: no wake-up is lost, nothing is lost or doubled.
#[test]
fn bounded_buffer() {
    const EACH: u64 = 300;
    everywhere("buffer", |place| {
        struct Buffer {
            items: Mutex<VecDeque<u64>>,
            not_full: Condvar,
            not_empty: Condvar,
        }
        let buffer = Arc::new(Buffer {
            items: Mutex::new(VecDeque::new()),
            not_full: Condvar::new(),
            not_empty: Condvar::new(),
        });
        let producers = place.crowd(1, |n| {
            let buffer = buffer.clone();
            move || {
                for item in 0..EACH {
                    let mut items = buffer.items.lock();
                    buffer
                        .not_full
                        .wait_while(&mut items, |items| items.len() == 2);
                    items.push_back(n as u64 * EACH + item);
                    drop(items);
                    buffer.not_empty.notify_one();
                }
                0
            }
        });
        let consumers = place.crowd(1, |_| {
            let buffer = buffer.clone();
            move || {
                let mut sum = 0;
                for _ in 0..EACH {
                    let mut items = buffer.items.lock();
                    buffer
                        .not_empty
                        .wait_while(&mut items, |items| items.is_empty());
                    sum += items.pop_front().unwrap();
                    buffer.not_full.notify_one();
                }
                sum
            }
        });
        let sum: u64 = join_all(producers.into_iter().chain(consumers))
            .into_iter()
            .sum();
        assert_eq!(sum, (0..3 * EACH).sum());
    });
}

#[test]
fn deadlines() {
    everywhere("deadlines", |place| {
        for shared in both(|| false) {
            let parties = place.crowd(1, |_| {
                let shared = shared.clone();
                move || {
                    let mut value = shared.value.lock();
                    let start = Instant::now();
                    assert!(shared.changed.wait_timeout(&mut value, SHORT).timed_out());
                    assert!(start.elapsed() >= SHORT);
                    assert!(shared.changed.wait_deadline(&mut value, start).timed_out());
                    assert!(
                        shared
                            .changed
                            .wait_while_timeout(&mut value, |value| !*value, SHORT)
                            .timed_out()
                    );
                    assert!(
                        !shared
                            .changed
                            .wait_while_deadline(&mut value, |value| *value, start)
                            .timed_out()
                    );
                }
            });
            join_all(parties);
            assert!(!shared.changed.notify_one(), "nobody is left");
            let inside = shared.clone();
            let waits = place.worker(move || {
                let mut value = inside.value.lock();
                inside
                    .changed
                    .wait_while_timeout(&mut value, |value| !*value, HOUR)
                    .timed_out()
            });
            until_waiting(&shared.changed, 1);
            // In vain, and then not.
            shared.changed.notify_one();
            until_waiting(&shared.changed, 1);
            *shared.value.lock() = true;
            shared.changed.notify_one();
            assert!(!waits.join().unwrap());
        }
    });
}

/// A wait that is cut short ends with the mutex: values dropped then may use the guard.
#[test]
fn an_aborted_wait_has_the_mutex() {
    struct InDrop<'a>(MutexGuard<'a, u64>);
    impl Drop for InDrop<'_> {
        fn drop(&mut self) {
            *self.0 += 1;
        }
    }
    everywhere("aborts", |place| {
        for shared in both(|| 0) {
            for sort in [Sort::Worker, Sort::Blocking] {
                let before = *shared.value.lock();
                let inside = shared.clone();
                let party = place.start(sort, move || {
                    let mut guard = InDrop(inside.value.lock());
                    inside.changed.wait(&mut guard.0);
                });
                let Party::Worker(worker) = party else {
                    unreachable!()
                };
                until_waiting(&shared.changed, 1);
                let guard = shared.value.lock();
                worker.abort();
                until_waiting(raw(&shared.value), 1);
                assert_eq!(*guard, before);
                drop(guard);
                abort(worker);
                assert_eq!(*shared.value.lock(), before + 1);
            }
            let inside = shared.clone();
            let late = place.worker(move || {
                umcg::timeout(SHORT, || {
                    let mut guard = InDrop(inside.value.lock());
                    inside.changed.wait(&mut guard.0);
                })
            });
            assert_eq!(late.join().unwrap(), Err(Elapsed));
            assert!(shared.value.try_lock().is_some());
        }
    });
}

/// Of two that wait one is aborted while one is notified: either the other one was, or the aborted
/// one was and has gone on.
#[test]
fn a_notification_is_not_lost() {
    everywhere("not lost", |place| {
        for shared in both(|| ()) {
            for turn in 0..100 {
                let notified = flag();
                let (inside, is_notified) = (shared.clone(), notified.clone());
                let first = place.worker(move || {
                    let mut guard = inside.value.lock();
                    inside.changed.wait(&mut guard);
                    // It was; that it is aborted too comes later.
                    is_notified.store(true, Relaxed);
                    drop(guard);
                    umcg::park();
                });
                until_waiting(&shared.changed, 1);
                let inside = shared.clone();
                let second = place.start(SORTS[turn % 3], move || {
                    let mut guard = inside.value.lock();
                    inside.changed.wait(&mut guard);
                });
                until_waiting(&shared.changed, 2);
                let inside = shared.clone();
                let notifier = place.start(SORTS[turn % 2], move || {
                    assert!(inside.changed.notify_one())
                });
                first.abort();
                notifier.join();
                assert!(matches!(first.join(), Err(JoinError::Cancelled)));
                if notified.load(Relaxed) {
                    until_waiting(&shared.changed, 1);
                    shared.changed.notify_one();
                }
                second.join();
            }
        }
    });
}

#[test]
fn shapes() {
    static LOCK: Mutex<bool> = Mutex::new(false);
    static CHANGED: Condvar = Condvar::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            *LOCK.lock() = true;
            CHANGED.notify_all();
        });
        CHANGED.wait_while(&mut LOCK.lock(), |is_done| !*is_done);
    });
    let _ = Condvar::default();
}
