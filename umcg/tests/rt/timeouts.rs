//! Time limits around a piece of work.

use crate::support::{Counted, HOUR, Kind, counter, eventually, flag, over};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use umcg::sync::{Mutex, Semaphore};
use umcg::{Elapsed, timeout, timeout_at};

const SHORT: Duration = Duration::from_millis(4);

/// As a worker, as one that blocks in the kernel, and as a plain thread.
fn everywhere(name: &'static str, test: impl Fn(Kind) + Clone + Send + 'static) {
    over(name, move |runtime, kind| {
        let (worker, blocks) = (test.clone(), test.clone());
        kind.run(runtime, move || worker(kind));
        kind.run(runtime, move || umcg::blocking(|| blocks(kind)));
        test(kind);
    });
}

/// For ever: a single park may return without a reason.
fn park_on() {
    loop {
        umcg::park();
    }
}

#[test]
fn in_time_and_late() {
    everywhere("timeout", |kind| {
        let count = counter();
        assert_eq!(timeout(HOUR, || 5), Ok(5));
        assert_eq!(
            timeout_at(Instant::now() + HOUR, || (umcg::sleep(SHORT), 6).1),
            Ok(6)
        );
        let start = Instant::now();
        let late = timeout(SHORT, || {
            let _owned = Counted(count.clone());
            umcg::sleep(HOUR);
        });
        assert_eq!((late, start.elapsed() >= SHORT), (Err(Elapsed), true));
        assert_eq!(timeout(SHORT, park_on), Err(Elapsed));
        let over = flag();
        let seen = over.clone();
        let waits = kind.spawn(move || eventually("it may end", || seen.load(Relaxed)));
        assert!(timeout(SHORT, || waits.join()).is_err());
        over.store(true, Relaxed);
        assert_eq!(timeout(Duration::ZERO, || umcg::sleep(HOUR)), Err(Elapsed));
        assert_eq!(timeout_at(Instant::now() - SHORT, park_on), Err(Elapsed));
        assert_eq!(
            timeout(SHORT, || umcg::blocking(|| umcg::sleep(HOUR))),
            Err(Elapsed)
        );
        umcg::sleep(SHORT); // a limit that is over is over
        umcg::rt::checkpoint();
        assert_eq!(count.load(Relaxed), 1);
    });
}

#[test]
fn nested() {
    everywhere("nested timeouts", |_| {
        // The inner first.
        let outer = timeout(HOUR, || {
            assert_eq!(timeout(SHORT, || umcg::sleep(HOUR)), Err(Elapsed));
            umcg::yield_now();
            assert_eq!(timeout(SHORT, park_on), Err(Elapsed));
            7
        });
        assert_eq!(outer, Ok(7));
        // The outer first: the inner sees nothing of it.
        let mut seen = false;
        let outer = timeout(SHORT, || {
            let _ = timeout(HOUR, || umcg::sleep(HOUR));
            seen = true;
        });
        assert_eq!((outer, seen), (Err(Elapsed), false));
        // Both at once: the outer one counts, sooner or later.
        let deadline = Instant::now() + SHORT;
        let outer = timeout_at(deadline, || {
            let inner = timeout_at(deadline, || umcg::sleep(HOUR));
            umcg::sleep(HOUR);
            inner
        });
        assert_eq!(outer, Err(Elapsed));
        umcg::sleep(SHORT);
    });
}

/// Waits in queues are cut short as others are; locks that are no points of cancellation are waited
/// for.
#[test]
fn in_queues() {
    everywhere("timeouts in queues", |kind| {
        let (semaphore, mutex) = (Arc::new(Semaphore::new(0)), Arc::new(Mutex::new(0)));
        assert_eq!(
            timeout(SHORT, || semaphore.acquire().unwrap()).map_err(|_| ()),
            Err(())
        );
        let (_sender, receiver) = umcg::tube::tube::<u8>(1);
        assert!(timeout(SHORT, || receiver.recv()).is_err());
        assert!(timeout(SHORT, || timeout(HOUR, || receiver.recv())).is_err());
        let (mine, wanted, theirs) = (flag(), flag(), mutex.clone());
        let (has, is_wanted) = (mine.clone(), wanted.clone());
        let holder = kind.spawn(move || {
            let _guard = theirs.lock();
            has.store(true, Relaxed);
            eventually("it is waited for", || is_wanted.load(Relaxed));
            umcg::sleep(SHORT * 5);
        });
        eventually("it is locked", || mine.load(Relaxed));
        assert!(timeout(SHORT / 4, || drop(mutex.try_lock_for(HOUR))).is_err());
        let late: Result<(), _> = timeout(SHORT, || {
            wanted.store(true, Relaxed);
            *mutex.lock() += 1;
            // The time has passed by now, but no server may have come to it yet.
            loop {
                umcg::rt::checkpoint();
                std::thread::yield_now();
            }
        });
        assert_eq!(late, Err(Elapsed));
        holder.join().unwrap();
        assert_eq!(*mutex.lock(), 1);
        // No waiter stands there any more.
        semaphore.release(1).unwrap();
        semaphore.acquire().unwrap();
    });
}

/// A wait that a section keeps from being cut short is done, and the unwinding comes later.
#[test]
fn shielded_sections() {
    everywhere("shields", |_| {
        let mut done = 0;
        let late = timeout(SHORT, || {
            umcg::shielded(|| {
                umcg::sleep(SHORT * 2);
                umcg::shielded(|| umcg::sleep(SHORT));
                done = 1;
            });
            umcg::sleep(HOUR);
            done = 2;
        });
        assert_eq!((late, done), (Err(Elapsed), 1));
        let once = std::sync::LazyLock::new(|| umcg::shielded(|| (umcg::sleep(SHORT * 2), 3).1));
        assert_eq!(timeout(SHORT, || *once), Ok(3));
        assert_eq!(*once, 3);
    });
}

#[test]
fn as_deep_as_is_said() {
    fn nest(depth: u32) -> u32 {
        if depth == 0 {
            0
        } else {
            timeout(HOUR, || nest(depth - 1) + 1).unwrap()
        }
    }
    over("deep timeouts", |runtime, kind| {
        let builder = umcg::Builder::new().stack_size(1 << 20);
        let worker = kind.build_on(runtime, &builder, || {
            assert_eq!(nest(60), 60);
            assert!(catch_unwind(|| nest(61)).is_err());
            assert_eq!(nest(60), 60);
            // All of these at once.
            fn wait(depth: u32, end: Instant) -> Result<(), Elapsed> {
                if depth == 0 {
                    timeout_at(end, || umcg::sleep(HOUR))
                } else {
                    timeout(HOUR, || wait(depth - 1, end)).unwrap()
                }
            }
            assert_eq!(wait(50, Instant::now() + SHORT), Err(Elapsed));
        });
        worker.unwrap().join().unwrap();
    });
}

#[test]
fn panics_pass_through() {
    over("panicking timeouts", |runtime, kind| {
        kind.run(runtime, || {
            let panic =
                catch_unwind(|| timeout(SHORT, || timeout(HOUR, || std::panic::panic_any(4u8))));
            assert_eq!(*panic.unwrap_err().downcast::<u8>().unwrap_or_default(), 4);
            umcg::sleep(SHORT * 2);
        });
    });
}

/// `f` returns at about the time when it fires. Nothing of it may be left for later calls.
#[test]
fn races_leave_nothing_behind() {
    over("timeout races", |runtime, kind| {
        kind.run(runtime, || {
            let (mut in_time, mut late) = (0, 0);
            for round in 0..300u64 {
                let length = Duration::from_micros(60 + round % 50);
                let result = timeout(Duration::from_micros(100), || {
                    if round % 3 == 0 {
                        umcg::park_timeout(length);
                    } else {
                        umcg::sleep(length);
                    }
                    round
                });
                match result {
                    Ok(value) => in_time += u64::from(value == round),
                    Err(Elapsed) => late += 1,
                }
                let after = catch_unwind(AssertUnwindSafe(|| {
                    umcg::yield_now();
                    umcg::sleep(Duration::from_micros(20));
                    umcg::rt::checkpoint();
                }));
                assert!(
                    after.is_ok(),
                    "a timeout that is over cut what came after it"
                );
            }
            assert_eq!(in_time + late, 300);
        });
    });
}

/// Waking by a timeout and by an unpark at once.
#[test]
fn unparks_while_it_fires() {
    over("timeout and unpark", |runtime, kind| {
        kind.run(runtime, move || {
            for _ in 0..100 {
                let waits = kind.spawn(|| {
                    let _ = timeout(Duration::from_micros(150), || {
                        loop {
                            umcg::park();
                        }
                    });
                    umcg::sleep(Duration::from_micros(10));
                    1
                });
                while !waits.is_finished() {
                    waits.handle().unpark();
                    umcg::yield_now();
                }
                assert_eq!(waits.join().unwrap(), 1);
            }
        });
    });
}

/// Destructors at a worker's end are not cut short, not even by limits of their own.
#[test]
fn at_the_end_of_a_worker_none_elapses() {
    struct Limited(Arc<AtomicUsize>);
    impl Drop for Limited {
        fn drop(&mut self) {
            assert_eq!(timeout(Duration::ZERO, || umcg::sleep(SHORT)), Ok(()));
            self.0.fetch_add(1, Relaxed);
        }
    }
    umcg::worker_local! {
        static AT_THE_END: Cell<Option<Limited>> = Cell::new(None);
    }
    over("timeouts at the end", |runtime, kind| {
        let done = counter();
        let limited = Limited(done.clone());
        kind.run(runtime, move || {
            AT_THE_END.with(|place| place.set(Some(limited)))
        });
        assert_eq!(done.load(Relaxed), 1);
    });
}
