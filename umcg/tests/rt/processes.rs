//! Events that concern the whole process, each in one of its own where that matters.

use crate::support::forks::{fork, in_plain_thread};
use crate::support::{
    HOUR, Kind, PanicsAgain, child, child_succeeds, counter, eventually, flag, is_child,
    over_drivers, server_counts, threads, with,
};
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::rt::DriverKind;
use umcg::{Builder, Runtime, SpawnError};

/// A child that is forked by a plain thread while runtimes run does plain work and ends.
#[test]
fn fork_in_a_thread() {
    over_drivers("fork", |runtime, kind| {
        let over = flag();
        let seen = over.clone();
        let worker = kind.spawn_on(runtime, move || {
            while !seen.load(Relaxed) {
                kind.spawn(umcg::yield_now).join().unwrap();
            }
        });
        for _ in 0..3 {
            let child = fork(|| {
                let sum: u64 = (0..1000u64).map(|n| vec![n; 10].iter().sum::<u64>()).sum();
                i32::from(sum != 999 * 500 * 10)
            });
            child.ends_well();
        }
        over.store(true, Relaxed);
        worker.join().unwrap();
    });
}

/// In a child a runtime of the parent makes no worker and waits for nothing, whichever thread
/// forked, and whatever state its threads were in.
#[test]
fn a_runtime_in_a_child() {
    fn look(runtime: Runtime, own: &Runtime) {
        // SAFETY: it says when SIGALRM ends a child that waits for ever.
        unsafe { libc::alarm(100) };
        let handle = runtime.handle();
        assert_eq!(
            handle.build(&Builder::new(), || ()).unwrap_err(),
            SpawnError::LeftBehind
        );
        assert_eq!(
            // SAFETY: it does nothing.
            unsafe { handle.build_light(&Builder::new(), || ()) }.unwrap_err(),
            SpawnError::LeftBehind
        );
        assert!(
            handle.dump().contains("left behind by a fork"),
            "{}",
            handle.dump()
        );
        assert_eq!(runtime.shutdown_timeout(Duration::from_millis(1)), Ok(()));
        assert_eq!(
            handle.build(&Builder::new(), || ()).unwrap_err(),
            SpawnError::LeftBehind
        );
        assert_eq!(
            own.build(&Builder::new(), || ()).unwrap_err(),
            SpawnError::LeftBehind
        );
    }
    for has_worker in [false, true] {
        for _ in 0..20 {
            let mut runtimes =
                [1, 2].map(|servers| Some(Runtime::builder().servers(servers).build().unwrap()));
            let over = flag();
            let seen = over.clone();
            let waits = move || {
                while !seen.load(Relaxed) {
                    umcg::sleep(Duration::from_millis(1));
                }
            };
            let worker = has_worker.then(|| runtimes[0].as_ref().unwrap().spawn(waits));
            let child = fork(|| {
                let [one, other] = runtimes.each_mut().map(|runtime| runtime.take().unwrap());
                look(one, &other);
                drop(other);
                0
            });
            child.ends_well();
            over.store(true, Relaxed);
            worker.into_iter().for_each(|worker| worker.join().unwrap());
            // In the parent nothing has changed.
            runtimes.into_iter().flatten().for_each(|runtime| {
                runtime.run(|| ());
                runtime.shutdown();
            });
        }
    }
    let runtime = Runtime::builder().servers(1).build().unwrap();
    let other = Runtime::builder().servers(1).build().unwrap();
    let (handle, others) = (runtime.handle(), Mutex::new(Some(other)));
    runtime.run(|| {
        let child = fork(|| {
            // SAFETY: as above.
            unsafe { libc::alarm(100) };
            let other = others.lock().unwrap().take().unwrap();
            assert_eq!(
                handle.build(&Builder::new(), || ()).unwrap_err(),
                SpawnError::LeftBehind
            );
            drop(other);
            0
        });
        child.ends_well();
    });
}

/// State that threads keep for each other is in order in a child, whatever state they were in.
#[test]
fn threads_of_a_child() {
    const TEST: &str = "processes::threads_of_a_child";
    if !is_child(TEST) {
        return child_succeeds(TEST);
    }
    // Forks are known about from then on.
    umcg::Handle::current();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    in_plain_thread(|| _ = umcg::Handle::current());
                }
            });
        }
        let children = scope.spawn(|| {
            for _ in 0..1000 {
                let child = fork(|| {
                    // SAFETY: it says when SIGALRM ends a child that waits for ever.
                    unsafe { libc::alarm(100) };
                    let own = umcg::Handle::current();
                    let other = std::thread::spawn(umcg::Handle::current).join().unwrap();
                    i32::from(other == own)
                });
                child.ends_well();
            }
        });
        let ended = children.join();
        over.store(true, Relaxed);
        ended.unwrap();
    });
}

/// The message of a stack overflow names the worker that has overflowed.
#[test]
fn an_overflow_is_named() {
    const NAME: &str = "processes::an_overflow_is_named";
    #[allow(unconditional_recursion)]
    fn deeper(n: u64) -> u64 {
        let frame = std::hint::black_box([n; 64]);
        deeper(n + 1) + frame[63]
    }
    if is_child(NAME) {
        let runtime = Runtime::builder().servers(1).build().unwrap();
        let kind = if std::env::var_os("UMCG_TEST_LIGHT").is_some() {
            Kind::Light
        } else {
            Kind::Full
        };
        let builder = Builder::new().name("ophelia");
        let worker = kind.build_on(&runtime, &builder, || {
            assert_eq!(std::hint::black_box(deeper(0)), 0)
        });
        return worker.unwrap().join().unwrap();
    }
    let ended = child(NAME);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(
        !ended.status.success() && said.contains("worker `ophelia` overflowed its 256 KiB stack"),
        "{ended:?}"
    );
    assert!(
        said.contains("`stack_size`")
            && said.contains("deeper")
            && said.contains("an_overflow_is_named"),
        "{said}"
    );
}

/// Before the message of a panic stands the name of its worker. The worker can ask for the name,
/// too.
#[test]
fn panics_have_names() {
    const NAME: &str = "processes::panics_have_names";
    if is_child(NAME) {
        let runtime = Runtime::builder().servers(1).build().unwrap();
        let fails = |kind: Kind, name: String| {
            let builder = Builder::new().name(name.clone());
            let body = move || {
                assert_eq!(umcg::current_name(), Some(name.clone()));
                assert_eq!(umcg::blocking(umcg::current_name), Some(name));
                umcg::yield_now();
                panic!("a ghost");
            };
            assert_eq!(
                kind.build_on(&runtime, &builder, body)
                    .unwrap()
                    .join()
                    .unwrap_err()
                    .message(),
                Some("a ghost")
            );
        };
        fails(Kind::Full, "gertrude".to_owned());
        fails(Kind::Light, format!("{}tio", "hora"));
        assert_eq!(runtime.run(umcg::current_name), None);
        std::panic::set_hook(Box::new(|_| {
            eprintln!("of {}", umcg::current_name().unwrap())
        }));
        return fails(Kind::Full, "yorick".to_owned());
    }
    let ended = child(NAME);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    for name in ["gertrude", "horatio"] {
        let (_, message) = said
            .split_once(&format!("in worker `{name}`:\n"))
            .unwrap_or_else(|| panic!("{said}"));
        assert!(message.trim_start().starts_with("thread"), "{said}");
    }
    assert!(
        said.contains("of yorick") && !said.contains("in worker `yorick`"),
        "{said}"
    );
}

/// The report when all workers wait for nothing that could come.
#[test]
fn a_deadlock_is_told() {
    for servers in server_counts() {
        for kind in [Kind::Full, Kind::Light] {
            let reports = Arc::new(Mutex::new(Vec::new()));
            let told = reports.clone();
            let builder = Runtime::builder()
                .on_deadlock(move |dump| told.lock().unwrap().push(dump.to_owned()));
            with("deadlock", servers, builder, |runtime| {
                // No deadlock includes a worker that waits for a deadline, or for the kernel.
                kind.run(runtime, || umcg::sleep(Duration::from_millis(20)));
                kind.run(runtime, || {
                    umcg::blocking(|| std::thread::sleep(Duration::from_millis(20)))
                });
                assert!(
                    reports.lock().unwrap().is_empty(),
                    "{:?}",
                    reports.lock().unwrap()
                );
                let over = flag();
                let waits = |name: &'static str| {
                    let seen = over.clone();
                    let body = move || {
                        while !seen.load(Relaxed) {
                            umcg::park();
                        }
                    };
                    kind.build_on(runtime, &Builder::new().name(name), body)
                        .unwrap()
                };
                let workers = [waits("romeo"), waits("juliet")];
                eventually("it is told", || !reports.lock().unwrap().is_empty());
                over.store(true, Relaxed);
                workers.into_iter().for_each(|worker| {
                    worker.handle().unpark();
                    worker.join().unwrap();
                });
            });
            let reports = reports.lock().unwrap();
            assert!(reports[0].contains("deadlock"), "{reports:?}");
        }
    }
}

/// Whatever it panics with, its server goes on, and so does the next report.
#[test]
fn a_panic_in_the_report_of_a_deadlock_ends_nothing() {
    let told = Arc::new(AtomicUsize::new(0));
    let counted = told.clone();
    let builder = Runtime::builder().on_deadlock(move |_| {
        counted.fetch_add(1, Relaxed);
        std::panic::resume_unwind(Box::new(PanicsAgain));
    });
    with("deadlock panics", 1, builder, |runtime| {
        for round in 1..=2 {
            let over = flag();
            let seen = over.clone();
            let worker = runtime.spawn(move || {
                while !seen.load(Relaxed) {
                    umcg::park();
                }
            });
            eventually("it is told", || told.load(Relaxed) >= round);
            over.store(true, Relaxed);
            worker.handle().unpark();
            worker.join().unwrap();
        }
    });
}

/// The report is a dump: it has the names of the waiters.
#[test]
fn the_report_of_a_deadlock_has_names() {
    let reports = Arc::new(Mutex::new(String::new()));
    let told = reports.clone();
    let builder = Runtime::builder().on_deadlock(move |dump| told.lock().unwrap().push_str(dump));
    with("deadlock names", 1, builder, |runtime| {
        let over = flag();
        let seen = over.clone();
        let worker = runtime.build(&Builder::new().name("romeo"), move || {
            while !seen.load(Relaxed) {
                umcg::park();
            }
        });
        let worker = worker.unwrap();
        eventually("it is told", || !reports.lock().unwrap().is_empty());
        over.store(true, Relaxed);
        worker.handle().unpark();
        worker.join().unwrap();
    });
    assert!(
        reports.lock().unwrap().contains("romeo"),
        "{:?}",
        reports.lock().unwrap()
    );
}

#[inline(never)]
fn stands_here_for_the_dump() {
    umcg::park();
    std::hint::black_box(());
}

#[test]
fn a_dump_tells_who_waits_where() {
    for servers in server_counts() {
        for kind in [Kind::Full, Kind::Light] {
            with("dump", servers, Runtime::builder(), |runtime| {
                static OVER: AtomicBool = AtomicBool::new(false);
                fn until_over() {
                    while !OVER.load(Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
                OVER.store(false, Relaxed);
                let named = |name: &str, body: fn()| {
                    kind.build_on(runtime, &Builder::new().name(name), body)
                        .unwrap()
                };
                let workers = [
                    named("falstaff", stands_here_for_the_dump),
                    named("banquo", || umcg::sleep(HOUR)),
                    named("macduff", || {
                        umcg::spawn(|| umcg::blocking(until_over)).join().unwrap()
                    }),
                    named("cordelia", || umcg::blocking(until_over)),
                ];
                let states = [
                    "falstaff: waits: park",
                    "banquo: waits: sleep",
                    "macduff: waits: join",
                    "cordelia: blocks",
                ];
                let dump = RefCell::new(String::new());
                eventually("all are where they wait", || {
                    dump.replace(runtime.dump());
                    let dump = dump.borrow();
                    // A server that gets no processor does not stop in time, and then there are no
                    // backtraces.
                    let has_backtraces =
                        !cfg!(debug_assertions) || dump.contains("stands_here_for_the_dump");
                    has_backtraces && states.iter().all(|words| dump.contains(words))
                });
                let dump = dump.into_inner();
                assert!(
                    dump.contains("5 workers") && !dump.contains("not joined"),
                    "{dump}"
                );
                workers[0].abort();
                workers[1].abort();
                eventually("two have ended", || {
                    runtime.dump().contains("\nended, but not joined: 2\n")
                });
                OVER.store(true, Relaxed);
                workers.into_iter().for_each(|worker| drop(worker.join()));
            });
        }
    }
}

/// How many servers sleep, though they are woken for the dump.
#[test]
fn a_dump_says_how_many_servers_sleep() {
    for servers in server_counts() {
        with("asleep", servers, Runtime::builder(), |runtime| {
            let asleep = |asleep: usize| {
                eventually("so many sleep", || {
                    std::thread::sleep(Duration::from_millis(5));
                    runtime
                        .dump()
                        .contains(&format!("{servers} servers ({asleep} asleep)"))
                });
            };
            asleep(servers);
            let over = flag();
            let seen = over.clone();
            let worker = runtime.spawn(move || while !seen.load(Relaxed) {});
            asleep(servers - 1);
            over.store(true, Relaxed);
            worker.join().unwrap();
        });
    }
}

/// Workers that ended in an earlier runtime, and were never joined, are not of the next one.
#[test]
fn a_dump_is_of_one_runtime() {
    for kind in [Kind::Full, Kind::Light] {
        for _ in 0..10 {
            let first = Runtime::builder().servers(1).build().unwrap();
            let left: Vec<_> = (0..10).map(|_| kind.spawn_on(&first, || ())).collect();
            first.shutdown();
            with("one after another", 1, Runtime::builder(), |runtime| {
                assert!(!runtime.dump().contains("not joined"));
            });
            left.into_iter().for_each(|worker| worker.join().unwrap());
        }
    }
}

/// Dumps while everything moves.
#[test]
fn dumps_disturb_nobody() {
    for servers in server_counts() {
        for kind in [Kind::Full, Kind::Light] {
            with("many dumps", servers, Runtime::builder(), |runtime| {
                let (over, sum) = (flag(), counter());
                let workers: Vec<_> = (0..6)
                    .map(|_| {
                        let (over, sum) = (over.clone(), sum.clone());
                        kind.spawn_on(runtime, move || {
                            while !over.load(Relaxed) {
                                sum.fetch_add(
                                    kind.spawn(|| (umcg::yield_now(), 1).1).join().unwrap(),
                                    Relaxed,
                                );
                                umcg::sleep(Duration::from_micros(50));
                            }
                        })
                    })
                    .collect();
                for _ in 0..5 {
                    assert!(runtime.dump().contains("workers"));
                    let before = sum.load(Relaxed);
                    eventually("they go on", || sum.load(Relaxed) > before);
                }
                over.store(true, Relaxed);
                workers
                    .into_iter()
                    .for_each(|worker| worker.join().unwrap());
            });
        }
    }
}

/// Several threads dump at once, and workers in blocking scopes: each looks at all stacks.
#[test]
fn dumps_at_once() {
    for servers in [1, 2] {
        for kind in [Kind::Full, Kind::Light] {
            with("dumps at once", servers, Runtime::builder(), |runtime| {
                let parked: Vec<_> = (0..3)
                    .map(|_| kind.spawn_on(runtime, || umcg::sleep(HOUR)))
                    .collect();
                eventually("all wait", || {
                    runtime.dump().matches("waits: ").count() == parked.len()
                });
                let handle = runtime.handle();
                let dumping = kind.spawn_on(runtime, move || {
                    for _ in 0..20 {
                        assert!(umcg::blocking(|| handle.dump()).contains("workers"));
                    }
                });
                std::thread::scope(|scope| {
                    for _ in 0..2 {
                        scope.spawn(|| {
                            (0..20).for_each(|_| assert!(runtime.dump().contains("waits")))
                        });
                    }
                });
                dumping.join().unwrap();
                parked.into_iter().for_each(|worker| {
                    worker.abort();
                    worker.join().unwrap_err();
                });
            });
        }
    }
}

/// How often threads with this prefix have given up their processors by themselves.
fn voluntary_switches(prefix: &str) -> u64 {
    let count = |tid: i32| {
        let status = std::fs::read_to_string(format!("/proc/self/task/{tid}/status")).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))
            .unwrap();
        line.trim().parse::<u64>().unwrap()
    };
    threads(prefix).into_iter().map(count).sum()
}

/// A runtime with nothing to do does nothing: its threads sleep in the kernel, and stay there.
#[test]
fn an_idle_runtime_does_nothing() {
    const NAME: &str = "processes::an_idle_runtime_does_nothing";
    if !is_child(NAME) {
        return child_succeeds(NAME);
    }
    for driver in [DriverKind::Epoll, DriverKind::IoUring] {
        for servers in server_counts() {
            let Ok(runtime) = Runtime::builder()
                .servers(servers)
                .name("idle")
                .driver(driver)
                .build()
            else {
                continue;
            };
            let parked = runtime.spawn(|| umcg::sleep(HOUR));
            let (one, _other) = runtime.run(|| umcg::net::unix::UnixStream::pair().unwrap());
            let reader =
                runtime.spawn(move || std::io::Read::read(&mut { one }, &mut [0]).map(drop));
            let workers: Vec<_> = (0..1000)
                .map(|_| runtime.spawn(|| umcg::sleep(Duration::from_micros(100))))
                .collect();
            workers
                .into_iter()
                .for_each(|worker| worker.join().unwrap());
            // They have come to rest, at any time, and stay there.
            let start = Instant::now();
            let (mut before, mut rests) = (voluntary_switches("idle-"), 0);
            while rests < 2 {
                std::thread::sleep(Duration::from_millis(300));
                let now = voluntary_switches("idle-");
                rests = if now == before { rests + 1 } else { 0 };
                assert!(
                    start.elapsed() < Duration::from_secs(60),
                    "{servers} servers, {driver:?}: {} more",
                    now - before
                );
                before = now;
            }
            parked.abort();
            reader.abort();
        }
    }
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Runtimes that come and go leave no descriptors, no threads and no memory behind.
#[test]
fn runtimes_leave_nothing() {
    const NAME: &str = "processes::runtimes_leave_nothing";
    if !is_child(NAME) {
        return child_succeeds(NAME);
    }
    let once = |driver: DriverKind, servers: usize| {
        let runtime = Runtime::builder()
            .servers(servers)
            .name("gone")
            .driver(driver)
            .build()
            .unwrap();
        runtime.run(|| {
            let (mut one, mut other) = umcg::net::unix::UnixStream::pair().unwrap();
            let reader = umcg::spawn(move || std::io::Read::read(&mut other, &mut [0]).unwrap());
            umcg::yield_now();
            std::io::Write::write_all(&mut one, b"x").unwrap();
            assert_eq!(reader.join().unwrap(), 1);
            assert!(!umcg::fs::read("/proc/self/status").unwrap().is_empty());
            umcg::blocking(|| ());
        });
        if servers % 2 == 0 {
            runtime.shutdown()
        } else {
            runtime.shutdown_timeout(HOUR).unwrap()
        }
    };
    let drivers = [DriverKind::Epoll, DriverKind::IoUring].map(|driver| {
        (
            driver,
            Runtime::builder().servers(1).driver(driver).build().is_ok(),
        )
    });
    let all = || {
        for (driver, _) in drivers.iter().filter(|driver| driver.1) {
            (1..=4).for_each(|servers| once(*driver, servers));
        }
    };
    (0..3).for_each(|_| all());
    eventually("the threads end", || threads("gone-").is_empty());
    let before = descriptors();
    let memory = || {
        std::fs::read_to_string("/proc/self/statm")
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .parse::<usize>()
            .unwrap()
    };
    let pages = memory();
    (0..30).for_each(|_| all());
    eventually("the threads end", || threads("gone-").is_empty());
    assert_eq!(descriptors(), before);
    let grown = memory().saturating_sub(pages);
    assert!(grown < 4 << 10, "{grown} pages more after 240 runtimes");
}
