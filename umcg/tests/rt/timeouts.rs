//! Time limits around a piece of work.

use crate::support::{Counted, HOUR, counter, over};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::{Elapsed, timeout, timeout_at};

const SHORT: Duration = Duration::from_millis(4);

#[test]
fn in_time_and_late() {
    over("timeout", |runtime, kind| {
        let drops = counter();
        let count = drops.clone();
        kind.run(runtime, move || {
            assert_eq!(timeout(HOUR, || 5), Ok(5));
            assert_eq!(timeout_at(Instant::now() + HOUR, || (umcg::sleep(SHORT), 6).1), Ok(6));
            let start = Instant::now();
            let late = timeout(SHORT, || {
                let _owned = Counted(count.clone());
                umcg::sleep(HOUR);
            });
            assert_eq!((late, start.elapsed() >= SHORT), (Err(Elapsed), true));
            assert_eq!(
                timeout(SHORT, || loop {
                    umcg::park();
                }),
                Err::<(), _>(Elapsed)
            );
            let waits = kind.spawn(|| umcg::sleep(SHORT * 10));
            assert!(timeout(SHORT, || waits.join()).is_err());
            assert_eq!(timeout(Duration::ZERO, || umcg::sleep(HOUR)), Err(Elapsed));
            assert_eq!(timeout_at(Instant::now() - SHORT, umcg::park), Err(Elapsed));
            assert_eq!(timeout(SHORT, || umcg::blocking(|| umcg::sleep(HOUR))), Err(Elapsed));
            umcg::sleep(SHORT); // what is over is over
            umcg::rt::checkpoint();
        });
        assert_eq!(drops.load(Relaxed), 1);
    });
}

#[test]
fn nested() {
    over("nested timeouts", |runtime, kind| {
        kind.run(runtime, || {
            // The inner first.
            let outer = timeout(HOUR, || {
                assert_eq!(timeout(SHORT, || umcg::sleep(HOUR)), Err(Elapsed));
                umcg::yield_now();
                assert_eq!(timeout(SHORT, umcg::park), Err(Elapsed));
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
            // Both at once: the outer it is, sooner or later.
            let deadline = Instant::now() + SHORT;
            let outer = timeout_at(deadline, || {
                let inner = timeout_at(deadline, || umcg::sleep(HOUR));
                umcg::sleep(HOUR);
                inner
            });
            assert_eq!(outer, Err(Elapsed));
            umcg::sleep(SHORT);
        });
    });
}

#[test]
fn as_deep_as_is_said() {
    fn nest(depth: u32) -> u32 {
        if depth == 0 { 0 } else { timeout(HOUR, || nest(depth - 1) + 1).unwrap() }
    }
    over("deep timeouts", |runtime, kind| {
        let builder = umcg::Builder::new().stack_size(1 << 20);
        let worker = kind.build_on(runtime, &builder, || {
            assert_eq!(nest(60), 60);
            assert!(catch_unwind(|| nest(61)).is_err());
            assert_eq!(nest(60), 60);
            // All of these at once.
            fn wait(depth: u32, end: Instant) -> Result<(), Elapsed> {
                if depth == 0 { timeout_at(end, || umcg::sleep(HOUR)) } else { timeout(HOUR, || wait(depth - 1, end)).unwrap() }
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
            let panic = catch_unwind(|| timeout(SHORT, || timeout(HOUR, || std::panic::panic_any(4u8))));
            assert_eq!(*panic.unwrap_err().downcast::<u8>().unwrap_or_default(), 4);
            umcg::sleep(SHORT * 2);
        });
        assert!(catch_unwind(|| timeout(HOUR, || ())).is_err(), "a plain thread has no such thing");
    });
}

/// `f` returns at about the time when it fires. Nothing of it may be left for what comes after.
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
                assert!(after.is_ok(), "a timeout that is over cut what came after it");
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
