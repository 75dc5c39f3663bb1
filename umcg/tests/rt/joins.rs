//! Waiting for the end, in all the ways and from all the places.

use crate::support::{HOUR, Kind, counter, eventually, flag, over};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::select::{Select, Set, after};
use umcg::{Builder, JoinHandle};

const SHORT: Duration = Duration::from_millis(5);

/// Waits, not in the kernel, until it is set.
fn gated(kind: Kind, gate: &Arc<AtomicBool>) -> JoinHandle<u32> {
    let gate = gate.clone();
    kind.spawn(move || {
        while !gate.load(Relaxed) {
            umcg::park();
        }
        9
    })
}

#[test]
fn from_everywhere() {
    over("joins", |runtime, kind| {
        // A plain thread, before the end and after.
        let slow = kind.spawn_on(runtime, || (umcg::sleep(SHORT), 1).1);
        let quick = kind.spawn_on(runtime, || 2);
        assert_eq!(slow.join().unwrap() + quick.join().unwrap(), 3);
        kind.run(runtime, move || {
            // A worker.
            let slow = kind.spawn(|| (umcg::sleep(SHORT), 4).1);
            let quick = kind.spawn(|| 5);
            assert_eq!(slow.join().unwrap() + quick.join().unwrap(), 9);
            // A worker that blocks.
            let slow = kind.spawn(|| (umcg::sleep(SHORT), 6).1);
            let quick = kind.spawn(|| 7);
            assert_eq!(
                umcg::blocking(|| slow.join().unwrap() + quick.join().unwrap()),
                13
            );
            // Another thread than where it was spawned.
            let slow = kind.spawn(|| (umcg::sleep(SHORT), 8).1);
            let thread = std::thread::spawn(|| slow.join().unwrap());
            assert_eq!(umcg::blocking(|| thread.join().unwrap()), 8);
            // One worker for another.
            let slow = kind.spawn(|| (umcg::sleep(SHORT), 10).1);
            assert_eq!(kind.spawn(|| slow.join().unwrap()).join().unwrap(), 10);
        });
    });
}

#[test]
fn try_join_gives_the_handle_back() {
    over("try_join", |runtime, kind| {
        kind.run(runtime, move || {
            let gate = flag();
            let worker = gated(kind, &gate);
            let worker = worker.try_join().unwrap_err();
            assert!(!worker.is_finished());
            gate.store(true, Relaxed);
            worker.handle().unpark();
            eventually("it ends", || worker.is_finished());
            assert_eq!(worker.try_join().unwrap().unwrap(), 9);
        });
    });
}

#[test]
fn deadlines_in_time_and_late() {
    over("join_deadline", |runtime, kind| {
        let test = move || {
            let gate = flag();
            let mut worker = gated(kind, &gate);
            for _ in 0..3 {
                let deadline = Instant::now() + SHORT;
                worker = worker.join_deadline(deadline).unwrap_err();
                assert!(Instant::now() >= deadline);
                let start = Instant::now();
                worker = worker.join_timeout(SHORT).unwrap_err();
                assert!(start.elapsed() >= SHORT);
                worker = worker.join_timeout(Duration::ZERO).unwrap_err();
            }
            gate.store(true, Relaxed);
            worker.handle().unpark();
            assert_eq!(worker.join_timeout(HOUR).unwrap().unwrap(), 9);
            let worker = gated(kind, &gate);
            assert_eq!(
                worker
                    .join_deadline(Instant::now() + HOUR)
                    .unwrap()
                    .unwrap(),
                9
            );
            let worker = gated(kind, &gate);
            eventually("it ends", || worker.is_finished());
            assert_eq!(
                worker
                    .join_deadline(Instant::now() - SHORT)
                    .unwrap()
                    .unwrap(),
                9,
                "it has ended, so no matter when"
            );
        };
        kind.run(runtime, test);
        kind.run(runtime, move || umcg::blocking(test));
    });
}

#[test]
fn from_a_thread_with_a_deadline() {
    over("join_deadline of a thread", |runtime, kind| {
        let gate = flag();
        let seen = gate.clone();
        let worker = kind.spawn_on(runtime, move || {
            while !seen.load(Relaxed) {
                umcg::park();
            }
            "end"
        });
        let worker = worker.join_timeout(SHORT).unwrap_err();
        gate.store(true, Relaxed);
        worker.handle().unpark();
        assert_eq!(worker.join_timeout(HOUR).unwrap().unwrap(), "end");
    });
}

/// The deadline passes at about the time of the end.
#[test]
fn deadlines_race_with_the_end() {
    over("join race", |runtime, kind| {
        let (in_time, late) = (counter(), counter());
        let counts = (in_time.clone(), late.clone());
        kind.run(runtime, move || {
            for round in 0..300u64 {
                let length = Duration::from_micros(100 + round % 7 * 10);
                let worker = kind.spawn(move || (umcg::sleep(Duration::from_micros(100)), round).1);
                match worker.join_timeout(length) {
                    Ok(value) => {
                        assert_eq!(value.unwrap(), round);
                        counts.0.fetch_add(1, Relaxed);
                    }
                    Err(worker) => {
                        assert_eq!(worker.join().unwrap(), round);
                        counts.1.fetch_add(1, Relaxed);
                    }
                }
            }
        });
        assert_eq!(in_time.load(Relaxed) + late.load(Relaxed), 300);
    });
}

/// A scoped worker's descriptor is used again at once by workers that poll for its end.
#[test]
fn who_sees_the_end_may_use_the_descriptor_again() {
    over("reuse", |runtime, kind| {
        kind.run(runtime, move || {
            for _ in 0..2000 {
                umcg::scope(|scope| {
                    let (first, second) = (kind.spawn_in(scope, || 1), kind.spawn_in(scope, || 2));
                    while !first.is_finished() {
                        umcg::yield_now();
                    }
                    let mut sum = first.join().unwrap();
                    sum += umcg::scope(|inner| kind.spawn_in(inner, || 3).join().unwrap());
                    sum += kind.spawn(|| 4).join().unwrap();
                    assert_eq!(sum + second.join().unwrap(), 10);
                });
            }
        });
    });
}

/// Waits for the end of the worker that this is the handle of.
type Waits = fn(JoinHandle<()>);

/// The effect in the worker itself: it is told, also beside later events.
const OWN_END: [Waits; 7] = [
    |me| drop(me.join()),
    |me| umcg::blocking(|| drop(me.join())),
    |me| {
        drop(
            me.join_timeout(Duration::from_micros(10))
                .unwrap_err()
                .join(),
        )
    },
    |mut me| {
        umcg::select! {
            () = me.ending() => {}
        }
    },
    |mut me| {
        umcg::select! {
            () = me.ending() => {}
            () = after(HOUR) => {}
        }
    },
    |mut me| {
        Set::new([me.ending()]).wait();
    },
    |mut me| {
        umcg::blocking(|| Select::new().try_wait(&mut [me.ending()]));
    },
];

/// A worker that would wait for its own end is told so.
#[test]
fn nobody_waits_for_ones_own_end() {
    over("its own end", |runtime, kind| {
        for (how, waits) in OWN_END.into_iter().enumerate() {
            for name in ["", "hamlet"] {
                let own = Arc::new(Mutex::new(None::<JoinHandle<()>>));
                let (said, told) = std::sync::mpsc::channel();
                let mine = own.clone();
                let worker = kind.build_on(runtime, &Builder::new().name(name), move || {
                    eventually("it has its own handle", || mine.lock().unwrap().is_some());
                    let me = mine.lock().unwrap().take().unwrap();
                    let refused = catch_unwind(AssertUnwindSafe(|| waits(me))).unwrap_err();
                    said.send(refused.downcast_ref::<String>().unwrap().clone())
                        .unwrap();
                });
                *own.lock().unwrap() = Some(worker.unwrap());
                let told = told.recv().unwrap();
                let is_named = told.contains(if name.is_empty() {
                    "(no name)"
                } else {
                    "`hamlet`"
                });
                assert!(
                    is_named && told.ends_with(" waits for its own end"),
                    "{how}: {told}"
                );
                eventually("it ends", || runtime.workers() == 0);
            }
        }
    });
}

/// The message of a panic is in the error of `join`.
#[test]
fn errors_of_joins_have_messages() {
    over("messages", |runtime, kind| {
        let error = kind
            .spawn_on(runtime, || panic!("expected: {}", 5))
            .join()
            .unwrap_err();
        assert_eq!(error.to_string(), "the worker panicked: expected: 5");
        assert_eq!(error.message(), Some("expected: 5"));
        let error = kind
            .spawn_on(runtime, || std::panic::panic_any(7))
            .join()
            .unwrap_err();
        assert_eq!(
            (error.to_string(), error.message()),
            ("the worker panicked".to_owned(), None)
        );
    });
}
