//! Asking workers to end.

use crate::support::{
    Counted, HOUR, Kind, child_succeeds, counter, eventually, flag, is_child, over, with,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::Duration;
use umcg::sync::{Condvar, Mutex};
use umcg::{JoinError, JoinHandle, Runtime};

/// It has been cancelled, and everything that it owned is gone.
#[track_caller]
fn is_cancelled<R: std::fmt::Debug>(worker: JoinHandle<R>) {
    match worker.join() {
        Err(JoinError::Cancelled) => {}
        other => panic!("{other:?}"),
    }
}

/// Aborts a worker that has come to where it waits.
#[track_caller]
fn cut(runtime: &Runtime, kind: Kind, wait: impl FnOnce() + Send + 'static) {
    let (drops, begun) = (counter(), flag());
    let (owned, beginning) = (Counted(drops.clone()), begun.clone());
    let worker = kind.spawn_on(runtime, move || {
        let _owned = owned;
        beginning.store(true, Relaxed);
        wait();
    });
    eventually("it begins", || begun.load(Relaxed));
    std::thread::sleep(Duration::from_millis(1));
    worker.abort();
    is_cancelled(worker);
    assert_eq!(drops.load(Relaxed), 1);
}

#[test]
fn wherever_it_waits() {
    over("abort", |runtime, kind| {
        cut(runtime, kind, || {
            loop {
                umcg::park();
            }
        });
        cut(runtime, kind, || {
            umcg::park_timeout(HOUR);
        });
        cut(runtime, kind, || umcg::sleep(HOUR));
        cut(runtime, kind, || {
            loop {
                umcg::yield_now();
            }
        });
        cut(runtime, kind, || {
            loop {
                umcg::hand_over(umcg::Handle::current());
            }
        });
        cut(runtime, kind, || {
            let _ = umcg::timeout(HOUR, || umcg::sleep(HOUR));
        });
        cut(runtime, kind, || umcg::block_on(std::future::pending()));
        cut(runtime, kind, || umcg::blocking(|| umcg::sleep(HOUR)));
        cut(runtime, kind, || {
            umcg::blocking(|| {
                loop {
                    umcg::park();
                }
            })
        });
        cut(runtime, kind, || {
            loop {
                umcg::rt::checkpoint();
                std::hint::spin_loop();
            }
        });
    });
}

#[test]
fn in_joins() {
    over("abort in joins", |runtime, kind| {
        for how in 0..4 {
            let over = flag();
            let seen = over.clone();
            let child = kind.spawn_on(runtime, move || {
                while !seen.load(Relaxed) {
                    umcg::sleep(Duration::from_millis(1));
                }
            });
            cut(runtime, kind, move || match how {
                0 => child.join().unwrap(),
                1 => child.join_timeout(HOUR).unwrap().unwrap(),
                2 => umcg::blocking(|| child.join().unwrap()),
                _ => umcg::timeout(HOUR, || child.join().unwrap()).unwrap(),
            });
            over.store(true, Relaxed);
        }
    });
}

#[test]
fn before_it_begins() {
    over("abort at once", |runtime, kind| {
        let (drops, ran) = (counter(), counter());
        let counts = (drops.clone(), ran.clone());
        kind.run(runtime, move || {
            for _ in 0..100 {
                let (owned, ran) = (Counted(counts.0.clone()), counts.1.clone());
                let worker = kind.spawn(move || {
                    let _owned = owned;
                    ran.fetch_add(1, Relaxed);
                    umcg::sleep(HOUR);
                });
                worker.abort();
                is_cancelled(worker);
            }
        });
        assert_eq!(drops.load(Relaxed), 100);
        assert!(
            runtime.servers() > 1 || ran.load(Relaxed) == 0,
            "one server had no time to begin any"
        );
    });
}

/// The values that it owns have destructors, which may wait, as they may at the end of one that has
/// begun.
#[test]
fn before_it_begins_with_destructors_that_wait() {
    /// Counts when it has waited in its drop. A light worker that unwinds must not wait, and does
    /// not.
    struct Waits(Kind, Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            if self.0 == Kind::Full || !std::thread::panicking() {
                umcg::sleep(Duration::from_micros(100));
                umcg::yield_now();
                umcg::blocking(|| umcg::spawn(|| ()).join().unwrap());
            }
            self.1.fetch_add(1, Relaxed);
        }
    }
    fn body(owned: Waits) -> impl FnOnce() + Send {
        move || {
            let _owned = owned;
            umcg::sleep(HOUR);
        }
    }
    over("abort at once what waits in its drop", |runtime, kind| {
        let drops = counter();
        let owned = |kind| Waits(kind, drops.clone());
        let (joined, scoped, future, left) =
            (owned(kind), owned(kind), owned(Kind::Full), owned(kind));
        kind.run(runtime, move || {
            let worker = kind.spawn(body(joined));
            worker.abort();
            is_cancelled(worker);
            umcg::scope(|scope| kind.spawn_in(scope, body(scoped)).abort());
            let worker = umcg::spawn_future(async move {
                let _owned = future;
                std::future::pending::<()>().await;
            });
            worker.abort();
            is_cancelled(worker);
        });
        assert_eq!(drops.load(Relaxed), 3);
        // No caller waits for this one.
        kind.run(runtime, move || kind.spawn(body(left)).abort());
        eventually("the drop of what was left", || drops.load(Relaxed) == 4);
    });
}

/// A worker that does not begin drops only its captured values; when that panics it is a panic like
/// others.
#[test]
fn before_it_begins_with_a_destructor_that_panics() {
    const NAME: &str = "aborts::before_it_begins_with_a_destructor_that_panics";
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("expected");
        }
    }
    if !is_child(NAME) {
        return child_succeeds(NAME); // it could end the process
    }
    over("abort a bomb", |runtime, kind| {
        kind.run(runtime, move || {
            let bomb = Bomb;
            let worker = kind.spawn(move || std::mem::forget(bomb));
            worker.abort();
            if umcg::Builder::new().spawn(|| ()).is_ok() {
                let _ = worker.join();
            }
        });
    });
}

#[test]
fn a_scope_ends_after_its_workers() {
    over("abort a scope", |runtime, kind| {
        let (gate, ended, begun) = (flag(), counter(), flag());
        let (open, count, beginning) = (gate.clone(), ended.clone(), begun.clone());
        let worker = kind.spawn_on(runtime, move || {
            umcg::scope(|scope| {
                for _ in 0..5 {
                    kind.spawn_in(scope, || {
                        while !open.load(Relaxed) {
                            umcg::sleep(Duration::from_micros(100));
                        }
                        count.fetch_add(1, Relaxed);
                    });
                }
                beginning.store(true, Relaxed);
                umcg::sleep(HOUR);
            });
        });
        eventually("it begins", || begun.load(Relaxed));
        worker.abort();
        std::thread::sleep(Duration::from_millis(3));
        assert!(!worker.is_finished() && ended.load(Relaxed) == 0);
        gate.store(true, Relaxed);
        is_cancelled(worker);
        assert_eq!(ended.load(Relaxed), 5);
    });
}

/// One that waits for its scope, not in it.
#[test]
fn a_scope_that_is_closing_ends_after_its_workers() {
    over("abort a closing scope", |runtime, kind| {
        let (gate, ended, begun, after) = (flag(), counter(), flag(), flag());
        let (open, count, beginning, went_on) =
            (gate.clone(), ended.clone(), begun.clone(), after.clone());
        let worker = kind.spawn_on(runtime, move || {
            umcg::scope(|scope| {
                kind.spawn_in(scope, || {
                    while !open.load(Relaxed) {
                        umcg::sleep(Duration::from_micros(100));
                    }
                    count.fetch_add(1, Relaxed);
                });
                beginning.store(true, Relaxed);
            });
            umcg::sleep(HOUR);
            went_on.store(true, Relaxed);
        });
        eventually("it begins", || begun.load(Relaxed));
        std::thread::sleep(Duration::from_millis(1));
        worker.abort();
        std::thread::sleep(Duration::from_millis(3));
        assert!(!worker.is_finished());
        gate.store(true, Relaxed);
        is_cancelled(worker);
        assert!(ended.load(Relaxed) == 1 && !after.load(Relaxed));
    });
}

#[test]
fn twice_and_after_the_end() {
    over("abort twice", |runtime, kind| {
        let worker = kind.spawn_on(runtime, || umcg::sleep(HOUR));
        worker.abort();
        worker.abort();
        is_cancelled(worker);
        let worker = kind.spawn_on(runtime, || 6);
        eventually("it ends", || worker.is_finished());
        worker.abort();
        worker.abort();
        assert_eq!(worker.join().unwrap(), 6);
        // The descriptor's present owner is not touched by that.
        for _ in 0..100 {
            assert_eq!(kind.run(runtime, || (umcg::yield_now(), 7).1), 7);
        }
    });
}

/// A worker that catches it goes on, until the next wait.
#[test]
fn one_that_catches_it() {
    over("abort caught", |runtime, kind| {
        let caught = counter();
        let count = caught.clone();
        let worker = kind.spawn_on(runtime, move || {
            while count.load(Relaxed) < 3 {
                if catch_unwind(AssertUnwindSafe(|| umcg::sleep(HOUR))).is_err() {
                    count.fetch_add(1, Relaxed);
                }
            }
            assert!(catch_unwind(|| umcg::timeout(HOUR, umcg::park)).is_err());
            8
        });
        worker.abort();
        match worker.join() {
            Ok(value) => assert_eq!((value, caught.load(Relaxed)), (8, 3)),
            Err(error) => assert!(
                matches!(error, JoinError::Cancelled) && caught.load(Relaxed) == 0,
                "{error:?}"
            ),
        }
    });
}

/// A destructor may wait while its worker unwinds.
#[test]
fn destructors_that_wait() {
    struct Waits(Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            umcg::yield_now();
            umcg::sleep(Duration::from_millis(1));
            let child = umcg::spawn(|| (umcg::yield_now(), 1).1);
            self.0.fetch_add(child.join().unwrap(), Relaxed);
        }
    }
    over("abort with waiting destructors", |runtime, _| {
        let drops = counter();
        let waits = [Waits(drops.clone()), Waits(drops.clone())];
        cut(runtime, Kind::Full, move || {
            let _waits = waits;
            umcg::sleep(HOUR);
        });
        assert_eq!(drops.load(Relaxed), 2);
    });
}

/// The worker has been asked to end, and has: work done for it at its end is not cut short.
#[test]
fn destructors_of_locals_that_wait() {
    const NAME: &str = "aborts::destructors_of_locals_that_wait";
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Waits(Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            umcg::sleep(Duration::from_millis(1));
            umcg::spawn(umcg::yield_now).join().unwrap();
            self.0.fetch_add(1, Relaxed);
            DROPS.fetch_add(1, Relaxed);
        }
    }
    thread_local! {
        static OF_THREAD: std::cell::RefCell<Option<Waits>> =
            const { std::cell::RefCell::new(None) };
    }
    umcg::worker_local! {
        static OF_WORKER: std::cell::RefCell<Option<Waits>> = std::cell::RefCell::new(None);
    }
    if !is_child(NAME) {
        return child_succeeds(NAME); // it could end the process
    }
    over("abort with waiting locals", |runtime, _| {
        let drops = counter();
        let (first, second) = (Waits(drops.clone()), Waits(drops.clone()));
        cut(runtime, Kind::Full, move || {
            OF_THREAD.with_borrow_mut(|local| *local = Some(first));
            OF_WORKER.with(|local| *local.borrow_mut() = Some(second));
            umcg::sleep(HOUR);
        });
        assert_eq!(drops.load(Relaxed), 2);
    });
}

/// A worker that has panicked stays one that panicked, whatever is asked of it afterwards.
#[test]
fn a_panic_is_not_lost() {
    struct Slow;
    impl Drop for Slow {
        fn drop(&mut self) {
            umcg::sleep(Duration::from_millis(3));
        }
    }
    over("abort a panic", |runtime, _| {
        let begun = flag();
        let beginning = begun.clone();
        let worker = runtime.spawn(move || {
            let _slow = Slow;
            beginning.store(true, Relaxed);
            panic!("expected");
        });
        eventually("it begins", || begun.load(Relaxed));
        worker.abort();
        assert!(matches!(worker.join(), Err(JoinError::Panicked(_))));
    });
}

/// Aborted at any moment of a life full of waits.
#[test]
fn at_random_moments() {
    over("abort at random", |runtime, kind| {
        let drops = counter();
        for round in 0..400 {
            let owned = Counted(drops.clone());
            let worker = kind.spawn_on(runtime, move || {
                let _owned = owned;
                for _ in 0..50 {
                    umcg::yield_now();
                    kind.spawn(umcg::yield_now).join().unwrap();
                    umcg::scope(|scope| kind.spawn_in(scope, umcg::yield_now).join().unwrap());
                    let _ = umcg::timeout(Duration::from_micros(50), umcg::park);
                    umcg::park_timeout(Duration::from_micros(20));
                }
            });
            (0..round * 20).for_each(|_| std::hint::spin_loop());
            worker.abort();
            match worker.join() {
                Ok(()) | Err(JoinError::Cancelled) => {}
                Err(error) => error.resume_unwind(),
            }
        }
        eventually("all have ended", || runtime.workers() == 0);
        assert_eq!(drops.load(Relaxed), 400);
    });
}

/// Workers that abort each other, and themselves.
#[test]
fn by_each_other() {
    with("abort each other", 2, Runtime::builder(), |runtime| {
        let sleepers: Vec<_> = (0..100)
            .map(|_| runtime.spawn(|| umcg::sleep(HOUR)))
            .collect();
        let sleepers = Arc::new(sleepers);
        let aborters: Vec<_> = (0..4)
            .map(|_| {
                let sleepers = sleepers.clone();
                runtime.spawn(move || sleepers.iter().for_each(JoinHandle::abort))
            })
            .collect();
        aborters
            .into_iter()
            .for_each(|aborter| aborter.join().unwrap());
        Arc::try_unwrap(sleepers)
            .unwrap()
            .into_iter()
            .for_each(is_cancelled);
    });
}

/// Light workers share the kernel thread's count of panics. At the end of one that is cut short the
/// library waits: for the lock of a condition variable or the end of a process. Those waits do not
/// concern the others.
#[test]
fn others_see_nothing_of_an_unwinding_that_has_to_wait() {
    let waits: [fn(&Mutex<()>, &Condvar); 2] = [
        |mutex, condvar| condvar.wait(&mut mutex.lock()),
        |_, _| drop(umcg::process::Command::new("sleep").arg("1000").output()),
    ];
    for wait in waits {
        with("unwinding", 1, Runtime::builder(), |runtime| {
            let (over, seen) = (flag(), counter());
            let neighbour = {
                let (over, seen) = (over.clone(), seen.clone());
                Kind::Light.spawn_on(runtime, move || {
                    while !over.load(Relaxed) {
                        seen.fetch_add(usize::from(std::thread::panicking()), Relaxed);
                        umcg::yield_now();
                    }
                })
            };
            let (mutex, condvar) = (Arc::new(Mutex::new(())), Arc::new(Condvar::new()));
            let worker = {
                let (mutex, condvar) = (mutex.clone(), condvar.clone());
                Kind::Light.spawn_on(runtime, move || wait(&mutex, &condvar))
            };
            let states = [": waits: condvar", ": waits: read"];
            eventually("it waits", || {
                states.iter().any(|state| runtime.dump().contains(state))
            });
            let guard = mutex.lock();
            worker.abort();
            // The condition variable's has to wait for the lock.
            for _ in 0..20 {
                umcg::sleep(Duration::from_micros(300));
            }
            drop(guard);
            is_cancelled(worker);
            assert!(!Kind::Light.run(runtime, std::thread::panicking));
            over.store(true, Relaxed);
            neighbour.join().unwrap();
            assert_eq!(seen.load(Relaxed), 0);
        });
    }
}
