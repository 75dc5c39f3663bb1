//! No worker waits for ever for workers that wait for nothing.

use crate::support::{Kind, counter, eventually, flag, over, server_counts, with};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use umcg::sync::Semaphore;
use umcg::{Builder, Handle, JoinHandle, Runtime};

#[test]
fn yielders_all_progress() {
    over("yielders", |runtime, kind| {
        let over = flag();
        let counts: Vec<_> = (0..60).map(|_| counter()).collect();
        let workers: Vec<_> = counts
            .iter()
            .map(|count| {
                let (over, count) = (over.clone(), count.clone());
                kind.spawn_on(runtime, move || {
                    while !over.load(Relaxed) {
                        umcg::yield_now();
                        count.fetch_add(1, Relaxed);
                    }
                })
            })
            .collect();
        eventually("all have yielded", || {
            counts.iter().all(|count| count.load(Relaxed) > 200)
        });
        over.store(true, Relaxed);
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
    });
}

/// Two that unpark each other until they are ended: they live in the slot of a server.
fn ping_pong(
    runtime: &Runtime,
    kind: Kind,
    over: &Arc<AtomicBool>,
    handing_over: bool,
) -> [JoinHandle<()>; 2] {
    let handles = Arc::new([OnceLock::new(), OnceLock::new()]);
    [0, 1].map(|me| {
        let (handles, over) = (handles.clone(), over.clone());
        kind.spawn_on(runtime, move || {
            handles[me].set(Handle::current()).unwrap();
            let other = loop {
                match handles[1 - me].get() {
                    Some(other) => break *other,
                    None => umcg::yield_now(),
                }
            };
            while !over.load(Relaxed) {
                if handing_over {
                    umcg::hand_over(other);
                } else {
                    other.unpark();
                    umcg::park();
                }
            }
            other.unpark();
        })
    })
}

/// The turns that others get while this many pairs of that sort run.
fn others_get_on(runtime: &Runtime, kind: Kind, pairs: usize, handing_over: bool) {
    let over = flag();
    let busy: Vec<_> = (0..pairs)
        .flat_map(|_| ping_pong(runtime, kind, &over, handing_over))
        .collect();
    std::thread::sleep(Duration::from_millis(2));
    // One from outside; one that a worker makes; one that yields; one that sleeps; one that blocks.
    let progress = counter();
    let count = progress.clone();
    let other = kind.spawn_on(runtime, move || {
        kind.spawn(|| ()).join().unwrap();
        let children: Vec<_> = (0..40).map(|_| kind.spawn(umcg::yield_now)).collect();
        for _ in 0..100 {
            umcg::yield_now();
            count.fetch_add(1, Relaxed);
        }
        umcg::sleep(Duration::from_millis(1));
        umcg::blocking(|| ());
        umcg::park_timeout(Duration::from_millis(1));
        children.into_iter().for_each(|child| child.join().unwrap());
    });
    eventually("another gets on", || other.is_finished());
    other.join().unwrap();
    assert_eq!(progress.load(Relaxed), 100);
    over.store(true, Relaxed);
    busy.into_iter().for_each(|worker| {
        while !worker.is_finished() {
            worker.handle().unpark(); // the one that ended last may have had no reason to
            umcg::sleep(Duration::from_micros(100));
        }
        worker.join().unwrap();
    });
}

#[test]
fn the_slot_starves_nobody() {
    over("slot", |runtime, kind| {
        others_get_on(runtime, kind, 1, false);
        others_get_on(runtime, kind, runtime.servers(), false);
    });
}

#[test]
fn handing_over_starves_nobody() {
    over("hand over fairness", |runtime, kind| {
        others_get_on(runtime, kind, 1, true);
        others_get_on(runtime, kind, runtime.servers() + 1, true);
    });
}

/// Workers that make workers that make workers: the oldest gets its turn.
#[test]
fn spawning_starves_nobody() {
    fn chain(kind: Kind, over: Arc<AtomicBool>, alive: Arc<AtomicUsize>) {
        if !over.load(Relaxed) {
            alive.fetch_add(1, Relaxed);
            let (next, count) = (over, alive.clone());
            drop(kind.spawn(move || chain(kind, next, count)));
            alive.fetch_sub(1, Relaxed);
        }
    }
    over("spawn fairness", |runtime, kind| {
        let (over, alive) = (flag(), counter());
        for _ in 0..2 * runtime.servers() {
            let (over, alive) = (over.clone(), alive.clone());
            drop(kind.spawn_on(runtime, move || chain(kind, over, alive)));
        }
        let other = kind.spawn_on(runtime, move || {
            let child = kind.spawn(|| 5);
            (0..100).for_each(|_| umcg::yield_now());
            child.join().unwrap()
        });
        eventually("another gets on", || other.is_finished());
        over.store(true, Relaxed);
        assert_eq!(other.join().unwrap(), 5);
    });
}

/// A worker that was only meant for the next turn of a server that has none is run by another.
#[test]
fn a_stuck_server_keeps_nothing_for_itself() {
    over("stuck", |runtime, kind| {
        if runtime.servers() == 1 {
            return;
        }
        let done = flag();
        let seen = done.clone();
        let stuck = kind.spawn_on(runtime, move || {
            let done = seen.clone();
            let _child = kind.spawn(move || done.store(true, Relaxed));
            // Computes, on and on, with the child in its slot.
            while !seen.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        eventually("the child runs elsewhere", || done.load(Relaxed));
        stuck.join().unwrap();
    });
}

/// Nor a worker that has yielded while there was another one for the next turn.
#[test]
fn a_stuck_server_keeps_no_worker_that_has_yielded() {
    over("stuck after a yield", |runtime, kind| {
        if runtime.servers() == 1 {
            return;
        }
        let goes_on = flag();
        let seen = goes_on.clone();
        let yields = kind.spawn_on(runtime, move || {
            let seen = goes_on.clone();
            let child = kind.spawn(move || {
                while !seen.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            umcg::yield_now();
            goes_on.store(true, Relaxed);
            drop(child);
        });
        eventually("it goes on elsewhere", || seen.load(Relaxed));
        yields.join().unwrap();
    });
}

/// Nor new workers, nor woken ones.
#[test]
fn a_stuck_server_keeps_no_queue() {
    const CHILDREN: usize = 10;
    over("stuck queue", |runtime, kind| {
        if runtime.servers() == 1 {
            return;
        }
        for are_woken in [false, true] {
            let (gate, runs) = (Arc::new(Semaphore::new(0)), counter());
            let stuck = kind.spawn_on(runtime, move || {
                let child = || {
                    let (gate, runs) = (gate.clone(), runs.clone());
                    move || {
                        if are_woken {
                            gate.acquire().unwrap();
                        }
                        runs.fetch_add(1, Relaxed);
                    }
                };
                let children: Vec<_> = (0..CHILDREN).map(|_| kind.spawn(child())).collect();
                if are_woken {
                    umcg::rt::sleep(Duration::from_millis(1));
                    gate.release(CHILDREN as u32).unwrap();
                }
                while runs.load(Relaxed) < CHILDREN {
                    std::hint::spin_loop();
                }
                children
            });
            for child in stuck.join().unwrap() {
                child.join().unwrap();
            }
        }
    });
}

/// Nor its deadlines.
#[test]
fn deadlines_of_a_stuck_server_pass() {
    over("stuck deadlines", |runtime, kind| {
        if runtime.servers() == 1 {
            return;
        }
        let woken = flag();
        let sleepers: Vec<_> = (0..2 * runtime.servers())
            .map(|_| {
                let woken = woken.clone();
                kind.spawn_on(runtime, move || {
                    umcg::sleep(Duration::from_millis(20));
                    woken.store(true, Relaxed);
                })
            })
            .collect();
        let seen = woken.clone();
        let stuck = kind.spawn_on(runtime, move || {
            while !seen.load(Relaxed) {
                std::hint::spin_loop();
            }
        });
        sleepers
            .into_iter()
            .for_each(|sleeper| sleeper.join().unwrap());
        stuck.join().unwrap();
    });
}

/// Bound workers that always yield and others do not starve each other, with any scheduler.
#[test]
fn bound_ones_and_others_take_turns() {
    use umcg::rt::scheduler::{EarliestDeadline, Fifo, Priority, Weighted};
    for servers in server_counts() {
        let builders = [
            Runtime::builder(),
            Runtime::builder().scheduler(Fifo::new()),
            Runtime::builder().scheduler(Priority::new()),
            Runtime::builder().scheduler(EarliestDeadline::new()),
            Runtime::builder().scheduler(Weighted::new(&[1, 2])),
        ];
        for builder in builders {
            with("bound and others", servers, builder, |runtime| {
                let over = flag();
                let yields = |over: Arc<AtomicBool>| {
                    move || {
                        while !over.load(Relaxed) {
                            umcg::yield_now();
                        }
                    }
                };
                let bound = |n: usize| {
                    runtime
                        .build(&Builder::new().server(n % servers), yields(over.clone()))
                        .unwrap()
                };
                let bound: Vec<_> = (0..2 * servers).map(bound).collect();
                std::thread::sleep(Duration::from_millis(1));
                // From outside, and by a worker; then beside others that yield.
                for _ in 0..5 {
                    runtime.run(|| umcg::spawn(|| ()).join().unwrap());
                }
                let others: Vec<_> = (0..2 * servers)
                    .map(|_| runtime.spawn(yields(over.clone())))
                    .collect();
                for n in 0..servers {
                    runtime
                        .build(&Builder::new().server(n), || ())
                        .unwrap()
                        .join()
                        .unwrap();
                    runtime.run(|| ());
                }
                over.store(true, Relaxed);
                bound
                    .into_iter()
                    .chain(others)
                    .for_each(|worker| worker.join().unwrap());
            });
        }
    }
}
