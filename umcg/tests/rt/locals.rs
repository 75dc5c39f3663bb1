//! Values of a worker's own.

use crate::support::{HOUR, KINDS, Kind, counter, eventually, over};
use std::cell::{Cell, RefCell};
use std::panic::catch_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::Duration;

umcg::worker_local! {
    static NUMBER: Cell<u64> = Cell::new(7);
    static GUARD: RefCell<Option<Ended>> = RefCell::new(None);
    static OTHER: RefCell<Vec<u64>> = RefCell::new(vec![NUMBER.with(Cell::get)]);
}

umcg::worker_local! {
    static ITSELF: u32 = if NUMBER.with(Cell::get) == 0 { 5 } else { OTHERS.with(|other| *other) };
    static OTHERS: u32 = ITSELF.with(|itself| *itself);
    static SLOW: u64 = {
        umcg::sleep(if NUMBER.with(Cell::get) == 0 { HOUR } else { Duration::from_micros(100) });
        NUMBER.with(Cell::get)
    };
}

thread_local!(static OF_THREAD: Cell<u64> = const { Cell::new(1) });

struct Ended(Arc<AtomicUsize>);

impl Drop for Ended {
    fn drop(&mut self) {
        // A destructor may wait, and use locals, this one too.
        umcg::yield_now();
        umcg::sleep(Duration::from_micros(50));
        NUMBER.with(|number| number.set(number.get() + 1));
        GUARD.with(|guard| assert!(guard.borrow().is_none()));
        OTHER.with(|other| other.borrow_mut().push(1));
        self.0.fetch_add(1, Relaxed);
    }
}

#[test]
fn each_worker_has_its_own_wherever_it_runs() {
    over("worker-locals", |runtime, kind| {
        let ended = counter();
        let workers: Vec<_> = (0..100u64)
            .map(|n| {
                let ended = ended.clone();
                kind.spawn_on(runtime, move || {
                    NUMBER.with(|number| assert_eq!(number.replace(n), 7));
                    GUARD.with(|guard| *guard.borrow_mut() = Some(Ended(ended)));
                    for _ in 0..10 {
                        // Kept across a switch, which is their purpose.
                        NUMBER.with(|number| {
                            umcg::yield_now();
                            number.set(number.get() + 1);
                            umcg::park_timeout(Duration::from_micros(10));
                        });
                        umcg::blocking(|| NUMBER.with(|number| number.set(number.get() + 1)));
                    }
                    OTHER.with(|other| assert_eq!(*other.borrow(), [n + 20]));
                    NUMBER.with(Cell::get)
                })
            })
            .collect();
        for (n, worker) in workers.into_iter().enumerate() {
            assert_eq!(worker.join().unwrap(), n as u64 + 20);
        }
        assert_eq!(ended.load(Relaxed), 100);
    });
}

#[test]
fn threads_have_theirs() {
    assert_eq!(NUMBER.with(Cell::get), 7);
    NUMBER.with(|number| number.set(8));
    over("locals of threads", |runtime, kind| {
        assert_eq!(kind.run(runtime, || NUMBER.with(Cell::get)), 7);
        assert_eq!(NUMBER.with(Cell::get), 8);
    });
    std::thread::spawn(|| assert_eq!(NUMBER.with(Cell::get), 7))
        .join()
        .unwrap();
}

/// A value whose making needs the value itself is not made. The attempt is forgotten, so that the
/// next call tries again.
#[test]
fn one_that_needs_itself() {
    over("locals that need themselves", |runtime, kind| {
        let test = || {
            for key in [&ITSELF, &OTHERS, &ITSELF] {
                let said = catch_unwind(|| key.with(|value| *value)).unwrap_err();
                assert_eq!(
                    said.downcast_ref(),
                    Some(&"a worker-local is used while its value is being made")
                );
            }
            // They are made where there is a way to.
            let before = NUMBER.with(|number| number.replace(0));
            assert_eq!(
                (OTHERS.with(|value| *value), ITSELF.with(|value| *value)),
                (5, 5)
            );
            NUMBER.with(|number| number.set(before));
        };
        kind.run(runtime, test);
        kind.run(runtime, move || umcg::blocking(test));
        std::thread::spawn(test).join().unwrap();
    });
}

/// Making a value may wait, and be cut short: then there is none, and the next call makes one.
#[test]
fn one_that_is_made_slowly() {
    over("locals that wait", |runtime, kind| {
        kind.run(runtime, || {
            let slow = || SLOW.with(|slow| *slow);
            NUMBER.with(|number| number.set(0));
            assert!(umcg::timeout(Duration::from_micros(100), slow).is_err());
            NUMBER.with(|number| number.set(1));
            assert_eq!(umcg::timeout(HOUR, slow), Ok(1));
            NUMBER.with(|number| number.set(2));
            assert_eq!(slow(), 1);
        });
    });
}

#[test]
fn they_end_when_their_worker_panics() {
    over("locals and panics", |runtime, kind| {
        let ended = counter();
        let inner = ended.clone();
        let worker = kind.spawn_on(runtime, move || {
            GUARD.with(|guard| *guard.borrow_mut() = Some(Ended(inner)));
            panic!("expected");
        });
        assert!(worker.join().is_err());
        assert_eq!(ended.load(Relaxed), 1);
    });
}

/// Each is dropped, also where several panic when they are.
#[test]
fn their_destructors_may_all_panic() {
    struct Bad(Arc<AtomicUsize>);
    impl Drop for Bad {
        fn drop(&mut self) {
            self.0.fetch_add(1, Relaxed);
            panic!("expected");
        }
    }
    umcg::worker_local! {
        static FIRST: RefCell<Option<Bad>> = RefCell::new(None);
        static SECOND: RefCell<Option<Bad>> = RefCell::new(None);
        static THIRD: RefCell<Option<Bad>> = RefCell::new(None);
    }
    let fill = |dropped: &Arc<AtomicUsize>| {
        for local in [&FIRST, &SECOND, &THIRD] {
            local.with(|value| *value.borrow_mut() = Some(Bad(dropped.clone())));
        }
    };
    over("destructors that panic", |runtime, kind| {
        let dropped = counter();
        let inner = dropped.clone();
        kind.spawn_on(runtime, move || fill(&inner)).join().unwrap();
        assert_eq!(dropped.load(Relaxed), 3);
    });
    let dropped = counter();
    std::thread::scope(|scope| scope.spawn(|| fill(&dropped)).join().unwrap());
    eventually("those of a thread are dropped", || {
        dropped.load(Relaxed) == 3
    });
}

/// Thread-locals of a worker that has its own storage are made for it, and end with it.
#[test]
fn thread_locals_of_those_that_have_their_own() {
    struct Last(Arc<AtomicUsize>);
    impl Drop for Last {
        fn drop(&mut self) {
            umcg::yield_now();
            self.0.fetch_add(1, Relaxed);
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
    over("thread-locals", |runtime, _| {
        let ended = counter();
        let workers: Vec<_> = (0..100u64)
            .map(|n| {
                let ended = ended.clone();
                runtime.spawn(move || {
                    LAST.with_borrow_mut(|last| *last = Some(Last(ended)));
                    OF_THREAD.with(|value| {
                        assert_eq!(value.replace(n), 1);
                        umcg::yield_now();
                        umcg::sleep(Duration::from_micros(100));
                        umcg::blocking(|| OF_THREAD.with(|same| same.set(same.get() + 1)));
                        assert_eq!(value.get(), n + 1);
                    });
                })
            })
            .collect();
        drop(workers);
        eventually("all have ended", || ended.load(Relaxed) == 100);
    });
    assert_eq!(OF_THREAD.get(), 1);
}

/// Values that the last destructors make, of an unwanted result and of thread-locals, are destroyed
/// as well, and are not left to the next worker.
#[test]
fn the_last_destructors_have_theirs() {
    struct Last(Arc<AtomicUsize>);
    impl Drop for Last {
        fn drop(&mut self) {
            assert_eq!(NUMBER.with(|number| number.replace(100)), 7);
            GUARD.with(|guard| *guard.borrow_mut() = Some(Ended(self.0.clone())));
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
    over("locals of destructors", |runtime, kind| {
        let ended = counter();
        let inner = ended.clone();
        kind.run(runtime, move || {
            for round in 1..=20 {
                let (result, local) = (Last(inner.clone()), Last(inner.clone()));
                let is_unwanted = Arc::new(AtomicBool::new(false));
                let seen = is_unwanted.clone();
                let worker = kind.spawn(move || {
                    eventually("the handle is gone", || seen.load(Acquire));
                    result
                });
                drop(worker);
                is_unwanted.store(true, Release);
                umcg::spawn(move || LAST.with_borrow_mut(|last| *last = Some(local)))
                    .join()
                    .unwrap();
                eventually("both are gone", || inner.load(Relaxed) == 2 * round);
                for kind in KINDS {
                    assert_eq!(kind.spawn(|| NUMBER.with(Cell::get)).join().unwrap(), 7);
                }
            }
        });
        assert_eq!(ended.load(Relaxed), 40);
    });
}

/// Each worker may find another's values in the storage that it shares; a worker with its own
/// storage is not touched by that.
#[test]
fn both_kinds_side_by_side() {
    over("both kinds", |runtime, kind| {
        let other = if kind == Kind::Full {
            Kind::Light
        } else {
            Kind::Full
        };
        kind.run(runtime, move || {
            for n in 0..50 {
                NUMBER.with(|number| number.set(n));
                let child = other.spawn(move || {
                    OF_THREAD.set(n);
                    umcg::yield_now();
                    NUMBER.with(|number| number.replace(100))
                });
                assert_eq!(child.join().unwrap(), 7);
                assert_eq!(NUMBER.with(Cell::get), n);
                assert!(kind == Kind::Light || OF_THREAD.get() == 1);
            }
        });
    });
}

/// Of a plain thread, too, values that destructors make are destroyed as well: those of its locals,
/// and those of its thread-locals.
#[test]
fn the_last_destructors_of_threads_have_theirs() {
    struct Last(Arc<AtomicUsize>);
    impl Drop for Last {
        fn drop(&mut self) {
            GUARD.with(|guard| *guard.borrow_mut() = Some(Ended(self.0.clone())));
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
    let ended = counter();
    let threads: Vec<_> = (0..10)
        .map(|n| {
            let ended = ended.clone();
            std::thread::spawn(move || {
                let last = Last(ended);
                if n % 2 == 0 {
                    drop(last)
                } else {
                    LAST.set(Some(last))
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert_eq!(ended.load(Relaxed), 10);
}
