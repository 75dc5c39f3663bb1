//! Workers that are taken off their servers in the midst of any code.

use crate::support::{Kind, counter, eventually, flag, server_counts, with};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};
use umcg::rt::scheduler::{EarliestDeadline, Priority};
use umcg::sync::Semaphore;
use umcg::{Builder, Runtime};

fn often(name: &'static str, servers: usize, test: impl FnOnce(&Runtime)) {
    with(
        name,
        servers,
        Runtime::builder().preemption(Some(Duration::from_millis(5))),
        test,
    );
}

/// Workers that compute for ever do not keep others from running.
#[test]
fn who_computes_for_ever_stops_nobody() {
    for servers in server_counts() {
        for kind in [Kind::Full, Kind::Light] {
            often("preemption", servers, |runtime| {
                let over = flag();
                let busy: Vec<_> = (0..servers + 1)
                    .map(|_| {
                        let over = over.clone();
                        kind.spawn_on(runtime, move || {
                            while !over.load(Relaxed) {
                                std::hint::spin_loop();
                            }
                        })
                    })
                    .collect();
                std::thread::sleep(Duration::from_millis(5));
                let other = kind.spawn_on(runtime, move || {
                    let child = kind.spawn(|| (umcg::yield_now(), 1).1);
                    umcg::sleep(Duration::from_millis(1));
                    child.join().unwrap()
                });
                eventually("another gets on", || other.is_finished());
                assert_eq!(other.join().unwrap(), 1);
                over.store(true, Relaxed);
                busy.into_iter().for_each(|worker| worker.join().unwrap());
            });
        }
    }
}

/// Two workers that wake each other have many turns between two that compute for a tick each. With
/// as few as the slot of a server gives them in a row, this would take more than ten seconds.
#[test]
fn a_pair_gets_its_share_beside_workers_that_compute() {
    const TURNS: usize = 20_000;
    for kind in [Kind::Full, Kind::Light] {
        often("shares", 1, |runtime| {
            let over = flag();
            let busy = [0, 1].map(|_| {
                let over = over.clone();
                kind.spawn_on(runtime, move || {
                    while !over.load(Relaxed) {
                        std::hint::spin_loop();
                    }
                })
            });
            let begin = Instant::now();
            let semaphores = Arc::new([Semaphore::new(1), Semaphore::new(0)]);
            let pair = [0, 1].map(|me| {
                let semaphores = semaphores.clone();
                kind.spawn_on(runtime, move || {
                    for _ in 0..TURNS {
                        semaphores[me].acquire().unwrap();
                        semaphores[1 - me].release(1).unwrap();
                    }
                })
            });
            pair.into_iter().for_each(|worker| worker.join().unwrap());
            let took = begin.elapsed();
            over.store(true, Relaxed);
            busy.into_iter().for_each(|worker| worker.join().unwrap());
            assert!(took < Duration::from_secs(6), "{took:?}");
        });
    }
}

/// Nor do those whose stacks have old return addresses into the C library in places that are not in
/// use.
#[test]
fn what_is_left_on_a_stack_stops_nobody() {
    /// Leaves return addresses as calls into the C library do, only more of them.
    #[inline(never)]
    fn leaves() {
        black_box(&[libc::malloc as *const () as usize + 64; 4096]);
    }
    #[inline(never)]
    fn computes(over: &std::sync::atomic::AtomicBool) {
        let mut room = std::mem::MaybeUninit::<[u64; 2048]>::uninit();
        while !over.load(Relaxed) {
            black_box(&mut room);
        }
    }
    often("leftovers", 1, |runtime| {
        let over = flag();
        let begun = flag();
        let (seen, begins) = (over.clone(), begun.clone());
        let busy = runtime.spawn(move || {
            leaves();
            begins.store(true, Relaxed);
            computes(&seen);
        });
        eventually("it begins", || begun.load(Relaxed));
        let other = runtime.spawn(|| 1);
        eventually("another gets on", || other.is_finished());
        assert_eq!(other.join().unwrap(), 1);
        over.store(true, Relaxed);
        busy.join().unwrap();
    });
}

/// A worker that could not be taken off in time, and sleeps in the kernel by now, is not woken
/// again and again.
#[test]
fn a_sleep_in_the_kernel_is_left_alone() {
    /// How long the worker computes first, by the clock of the tick.
    const BUSY: Duration = Duration::from_millis(60);
    fn computed() -> Duration {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
    }
    /// Called by the loader, and so not taken off. Counts the sleeps that are cut short.
    unsafe extern "C" fn sleep(
        _: *mut libc::dl_phdr_info,
        _: usize,
        cut_short: *mut libc::c_void,
    ) -> i32 {
        let began = computed();
        while computed() - began < BUSY {}
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            let left = end.saturating_duration_since(Instant::now()).as_millis() as i32 + 1;
            // SAFETY: nothing to look at.
            if unsafe { libc::poll(std::ptr::null_mut(), 0, left) } < 0 {
                // SAFETY: the number below.
                unsafe { *cut_short.cast::<u32>() += 1 };
            }
        }
        1
    }
    often("a sleep", 1, |runtime| {
        let sleeper = runtime.spawn(|| {
            let mut cut_short = 0u32;
            // SAFETY: the callback gets its number, and does not unwind.
            unsafe { libc::dl_iterate_phdr(Some(sleep), (&raw mut cut_short).cast()) };
            cut_short
        });
        let other = runtime.spawn(|| 1);
        let cut_short = sleeper.join().unwrap();
        assert!(cut_short < 10, "{cut_short} times");
        assert_eq!(other.join().unwrap(), 1);
    });
}

/// Floating point registers are a preempted worker's own.
#[test]
fn floating_point_survives() {
    fn series(terms: u64) -> f64 {
        (0..terms)
            .map(|n| black_box(1.0) / (2.0 * n as f64 + 1.0) * if n % 2 == 0 { 4.0 } else { -4.0 })
            .sum()
    }
    let expected = series(200_000);
    for servers in server_counts() {
        for kind in [Kind::Full, Kind::Light] {
            often("floating point", servers, |runtime| {
                let workers: Vec<_> = (0..4 + servers)
                    .map(|_| kind.spawn_on(runtime, || [(); 3].map(|()| series(200_000))))
                    .collect();
                for worker in workers {
                    let sums = worker.join().unwrap();
                    assert!(
                        sums.iter().all(|sum| sum.to_bits() == expected.to_bits()),
                        "{sums:?} is not {expected}"
                    );
                }
            });
        }
    }
}

/// So is thread-local storage of one's own, the allocator's part of it included.
#[test]
fn thread_locals_survive() {
    thread_local!(static NUMBER: Cell<u64> = const { Cell::new(7) });
    for servers in server_counts() {
        often("thread-locals under preemption", servers, |runtime| {
            let workers: Vec<_> = (0..4 + servers as u64)
                .map(|me| {
                    runtime.spawn(move || {
                        assert_eq!(NUMBER.replace(me), 7);
                        let end = Instant::now() + Duration::from_millis(40);
                        while Instant::now() < end {
                            (0..1000).for_each(|_| assert_eq!(black_box(NUMBER.get()), me));
                            let chunk = vec![me; 100];
                            assert!(chunk.iter().all(|word| *word == me));
                            let text = format!("{me}");
                            assert_eq!(text.parse::<u64>().unwrap(), me);
                        }
                    })
                })
                .collect();
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
        });
    }
}

/// A panic in workers that are preempted meanwhile.
#[test]
fn panics_survive() {
    fn deep(n: u32) {
        if n == 0 {
            std::panic::resume_unwind(Box::new(11u8));
        }
        let _owned = vec![n];
        deep(n - 1);
    }
    often("panics under preemption", 1, |runtime| {
        let caught = counter();
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let caught = caught.clone();
                runtime.spawn(move || {
                    for _ in 0..1000 {
                        let panic = std::panic::catch_unwind(|| deep(20)).unwrap_err();
                        caught.fetch_add(usize::from(*panic.downcast::<u8>().unwrap()), Relaxed);
                        assert!(!std::thread::panicking());
                    }
                })
            })
            .collect();
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        assert_eq!(caught.load(Relaxed), 33_000);
    });
}

/// In a critical section no other worker runs on the server.
#[test]
fn critical_sections_are_not_preempted() {
    for kind in [Kind::Full, Kind::Light] {
        often("critical", 1, |runtime| {
            let inside = counter();
            let workers: Vec<_> = (0..3)
                .map(|_| {
                    let inside = inside.clone();
                    kind.spawn_on(runtime, move || {
                        for _ in 0..3 {
                            umcg::critical(|| {
                                assert_eq!(inside.fetch_add(1, Relaxed), 0);
                                (0..500_000).for_each(|n| {
                                    black_box(n);
                                });
                                assert_eq!(inside.fetch_sub(1, Relaxed), 1);
                            });
                        }
                    })
                })
                .collect();
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
        });
    }
}

/// With ranks an urgent worker takes the place of one that is less so, without waiting for the
/// interval.
#[test]
fn the_urgent_preempt_at_once() {
    let hour = Some(Duration::from_secs(3600));
    let builders = [
        (
            Runtime::builder().scheduler(Priority::new()),
            Builder::new().priority(10),
            Builder::new().priority(200),
        ),
        (
            Runtime::builder().scheduler(EarliestDeadline::new()),
            Builder::new(),
            Builder::new().deadline(Instant::now()),
        ),
    ];
    for (builder, low, urgent) in builders {
        with("ranks", 1, builder.preemption(hour), |runtime| {
            let over = flag();
            let seen = over.clone();
            let begun = flag();
            let beginning = begun.clone();
            let busy = runtime.build(&low, move || {
                beginning.store(true, Relaxed);
                while !seen.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            eventually("it begins", || begun.load(Relaxed));
            let done = over.clone();
            let urgent = runtime
                .build(&urgent, move || done.store(true, Relaxed))
                .unwrap();
            eventually("the urgent one has run", || over.load(Relaxed));
            urgent.join().unwrap();
            busy.unwrap().join().unwrap();
        });
    }
}

/// One that is bound to a server takes the place of the worker that runs there, though a less
/// urgent one runs elsewhere, or another server sleeps.
#[test]
fn the_urgent_preempt_where_they_are_bound() {
    for priorities in [&[100, 50][..], &[100]] {
        let builder = Runtime::builder()
            .scheduler(Priority::new())
            .preemption(Some(Duration::from_secs(3600)));
        with("bound ranks", 2, builder, |runtime| {
            let over = flag();
            let begun = counter();
            let busy: Vec<_> = priorities
                .iter()
                .enumerate()
                .map(|(server, priority)| {
                    let (over, begun) = (over.clone(), begun.clone());
                    let busy = Builder::new().server(server).priority(*priority);
                    runtime.build(&busy, move || {
                        begun.fetch_add(1, Relaxed);
                        while !over.load(Relaxed) {
                            std::hint::spin_loop();
                        }
                    })
                })
                .collect();
            eventually("they begin", || begun.load(Relaxed) == priorities.len());
            let urgent = runtime
                .build(&Builder::new().server(0).priority(200), || ())
                .unwrap();
            eventually("the urgent one has run", || urgent.is_finished());
            urgent.join().unwrap();
            over.store(true, Relaxed);
            busy.into_iter()
                .for_each(|worker| worker.unwrap().join().unwrap());
        });
    }
}

/// Several at once take the places of as many.
#[test]
fn each_of_the_urgent_preempts_another() {
    urgent_beside("several ranks", &[10, 20]);
}

/// Or run on servers that have nothing to do.
#[test]
fn the_urgent_run_beside_idle_servers() {
    urgent_beside("ranks and rest", &[10]);
    urgent_beside("ranks and rest", &[]);
}

/// Two urgent workers become ready at once where these run on two servers.
fn urgent_beside(name: &'static str, low: &[u8]) {
    let builder = Runtime::builder()
        .scheduler(Priority::new())
        .preemption(Some(Duration::from_secs(3600)));
    with(name, 2, builder, |runtime| {
        let over = flag();
        let begun = counter();
        let busy = |priority: &u8| {
            let (over, begun) = (over.clone(), begun.clone());
            let busy = runtime.build(&Builder::new().priority(*priority), move || {
                begun.fetch_add(1, Relaxed);
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
            });
            busy.unwrap()
        };
        for _ in 0..10 {
            begun.store(0, Relaxed);
            let low: Vec<_> = low.iter().map(busy).collect();
            eventually("they begin", || begun.load(Relaxed) == low.len());
            let urgent = [200, 201].each_ref().map(busy);
            eventually("the urgent ones begin", || {
                begun.load(Relaxed) == low.len() + 2
            });
            over.store(true, Relaxed);
            low.into_iter()
                .chain(urgent)
                .for_each(|worker| worker.join().unwrap());
            over.store(false, Relaxed);
        }
    });
}

/// A worker that makes a more urgent one ready gives it its own place, though no other could take
/// it off.
#[test]
fn who_is_less_urgent_gives_way_to_whom_it_makes() {
    let builder = Runtime::builder()
        .scheduler(Priority::new())
        .preemption(Some(Duration::from_secs(3600)));
    with("own ranks", 1, builder, |runtime| {
        for _ in 0..20 {
            let low = Builder::new().priority(10);
            let low = runtime.build(&low, || {
                let over = flag();
                let done = over.clone();
                let urgent = Builder::new()
                    .priority(200)
                    .spawn(move || done.store(true, Relaxed))
                    .unwrap();
                while !over.load(Relaxed) {
                    std::hint::spin_loop();
                }
                urgent.join().unwrap();
            });
            low.unwrap().join().unwrap();
        }
    });
}

/// Aborts of workers with storage of their own, preempted or not.
#[test]
fn aborts_survive() {
    often("aborts under preemption", 2, |runtime| {
        for round in 0..100u64 {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    runtime.spawn(|| {
                        loop {
                            umcg::rt::checkpoint();
                            black_box(vec![0u8; 100]);
                        }
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_micros(round * 50));
            workers.iter().for_each(umcg::JoinHandle::abort);
            workers
                .into_iter()
                .for_each(|worker| assert!(worker.join().is_err()));
        }
    });
}
