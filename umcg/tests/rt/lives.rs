//! The values that workers are given, and the values that they leave.

use crate::support::{Counted, Kind, counter, eventually, over, over_servers};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg::{Builder, JoinError};

#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(align(256))]
struct Aligned(u8);

#[repr(align(64))]
struct Nothing;

fn is_aligned<T>(value: &T) -> bool {
    std::hint::black_box(value as *const T).is_aligned()
}

#[test]
fn values_of_all_sizes_come_back() {
    over("values", |runtime, kind| {
        kind.run(runtime, move || {
            assert_eq!(kind.spawn(|| 42).join().unwrap(), 42);
            kind.spawn(|| ()).join().unwrap();
            assert!(is_aligned(&kind.spawn(|| Nothing).join().unwrap()));
            let aligned = kind.spawn(|| Aligned(7)).join().unwrap();
            assert!(aligned == Aligned(7) && is_aligned(&aligned));
            let many = kind.spawn(|| [Aligned(1); 40]).join().unwrap();
            assert!(many == [Aligned(1); 40] && is_aligned(&many));
            for step in 0..20 {
                assert_eq!(kind.spawn(move || [step; 63]).join().unwrap(), [step; 63]);
                assert_eq!(kind.spawn(move || [step; 64]).join().unwrap(), [step; 64]);
                assert_eq!(kind.spawn(move || [step; 65]).join().unwrap(), [step; 65]);
                assert_eq!(
                    kind.spawn(move || [step; 1000]).join().unwrap(),
                    [step; 1000]
                );
            }
            assert_eq!(kind.spawn(|| "words".to_owned()).join().unwrap(), "words");
            assert_eq!(
                kind.spawn(|| Some(Box::new(3))).join().unwrap(),
                Some(Box::new(3))
            );
        });
    });
}

#[test]
fn closures_of_all_sizes_arrive() {
    over("closures", |runtime, kind| {
        kind.run(runtime, move || {
            let (small, large, huge) = ([1u64; 8], [2u64; 65], [3u64; 600]);
            assert_eq!(
                kind.spawn(move || small.iter().sum::<u64>())
                    .join()
                    .unwrap(),
                8
            );
            assert_eq!(
                kind.spawn(move || large.iter().sum::<u64>())
                    .join()
                    .unwrap(),
                130
            );
            assert_eq!(
                kind.spawn(move || huge.iter().sum::<u64>()).join().unwrap(),
                1800
            );
            assert_eq!(
                kind.spawn(move || (large, huge)).join().unwrap(),
                (large, huge)
            );
            let aligned = [Aligned(9); 3];
            let right = move || is_aligned(&aligned) && aligned[2] == Aligned(9);
            assert!(kind.spawn(right).join().unwrap());
        });
    });
}

#[test]
fn a_panic_is_its_workers_alone() {
    over("panics", |runtime, kind| {
        kind.run(runtime, move || {
            let others: Vec<_> = (0..50)
                .map(|n| kind.spawn(move || (umcg::yield_now(), n).1))
                .collect();
            let text = kind.spawn(|| -> u8 { panic!("expected: {}", std::hint::black_box(5)) });
            let word = kind.spawn(|| std::panic::panic_any(17u64));
            let Err(JoinError::Panicked(payload)) = text.join() else {
                panic!("no panic")
            };
            assert_eq!(payload.downcast_ref::<String>().unwrap(), "expected: 5");
            let Err(JoinError::Panicked(payload)) = word.join() else {
                panic!("no panic")
            };
            assert_eq!(*payload.downcast::<u64>().unwrap(), 17);
            assert!(!std::thread::panicking());
            for (n, other) in others.into_iter().enumerate() {
                assert_eq!(other.join().unwrap(), n);
            }
        });
    });
}

#[test]
fn a_panic_drops_what_the_worker_had() {
    over("panic drops", |runtime, kind| {
        let drops = counter();
        let (captured, local) = (Counted(drops.clone()), Counted(drops.clone()));
        let body = move || {
            let _local = local;
            umcg::yield_now();
            let _captured = &captured;
            panic!("expected");
        };
        assert!(matches!(
            kind.spawn_on(runtime, body).join(),
            Err(JoinError::Panicked(_))
        ));
        assert_eq!(drops.load(Relaxed), 2);
    });
}

/// Panics when it is dropped.
struct Bomb(Arc<AtomicUsize>);

impl Drop for Bomb {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
        if !std::thread::panicking() {
            panic!("expected: bomb");
        }
    }
}

/// Where the worker has ended already, the joining side drops its result.
fn detach<R>(worker: umcg::JoinHandle<R>) {
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(worker)));
}

#[test]
fn a_result_whose_destructor_panics() {
    over("bombs", |runtime, kind| {
        let drops = counter();
        for _ in 0..20 {
            let bomb = Bomb(drops.clone());
            // the worker drops it
            detach(kind.spawn_on(runtime, move || (umcg::yield_now(), bomb).1));
        }
        eventually("detached results are dropped", || drops.load(Relaxed) == 20);
        for _ in 0..20 {
            let bomb = Bomb(drops.clone());
            let worker = kind.spawn_on(runtime, move || bomb);
            eventually("it ends", || worker.is_finished());
            // its end has come: we drop it
            let drop_it = std::panic::AssertUnwindSafe(|| drop(worker));
            assert!(std::panic::catch_unwind(drop_it).is_err());
        }
        assert_eq!(drops.load(Relaxed), 40);
        assert!(
            !runtime.dump().contains("not joined"),
            "their stacks are free again"
        );
        assert_eq!(kind.run(runtime, || 5), 5);
    });
}

/// The payload of a panic may be such a thing as well.
#[test]
fn a_payload_whose_destructor_panics() {
    over("bombs as payloads", |runtime, kind| {
        let drops = counter();
        for _ in 0..20 {
            let bomb = Bomb(drops.clone());
            detach(kind.spawn_on(runtime, move || -> () {
                std::panic::resume_unwind(Box::new(bomb))
            }));
        }
        eventually("payloads are dropped", || drops.load(Relaxed) == 20);
    });
}

#[test]
fn detached_workers_run_on_and_drop_what_they_return() {
    over("detached", |runtime, kind| {
        let (ran, drops) = (counter(), counter());
        let counts = (ran.clone(), drops.clone());
        kind.run(runtime, move || {
            for round in 0..300 {
                let (ran, result) = (counts.0.clone(), Counted(counts.1.clone()));
                let body = move || {
                    (0..round % 3).for_each(|_| umcg::yield_now());
                    ran.fetch_add(1, Relaxed);
                    (result, [0u64; 4])
                };
                let worker = kind.spawn(body);
                (0..round % 5).for_each(|_| umcg::yield_now());
                drop(worker);
            }
        });
        eventually("all results are dropped", || drops.load(Relaxed) == 300);
        assert_eq!(ran.load(Relaxed), 300);
    });
}

/// The handle goes at just about the moment of the end.
#[test]
fn detaching_races_with_the_end() {
    over("detach race", |runtime, kind| {
        let drops = counter();
        for round in 0..2000 {
            let (small, large) = (Counted(drops.clone()), Counted(drops.clone()));
            let first = kind.spawn_on(runtime, move || small);
            let second = kind.spawn_on(runtime, move || ([0u64; 100], large));
            (0..round % 300).for_each(|_| std::hint::spin_loop());
            drop((first, second));
        }
        eventually("each result is dropped", || drops.load(Relaxed) >= 4000);
        eventually("all have ended", || runtime.workers() == 0);
        assert_eq!(drops.load(Relaxed), 4000);
    });
}

/// A destructor of a detached worker's result may do everything that workers do.
#[test]
fn a_detached_result_may_wait_in_its_destructor() {
    struct Waits(Arc<AtomicUsize>);
    impl Drop for Waits {
        fn drop(&mut self) {
            umcg::yield_now();
            umcg::sleep(std::time::Duration::from_micros(100));
            let child = umcg::spawn(|| 3);
            self.0.fetch_add(child.join().unwrap(), Relaxed);
        }
    }
    over("waiting destructors", |runtime, kind| {
        let sum = counter();
        for _ in 0..50 {
            let waits = Waits(sum.clone());
            drop(kind.spawn_on(runtime, move || (umcg::yield_now(), waits).1));
        }
        eventually("all have", || sum.load(Relaxed) == 150);
    });
}

#[test]
fn handles_dropped_after_the_end_drop_the_result_once() {
    over("late drop", |runtime, kind| {
        let drops = counter();
        let workers: Vec<_> = (0..100)
            .map(|_| {
                let result = Counted(drops.clone());
                kind.spawn_on(runtime, move || result)
            })
            .collect();
        eventually("all have ended", || {
            workers.iter().all(|worker| worker.is_finished())
        });
        assert_eq!(drops.load(Relaxed), 0);
        drop(workers);
        assert_eq!(drops.load(Relaxed), 100);
    });
}

/// A closure's captures are dropped before the join returns, and after those of its body.
#[test]
fn drop_order_is_that_of_a_function() {
    struct Says(&'static str, Arc<std::sync::Mutex<Vec<&'static str>>>);
    impl Drop for Says {
        fn drop(&mut self) {
            self.1.lock().unwrap().push(self.0);
        }
    }
    over("drop order", |runtime, kind| {
        let said = Arc::new(std::sync::Mutex::new(Vec::new()));
        let captured = Says("captured", said.clone());
        let inner = said.clone();
        let body = move || {
            let _captured = &captured;
            let _first = Says("first", inner.clone());
            let _second = Says("second", inner.clone());
            Says("result", inner.clone())
        };
        let result = kind.spawn_on(runtime, body).join().unwrap();
        assert_eq!(*said.lock().unwrap(), ["second", "first", "captured"]);
        drop(result);
        assert_eq!(said.lock().unwrap().len(), 4);
    });
}

#[test]
fn a_deep_recursion_fits_a_large_stack() {
    fn deep(n: u64) -> u64 {
        let frame = std::hint::black_box([n; 64]);
        if n == 0 {
            frame[1]
        } else {
            deep(n - 1) + frame[63] - (n - 1)
        }
    }
    over("deep", |runtime, kind| {
        let builder = Builder::new().stack_size(1 << 20).name("deep");
        let worker = kind.build_on(runtime, &builder, || deep(600)).unwrap();
        assert_eq!(worker.join().unwrap(), 600);
        let impossible = Builder::new().stack_size(usize::MAX);
        assert!(kind.build_on(runtime, &impossible, || ()).is_err());
        assert_eq!(runtime.workers(), 0);
    });
}

/// A tree of workers, each of which joins its children: the sum is exact.
#[test]
fn trees() {
    fn tree(kind: Kind, depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let left = kind.spawn(move || tree(kind, depth - 1));
        let right = kind.spawn(move || tree(kind, depth - 1));
        left.join().unwrap() + right.join().unwrap()
    }
    over("trees", |runtime, kind| {
        assert_eq!(kind.run(runtime, move || tree(kind, 10)), 1024)
    });
}

#[test]
fn many_at_once() {
    over_servers("many", |runtime| {
        let workers: Vec<_> = (0..3000u64)
            .map(|n| {
                let kind = if n % 2 == 0 { Kind::Full } else { Kind::Light };
                kind.spawn_on(runtime, move || (umcg::yield_now(), n).1)
            })
            .collect();
        assert_eq!(
            workers
                .into_iter()
                .map(|worker| worker.join().unwrap())
                .sum::<u64>(),
            2999 * 1500
        );
    });
}
