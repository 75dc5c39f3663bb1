//! The order in which schedulers have workers run, and one written here.

use crate::support::{Kind, counter, eventually, flag, over, server_counts, with};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::rt::scheduler::{EarliestDeadline, Fifo, Priority, Weighted, WorkStealing};
use umcg::rt::{Here, Runnable, Scheduler, Wake, Why};
use umcg::{Builder, Runtime};

/// The order in which workers made in this order by a worker of one server run.
fn order<'a>(
    kind: Kind,
    runtime: &Runtime,
    builders: impl Fn(usize) -> Option<Builder<'a>> + Send + 'static,
) -> Vec<usize> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let theirs = log.clone();
    kind.run(runtime, move || {
        let workers: Vec<_> = (0..)
            .map_while(|n| {
                let log = theirs.clone();
                Some(
                    kind.build(&builders(n)?, move || log.lock().unwrap().push(n))
                        .unwrap(),
                )
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
    Arc::try_unwrap(log).unwrap().into_inner().unwrap()
}

#[test]
fn priority() {
    const PRIORITIES: [u8; 9] = [3, 200, 128, 0, 255, 128, 7, 64, 200];
    for kind in [Kind::Full, Kind::Light] {
        with(
            "priority",
            1,
            Runtime::builder().scheduler(Priority::new()),
            |runtime| {
                let order = order(kind, runtime, |n| {
                    Some(Builder::new().priority(*PRIORITIES.get(n)?))
                });
                assert_eq!(order, [4, 1, 8, 2, 5, 7, 6, 0, 3]);
            },
        );
    }
}

/// Also among those that are bound to the server, and between these and the others; of equals these
/// and those take turns.
#[test]
fn priority_of_bound_ones() {
    const PRIORITIES: [(u8, bool); 8] = [
        (3, true),
        (200, false),
        (128, true),
        (255, false),
        (128, false),
        (7, true),
        (64, false),
        (200, true),
    ];
    with(
        "bound priority",
        1,
        Runtime::builder().scheduler(Priority::new()),
        |runtime| {
            let order = order(Kind::Full, runtime, |n| {
                let (priority, is_bound) = *PRIORITIES.get(n)?;
                let builder = Builder::new().priority(priority);
                Some(if is_bound { builder.server(0) } else { builder })
            });
            assert_eq!(order, [3, 7, 1, 4, 2, 6, 5, 0]);
        },
    );
}

/// The less urgent does not run while the more urgent one only yields.
#[test]
fn priority_is_strict() {
    with(
        "strict priority",
        1,
        Runtime::builder().scheduler(Priority::new()),
        |runtime| {
            let began = counter();
            let count = began.clone();
            let builder = Builder::new().priority(200);
            let urgent = runtime.build(&builder, move || {
                let seen = count.clone();
                let low = Builder::new()
                    .priority(100)
                    .spawn(move || seen.fetch_add(1, Relaxed))
                    .unwrap();
                let equal = Builder::new().priority(200).spawn(|| ()).unwrap();
                for _ in 0..1000 {
                    umcg::yield_now();
                }
                let ran = count.load(Relaxed);
                assert!(equal.is_finished(), "its equals do");
                low.join().unwrap();
                ran
            });
            assert_eq!(urgent.unwrap().join().unwrap(), 0);
            assert_eq!(began.load(Relaxed), 1);
        },
    );
}

#[test]
fn earliest_deadline() {
    const SECONDS: [u64; 8] = [50, 10, 0, 30, 20, 0, 40, 10];
    for kind in [Kind::Full, Kind::Light] {
        with(
            "earliest deadline",
            1,
            Runtime::builder().scheduler(EarliestDeadline::new()),
            |runtime| {
                let start = Instant::now();
                let order = order(kind, runtime, move |n| {
                    let builder = Builder::new();
                    Some(match *SECONDS.get(n)? {
                        0 => builder,
                        seconds => builder.deadline(start + Duration::from_secs(seconds)),
                    })
                });
                assert_eq!(order, [1, 7, 4, 3, 6, 0, 2, 5]);
            },
        );
    }
}

#[test]
fn fifo() {
    for kind in [Kind::Full, Kind::Light] {
        with(
            "fifo",
            1,
            Runtime::builder().scheduler(Fifo::new()),
            |runtime| {
                let order = order(kind, runtime, |n| (n < 50).then(Builder::new));
                assert!(order.is_sorted() && order.len() == 50, "{order:?}");
            },
        );
    }
}

/// Turns that two classes get of 8000, with weights 1 and 3, and this many workers each.
fn shares(kind: Kind, runtime: &Runtime, workers: usize) -> [usize; 2] {
    let turns = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
    let counts = turns.clone();
    let starts = flag();
    let gate = starts.clone();
    let all: Vec<_> = (0..2 * workers)
        .map(|n| {
            let (turns, starts) = (turns.clone(), starts.clone());
            let builder = Builder::new().priority((n % 2) as u8);
            let body = move || {
                while !starts.load(Relaxed) {
                    umcg::yield_now();
                }
                while turns[0].load(Relaxed) + turns[1].load(Relaxed) < 8000 {
                    turns[n % 2].fetch_add(1, Relaxed);
                    umcg::yield_now();
                }
            };
            kind.build_on(runtime, &builder, body).unwrap()
        })
        .collect();
    gate.store(true, Relaxed);
    all.into_iter().for_each(|worker| worker.join().unwrap());
    [counts[0].load(Relaxed), counts[1].load(Relaxed)]
}

#[test]
fn weighted() {
    for (kind, workers) in [(Kind::Full, 4), (Kind::Light, 4), (Kind::Light, 2)] {
        with(
            "weighted",
            1,
            Runtime::builder().scheduler(Weighted::new(&[1, 3])),
            |runtime| {
                let [one, three] = shares(kind, runtime, workers);
                assert!(
                    (1800..=2200).contains(&one),
                    "{one}, {three} with {workers} workers in a class"
                );
            },
        );
    }
}

/// One worker in a class gets its class's share, though the queue is empty while it runs.
#[test]
fn weighted_with_one_worker_a_class() {
    with(
        "weighted alone",
        1,
        Runtime::builder().scheduler(Weighted::new(&[1, 3])),
        |runtime| {
            let [one, three] = shares(Kind::Light, runtime, 1);
            assert!((1800..=2200).contains(&one), "{one}, {three}");
        },
    );
}

fn kernel_tid() -> i32 {
    rustix::thread::gettid().as_raw_nonzero().get()
}

#[test]
fn affinity() {
    for servers in server_counts() {
        for scheduler in 0..5 {
            let builder = Runtime::builder();
            let builder = match scheduler {
                0 => builder.scheduler(WorkStealing::new()),
                1 => builder.scheduler(Fifo::new()),
                2 => builder.scheduler(Priority::new()),
                3 => builder.scheduler(EarliestDeadline::new()),
                _ => builder.scheduler(Weighted::new(&[1, 2])),
            };
            with("affinity", servers, builder, bound_ones_stay);
        }
    }
}

fn bound_ones_stay(runtime: &Runtime) {
    let servers = runtime.servers();
    let workers: Vec<_> = (0..6 * servers)
        .map(|n| {
            let kind = if n < 3 * servers {
                Kind::Full
            } else {
                Kind::Light
            };
            let builder = Builder::new().server(n % servers);
            let body = move || {
                let mut tids = HashSet::new();
                for step in 0..10 {
                    tids.insert(kernel_tid());
                    match step % 4 {
                        0 => umcg::yield_now(),
                        1 => umcg::sleep(Duration::from_micros(100)),
                        2 => umcg::blocking(|| std::thread::sleep(Duration::from_micros(10))),
                        _ => umcg::spawn(|| ()).join().unwrap(),
                    }
                }
                tids
            };
            kind.build_on(runtime, &builder, body).unwrap()
        })
        .collect();
    let mut all = HashSet::new();
    for (n, worker) in workers.into_iter().enumerate() {
        let tids = worker.join().unwrap();
        assert_eq!(tids.len(), 1, "worker {n} of {servers} servers moved");
        all.extend(tids);
    }
    assert_eq!(all.len(), servers);
    // A server number that does not exist is no server in particular.
    let builder = Builder::new().server(servers + 5);
    assert_eq!(runtime.build(&builder, || 4).unwrap().join().unwrap(), 4);
}

/// Last in, first out, and counts its calls.
#[derive(Default)]
struct Stack {
    ready: Mutex<Vec<Runnable>>,
    told: Arc<[AtomicUsize; 5]>,
    servers: usize,
}

impl Scheduler for Stack {
    fn start(&mut self, servers: usize) {
        self.servers = servers;
    }

    fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake {
        assert!(here.is_none_or(|here| here.index() < self.servers));
        self.told[why as usize].fetch_add(1, Relaxed);
        let mut ready = self.ready.lock().unwrap();
        match why {
            // A worker that yields comes last.
            Why::Yielded => ready.insert(0, worker),
            _ => ready.push(worker),
        }
        Wake::One
    }

    fn next(&self, _here: &Here) -> Option<Runnable> {
        self.ready.lock().unwrap().pop()
    }

    fn has_work(&self, _here: &Here) -> bool {
        !self.ready.lock().unwrap().is_empty()
    }
}

#[test]
fn one_of_a_programs_own() {
    for servers in server_counts() {
        for kind in [Kind::Full, Kind::Light] {
            let stack = Stack::default();
            let told = stack.told.clone();
            with(
                "a stack",
                servers,
                Runtime::builder().scheduler(stack),
                |runtime| {
                    if servers == 1 {
                        let order = order(kind, runtime, |n| (n < 20).then(Builder::new));
                        assert!(
                            order.iter().rev().is_sorted() && order.len() == 20,
                            "{order:?}"
                        );
                    }
                    let workers: Vec<_> = (0..50)
                        .map(|n| {
                            kind.spawn_on(runtime, move || {
                                umcg::yield_now();
                                umcg::sleep(Duration::from_micros(100));
                                umcg::blocking(|| ());
                                umcg::scope(|scope| kind.spawn_in(scope, || n).join().unwrap())
                            })
                        })
                        .collect();
                    assert_eq!(
                        workers
                            .into_iter()
                            .map(|worker| worker.join().unwrap())
                            .sum::<i32>(),
                        49 * 25
                    );
                },
            );
            let told = |why: Why| told[why as usize].load(Relaxed);
            assert!(
                told(Why::Spawned) >= 100 && told(Why::Unblocked) == 50 && told(Why::Woken) >= 50
            );
        }
    }
}

/// All of the schedulers get through a mixture.
#[test]
fn all_of_them_run_everything() {
    over("mixture", |first, kind| {
        let servers = first.servers();
        let builders = [
            Runtime::builder().scheduler(Fifo::new()),
            Runtime::builder().scheduler(Priority::new()),
            Runtime::builder().scheduler(EarliestDeadline::new()),
            Runtime::builder().scheduler(Weighted::new(&[1, 2, 3])),
        ];
        for builder in builders {
            with("mixture of one", servers, builder, |runtime| {
                let count = counter();
                for n in 0..100u64 {
                    let count = count.clone();
                    let deadline = Instant::now() + Duration::from_millis(n % 10);
                    let builder = Builder::new()
                        .priority((n * 37 % 256) as u8)
                        .deadline(deadline);
                    let body = move || {
                        umcg::yield_now();
                        umcg::sleep(Duration::from_micros(n));
                        let child = kind.spawn(move || (umcg::yield_now(), 1).1);
                        count.fetch_add(child.join().unwrap(), Relaxed);
                    };
                    drop(kind.build_on(runtime, &builder, body).unwrap());
                }
                eventually("all have run", || count.load(Relaxed) == 100);
            });
        }
    });
}
