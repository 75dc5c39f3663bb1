//! Runtimes: their beginnings, their ends, and several of them.

use crate::support::{
    Counted, HOUR, Kind, counter, eventually, flag, over, over_servers, server_counts, threads,
    with,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::rt::{DriverKind, Here, Runnable, Scheduler, Wake, Why, scheduler::Fifo};
use umcg::{Builder, Handle, JoinError, Runtime, SpawnError};

#[test]
fn run_returns_what_its_function_does() {
    over_servers("run", |runtime| {
        let words = ["borrowed".to_owned()];
        assert_eq!(runtime.run(|| words[0].len()), 8);
        let panic = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| -> u8 { std::panic::panic_any(3u8) })
        }));
        assert_eq!(*panic.unwrap_err().downcast::<u8>().unwrap(), 3);
        assert_eq!(runtime.run(|| runtime.workers()), 1);
        let from_many: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| scope.spawn(move || runtime.run(move || (umcg::yield_now(), n).1)))
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert_eq!(from_many, [0, 1, 2, 3, 4, 5, 6, 7]);
    });
}

#[test]
fn settings_are_what_was_said() {
    for (servers, pin) in server_counts()
        .into_iter()
        .flat_map(|servers| [(servers, false), (servers, true)])
    {
        let builder = Runtime::builder()
            .pin(pin)
            .stack_size(32 << 10)
            .driver(DriverKind::Epoll);
        with("settings", servers, builder, |runtime| {
            assert_eq!(
                (runtime.servers(), runtime.driver()),
                (servers, DriverKind::Epoll)
            );
            assert_eq!(runtime.run(|| 3), 3);
        });
    }
    let too_many = || Runtime::builder().servers(5000).build();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    assert!(catch_unwind(too_many).is_err());
    std::panic::set_hook(hook);
    assert!(Runtime::builder().stack_size(usize::MAX).build().is_err());
}

#[test]
fn names_of_threads() {
    let runtime = Runtime::builder()
        .servers(2)
        .name("hamlet")
        .build()
        .unwrap();
    eventually("two servers and the watch have names", || {
        threads("hamlet-").len() == 3
    });
    runtime.shutdown();
    eventually("they end", || threads("hamlet-").is_empty());
    let refused = Runtime::builder().name("yorick\0").build().unwrap_err();
    assert_eq!(refused, umcg::Error::Name);
    assert_eq!(
        std::io::Error::from(refused).kind(),
        std::io::ErrorKind::InvalidInput
    );
    assert!(threads("yorick").is_empty());
}

/// Dropping one waits for all of its workers, also for those that they still make.
#[test]
fn drop_waits_for_all() {
    for servers in server_counts() {
        for kind in [Kind::Full, Kind::Light] {
            let runtime = Runtime::builder().servers(servers).build().unwrap();
            let (ended, drops) = (counter(), counter());
            for n in 0..50 {
                let (ended, owned) = (ended.clone(), Counted(drops.clone()));
                drop(kind.spawn_on(&runtime, move || {
                    umcg::sleep(Duration::from_micros(100 * n));
                    let count = ended.clone();
                    drop(kind.spawn(move || {
                        umcg::blocking(|| std::thread::sleep(Duration::from_micros(10)));
                        count.fetch_add(1, Relaxed);
                    }));
                    umcg::yield_now();
                    ended.fetch_add(1, Relaxed);
                    owned
                }));
            }
            drop(runtime);
            assert_eq!((ended.load(Relaxed), drops.load(Relaxed)), (100, 50));
        }
    }
}

/// Two servers whose last workers end at once, again and again.
#[test]
fn ends_that_come_together() {
    use umcg::rt::scheduler::Fifo;
    for round in 0..300u64 {
        let runtime = Runtime::builder()
            .servers(2)
            .scheduler(Fifo::new())
            .build()
            .unwrap();
        let gate = flag();
        for _ in 0..2 {
            let gate = gate.clone();
            drop(runtime.spawn(move || {
                while !gate.load(Relaxed) {
                    std::hint::spin_loop();
                }
                (0..round % 50).for_each(|_| std::hint::spin_loop());
            }));
        }
        gate.store(true, Relaxed);
        drop(runtime);
    }
}

#[test]
fn shutdown_in_time() {
    for servers in server_counts() {
        // Often: nothing may be used up by that.
        for round in 0..20 {
            let runtime = Runtime::builder().servers(servers).build().unwrap();
            let ended = counter();
            for _ in 0..round {
                let ended = ended.clone();
                drop(runtime.spawn(move || {
                    umcg::sleep(Duration::from_millis(1));
                    ended.fetch_add(1, Relaxed);
                }));
            }
            match round % 2 {
                0 => runtime.shutdown(),
                _ => runtime.shutdown_timeout(HOUR).unwrap(),
            }
            assert_eq!(ended.load(Relaxed), round);
        }
    }
}

#[test]
fn shutdown_gives_up() {
    for servers in server_counts() {
        let runtime = Runtime::builder()
            .servers(servers)
            .name("left")
            .build()
            .unwrap();
        let drops = counter();
        let workers: Vec<_> = (0..20)
            .map(|n| {
                let kind = if n % 2 == 0 { Kind::Full } else { Kind::Light };
                let owned = Counted(drops.clone());
                kind.spawn_on(&runtime, move || {
                    let _owned = owned;
                    match n % 3 {
                        0 => umcg::sleep(HOUR),
                        1 => loop {
                            umcg::park();
                        },
                        _ => loop {
                            umcg::yield_now();
                        },
                    }
                })
            })
            .collect();
        let start = Instant::now();
        assert_eq!(runtime.shutdown_timeout(Duration::from_millis(30)), Err(20));
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert_eq!(drops.load(Relaxed), 0);
        eventually("the servers end", || threads("left-").is_empty());
        // The process goes on; the workers that are left do no harm, whatever is done to them.
        workers.iter().for_each(|worker| {
            assert!(worker.is_finished());
            worker.handle().unpark();
            worker.abort();
        });
        for (n, worker) in workers.into_iter().enumerate() {
            if n % 2 == 0 {
                assert!(matches!(worker.join(), Err(JoinError::Abandoned)));
            }
        }
        let another = Runtime::builder().servers(servers).build().unwrap();
        assert_eq!(another.run(|| umcg::spawn(|| 6).join().unwrap()), 6);
    }
}

/// A worker that computes does not hold up `shutdown_timeout`. Its waiters are told, and it does no
/// harm later.
#[test]
fn shutdown_gives_up_what_computes() {
    for servers in server_counts() {
        for kind in [Kind::Full, Kind::Light] {
            let runtime = Runtime::builder()
                .servers(servers)
                .name("busy")
                .build()
                .unwrap();
            let (begun, over) = (counter(), flag());
            let computes = || {
                let (begun, over) = (begun.clone(), over.clone());
                kind.spawn_on(&runtime, move || {
                    begun.fetch_add(1, Relaxed);
                    while !over.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                    7
                })
            };
            let [joined, selected, taken, dropped] = [(); 4].map(|()| computes());
            eventually("one computes", || begun.load(Relaxed) > 0);
            let waits = [
                std::thread::spawn(move || joined.join()),
                std::thread::spawn(move || {
                    let mut selected = selected;
                    umcg::select! {
                        () = selected.ending() => {}
                    }
                    selected.join()
                }),
            ];
            let start = Instant::now();
            assert_eq!(runtime.shutdown_timeout(Duration::from_millis(30)), Err(4));
            assert!(start.elapsed() < Duration::from_secs(30));
            for wait in waits {
                assert!(matches!(wait.join().unwrap(), Err(JoinError::Abandoned)));
            }
            over.store(true, Relaxed);
            eventually("the servers end", || threads("busy-").is_empty());
            // It may have ended by now: its handle returns its result, or that it was abandoned.
            assert!(matches!(taken.join(), Err(JoinError::Abandoned) | Ok(7)));
            drop(dropped);
        }
    }
}

/// The last owner of a runtime may be one of its workers: it ends by itself.
#[test]
fn one_that_its_own_worker_drops() {
    for servers in server_counts() {
        for how in 0..4 {
            let runtime = Arc::new(
                Runtime::builder()
                    .servers(servers)
                    .name("own")
                    .build()
                    .unwrap(),
            );
            let (mine, go, done) = (runtime.clone(), flag(), counter());
            let (gone, ends) = (go.clone(), done.clone());
            let worker = runtime.spawn(move || {
                eventually("the other one has gone", || gone.load(Relaxed));
                let mine = Arc::into_inner(mine).unwrap();
                let handle = mine.handle();
                let over = ends.clone();
                let other = umcg::spawn(move || {
                    if how == 3 {
                        eventually("nobody waits for it any more", || over.load(Relaxed) == 1);
                    } else {
                        umcg::sleep(Duration::from_millis(3));
                    }
                    4
                });
                match how {
                    0 => drop(mine),
                    1 => mine.shutdown(),
                    2 => umcg::blocking(|| drop(mine)),
                    _ => assert_eq!(mine.shutdown_timeout(HOUR), Err(2)),
                }
                ends.fetch_add(1, Relaxed);
                // It is closed to others, and not to its own.
                let outside =
                    std::thread::spawn(move || handle.build(&Builder::new(), || ()).unwrap_err());
                assert_eq!(
                    umcg::blocking(|| outside.join().unwrap()),
                    SpawnError::Closed
                );
                other.join().unwrap() + umcg::spawn(|| 5).join().unwrap()
            });
            drop(runtime);
            go.store(true, Relaxed);
            assert_eq!(worker.join().unwrap(), 9);
            assert_eq!(done.load(Relaxed), 1);
            eventually("its threads end", || threads("own-").is_empty());
        }
    }
}

/// Has a first in, first out scheduler, which calls this before it gives a worker out.
struct Asks<F>(Fifo, F);

impl<F: Fn() + Send + Sync + 'static> Scheduler for Asks<F> {
    fn start(&mut self, servers: usize) {
        self.0.start(servers);
    }

    fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake {
        self.0.ready(worker, why, here)
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        (self.1)();
        self.0.next(here)
    }

    fn has_work(&self, here: &Here) -> bool {
        self.0.has_work(here)
    }
}

/// Nor does one of its own threads wait for that, where the program's functions are called there.
#[test]
fn one_that_its_own_threads_drop() {
    for how in 0..9 {
        let (own, done) = (Arc::new(Mutex::new(None::<Runtime>)), counter());
        let (mine, ends) = (own.clone(), done.clone());
        let drop_it = move || {
            let Some(mine) = mine.lock().unwrap().take() else {
                return;
            };
            match how % 3 {
                0 => drop(mine),
                1 => mine.shutdown(),
                _ => assert!(mine.shutdown_timeout(HOUR).is_err()),
            }
            ends.fetch_add(1, Relaxed);
        };
        let builder = Runtime::builder().servers(1).name("own");
        let builder = match how / 3 {
            0 => builder.on_stall(Duration::from_millis(20), move |_| drop_it()),
            1 => builder.on_deadlock(move |_| drop_it()),
            _ => builder.scheduler(Asks(Fifo::new(), drop_it)),
        };
        let runtime = builder.build().unwrap();
        let go = flag();
        let workers = [how < 3, false].map(|computes| {
            let (go, done) = (go.clone(), done.clone());
            runtime.spawn(move || {
                eventually("it may be dropped", || go.load(Relaxed));
                while done.load(Relaxed) == 0 {
                    if computes {
                        std::hint::spin_loop()
                    } else {
                        umcg::park()
                    }
                }
            })
        });
        *own.lock().unwrap() = Some(runtime);
        go.store(true, Relaxed);
        eventually("it is dropped", || done.load(Relaxed) == 1);
        for worker in workers {
            worker.handle().unpark();
            worker.join().unwrap();
        }
        eventually("its threads end", || threads("own-").is_empty());
    }
}

/// In a worker the start and the end of another runtime stop that worker, and not its server.
#[test]
fn neighbours_run_while_another_one_begins_and_ends() {
    with("outer", 1, Runtime::builder(), |outer| {
        let (over, turns) = (flag(), counter());
        let (seen, counts) = (over.clone(), turns.clone());
        let neighbour = outer.spawn(move || {
            while !seen.load(Relaxed) {
                counts.fetch_add(1, Relaxed);
                umcg::sleep(Duration::from_micros(200));
            }
        });
        for in_time in [false, true] {
            let turns = turns.clone();
            outer.run(move || {
                let inner = Runtime::builder().servers(2).build().unwrap();
                let go = flag();
                let gone = go.clone();
                drop(
                    inner.spawn(move || {
                        eventually("the neighbour had turns", || gone.load(Relaxed))
                    }),
                );
                let before = turns.load(Relaxed);
                let lets_go = umcg::spawn(move || {
                    eventually("the neighbour has turns", || {
                        turns.load(Relaxed) > before + 10
                    });
                    go.store(true, Relaxed);
                });
                if in_time {
                    inner.shutdown_timeout(HOUR).unwrap()
                } else {
                    drop(inner)
                }
                lets_go.join().unwrap();
            });
        }
        over.store(true, Relaxed);
        neighbour.join().unwrap();
    });
}

/// A handle is copied, outlives its runtime, and makes workers as long as that is open.
#[test]
fn handles_of_runtimes() {
    over_servers("handles", |runtime| {
        let handle = runtime.handle();
        let nested = handle.clone();
        assert_eq!(
            handle
                .spawn(move || nested.spawn(|| 3).join().unwrap())
                .join()
                .unwrap(),
            3
        );
        assert_eq!(
            (handle.servers(), handle.driver()),
            (runtime.servers(), runtime.driver())
        );
        assert!(handle.dump().contains("runtime `rt"));
    });
    let runtime = Runtime::builder().servers(1).build().unwrap();
    let handle = runtime.handle();
    drop(runtime);
    let others: Vec<_> = (0..3)
        .map(|_| Runtime::builder().servers(1).build().unwrap())
        .collect();
    assert_eq!(
        handle.build(&Builder::new(), || ()).unwrap_err(),
        SpawnError::Closed
    );
    assert_eq!(handle.workers(), 0);
    drop(others);
}

/// Once the end was asked for no more workers are made from outside; the present ones make their
/// own, in blocking scopes too.
#[test]
fn closed_to_those_outside() {
    for servers in server_counts() {
        let runtime = Arc::new(Runtime::builder().servers(servers).build().unwrap());
        let (closed, begun) = (flag(), flag());
        let (seen, beginning) = (closed.clone(), begun.clone());
        let worker = runtime.spawn(move || {
            let make = || {
                (0..10)
                    .map(|n| umcg::spawn(move || n).join().unwrap())
                    .sum::<u32>()
            };
            beginning.store(true, Relaxed);
            eventually("closed", || seen.load(Relaxed));
            let light = || {
                Kind::Light
                    .build(&Builder::new(), || 1)
                    .unwrap()
                    .join()
                    .unwrap()
            };
            let timed = || umcg::timeout(HOUR, || 2).unwrap();
            make() + umcg::blocking(|| make() + light() + timed()) + make()
        });
        eventually("it begins", || begun.load(Relaxed));
        let handle = runtime.handle();
        let dropping = std::thread::spawn(move || drop(runtime));
        let refused = || {
            matches!(
                handle.build(&Builder::new(), || ()),
                Err(SpawnError::Closed)
            )
        };
        eventually("closed to this thread", refused);
        closed.store(true, Relaxed);
        dropping.join().unwrap();
        assert_eq!(worker.join().unwrap(), 138);
        assert!(refused());
    }
}

#[test]
fn two_that_wake_each_other() {
    over("two runtimes", |first, kind| {
        with(
            "second of two",
            first.servers(),
            Runtime::builder(),
            |second| {
                let turn = counter();
                let handles = Arc::new([const { Mutex::new(None::<Handle>) }; 2]);
                let players: Vec<_> = [first, second]
                    .into_iter()
                    .enumerate()
                    .map(|(me, runtime)| {
                        let (turn, handles) = (turn.clone(), handles.clone());
                        kind.spawn_on(runtime, move || {
                            *handles[me].lock().unwrap() = Some(Handle::current());
                            for round in 0..500 {
                                while turn.load(Acquire) != 2 * round + me {
                                    umcg::park();
                                }
                                turn.fetch_add(1, Release);
                                let other = *handles[1 - me].lock().unwrap();
                                if let Some(other) = other {
                                    other.unpark();
                                }
                            }
                        })
                    })
                    .collect();
                players
                    .into_iter()
                    .for_each(|player| player.join().unwrap());
                // One waits for the other's.
                let worker =
                    kind.spawn_on(second, || (umcg::sleep(Duration::from_micros(100)), 5).1);
                assert_eq!(kind.run(first, || worker.join().unwrap()), 5);
                let worker = kind.spawn_on(second, || umcg::sleep(HOUR));
                assert!(kind.run(first, move || {
                    worker.abort();
                    worker.join().is_err()
                }));
            },
        );
    });
}

#[test]
fn one_inside_another() {
    over("nested runtimes", |runtime, kind| {
        let body = move || {
            let inner = Runtime::builder().servers(2).build().unwrap();
            let worker = kind.spawn_on(&inner, || {
                (
                    umcg::sleep(Duration::from_micros(200)),
                    umcg::spawn(|| 2).join().unwrap(),
                )
                    .1
            });
            let sum = inner.run(|| (umcg::yield_now(), 3).1) + worker.join().unwrap();
            inner.shutdown();
            sum
        };
        assert_eq!(kind.run(runtime, move || umcg::blocking(body)), 5);
        assert_eq!(kind.run(runtime, body), 5);
    });
}

#[test]
fn the_global_one() {
    let sum: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|n| scope.spawn(move || umcg::spawn(move || n).join().unwrap()))
            .collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .sum()
    });
    assert_eq!(sum, 28);
    assert!(std::ptr::eq(umcg::rt::global(), umcg::rt::global()));
    assert_eq!(
        umcg::rt::global().run(|| umcg::spawn(|| 3).join().unwrap()),
        3
    );
    // A worker's own is its runtime, not that.
    over("not global", |runtime, kind| {
        kind.run(runtime, move || {
            let before = umcg::rt::global().workers();
            let child = kind.spawn(|| umcg::sleep(Duration::from_millis(2)));
            assert!(umcg::rt::global().workers() <= before.max(1000));
            child.join().unwrap();
        });
    });
}

/// Runtimes come and go; so do handles to their workers.
#[test]
fn many_in_a_row() {
    let mut stale = Vec::new();
    for round in 0..60 {
        let runtime = Runtime::builder().servers(1 + round % 3).build().unwrap();
        let workers: Vec<_> = (0..10)
            .map(|n| runtime.spawn(move || (umcg::yield_now(), n).1))
            .collect();
        stale.extend(workers.iter().map(|worker| worker.handle()));
        let handles: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect();
        assert_eq!(handles.iter().sum::<i32>(), 45);
        stale.iter().for_each(|handle: &Handle| handle.unpark());
    }
}

/// The results of workers may be taken after their runtime has gone.
#[test]
fn results_outlive_their_runtime() {
    for kind in [Kind::Full, Kind::Light] {
        let runtime = Runtime::builder().servers(2).build().unwrap();
        let drops = counter();
        let make = |n: usize| {
            let owned = Counted(drops.clone());
            kind.spawn_on(&runtime, move || (n, owned, [n; 100]))
        };
        let mut workers: Vec<_> = (0..20).map(make).collect();
        drop(runtime);
        drop(workers.split_off(10));
        for (n, worker) in workers.into_iter().enumerate() {
            assert_eq!(worker.join().unwrap().0, n);
        }
        assert_eq!(drops.load(Relaxed), 20);
    }
}

/// A handle that outlives its runtime may be used in another one that lies where its own did in
/// memory. The worker is not taken for one of the other's: that one's
/// next worker comes back to it after it has blocked.
#[test]
fn a_worker_that_outlives_its_runtime_comes_to_no_other() {
    let build = |name| Runtime::builder().servers(1).name(name).build().unwrap();
    /// Where the caller runs.
    fn here() -> String {
        std::fs::read_to_string("/proc/thread-self/comm").unwrap()
    }
    for _ in 0..30 {
        let first = build("first");
        let stale = first.spawn(|| 1);
        eventually("it has ended", || stale.is_finished());
        drop(first);
        eventually("its threads end", || threads("first-").is_empty());
        // The memory for the second one is taken from elsewhere, so that the place of the first one
        // is left to the third.
        let taken: Vec<_> = (4..=64).map(|lines| vec![Lines([0; 128]); lines]).collect();
        let second = build("second");
        drop(taken);
        let third = build("third");
        let next = third.spawn(move || {
            assert_eq!(stale.join().unwrap(), 1);
            umcg::spawn(|| (here(), umcg::blocking(|| ()), here()))
                .join()
                .unwrap()
        });
        let Ok(places) = next.join_timeout(Duration::from_secs(100)) else {
            // Neither would end.
            std::mem::forget((second, third));
            panic!("it has not come back from blocking");
        };
        let (before, (), after) = places.unwrap();
        assert_eq!((&*before, &*after), ("third-0\n", "third-0\n"));
        for runtime in [second, third] {
            runtime
                .shutdown_timeout(Duration::from_secs(100))
                .expect("each counts its own");
        }
    }
}

/// As runtimes are aligned in memory.
#[derive(Clone)]
#[repr(align(128))]
struct Lines(#[allow(dead_code, reason = "it is there for its size")] [u8; 128]);

/// The workers are counted.
#[test]
fn workers_are_counted() {
    over("counts", |runtime, kind| {
        let gate = flag();
        let workers: Vec<_> = (0..30)
            .map(|_| {
                let gate = gate.clone();
                kind.spawn_on(runtime, move || {
                    while !gate.load(Relaxed) {
                        umcg::sleep(Duration::from_micros(200));
                    }
                })
            })
            .collect();
        assert_eq!(runtime.workers(), 30);
        gate.store(true, Relaxed);
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        eventually("none", || runtime.workers() == 0);
    });
}
