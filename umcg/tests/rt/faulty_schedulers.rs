//! Schedulers that break their rules: they are safe code, so no harm comes of it except an end of
//! the process that says why.

use crate::support::{child, child_succeeds, is_child, server_counts};
use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use umcg::Runtime;
use umcg::rt::{Here, Runnable, Scheduler, Wake, Why};

/// A queue that does something besides.
#[derive(Clone)]
struct Faulty {
    queue: Arc<Mutex<VecDeque<Runnable>>>,
    in_ready: fn(),
    in_next: fn(),
    wake: Wake,
}

impl Faulty {
    fn new(in_ready: fn(), in_next: fn()) -> Faulty {
        Faulty {
            queue: Arc::default(),
            in_ready,
            in_next,
            wake: Wake::One,
        }
    }
}

impl Scheduler for Faulty {
    fn start(&mut self, _: usize) {}

    fn ready(&self, worker: Runnable, _: Why, _: Option<&Here>) -> Wake {
        self.queue.lock().unwrap().push_back(worker);
        (self.in_ready)();
        self.wake
    }

    fn next(&self, _: &Here) -> Option<Runnable> {
        (self.in_next)();
        self.queue.lock().unwrap().pop_front()
    }

    fn has_work(&self, _: &Here) -> bool {
        !self.queue.lock().unwrap().is_empty()
    }
}

/// The child aborts, and says these words.
#[track_caller]
fn aborts(test: &str, words: &str) {
    let output = child(test);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.signal(),
        Some(libc::SIGABRT),
        "{:?}\n{said}",
        output.status
    );
    assert!(said.contains(words), "{said}");
}

/// Workers that yield, spawn, join, sleep and block; all get done.
fn everything_runs(runtime: &Runtime) {
    let body = |n: usize| {
        for _ in 0..5 {
            umcg::yield_now();
            assert_eq!(
                umcg::spawn(move || (umcg::yield_now(), n).1)
                    .join()
                    .unwrap(),
                n
            );
        }
        umcg::sleep(Duration::from_micros(100));
        umcg::blocking(|| n)
    };
    let workers: Vec<_> = (0..20).map(|n| runtime.spawn(move || body(n))).collect();
    assert_eq!(
        workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .sum::<usize>(),
        190
    );
}

#[test]
fn one_that_serves_two_runtimes_ends_the_process() {
    const TEST: &str = "faulty_schedulers::one_that_serves_two_runtimes_ends_the_process";
    if !is_child(TEST) {
        return aborts(TEST, "gave out a worker of another runtime");
    }
    let common = Faulty::new(|| (), || ());
    let build = || {
        Runtime::builder()
            .servers(1)
            .scheduler(common.clone())
            .build()
            .unwrap()
    };
    let runtimes = [build(), build()];
    loop {
        runtimes
            .iter()
            .for_each(|runtime| drop(runtime.spawn(umcg::yield_now)));
    }
}

/// A call that would switch elsewhere does not there.
#[test]
fn one_that_waits_switches_nowhere() {
    const TEST: &str = "faulty_schedulers::one_that_waits_switches_nowhere";
    if !is_child(TEST) {
        return child_succeeds(TEST);
    }
    fn waits() {
        umcg::yield_now();
        umcg::blocking(umcg::yield_now);
        let _ = umcg::wait();
        umcg::critical(|| umcg::sleep(Duration::from_micros(1)));
        assert!(
            umcg::Server::register().is_err()
                && umcg::Worker::register(umcg::Handle::current().id()).is_err()
        );
    }
    for servers in server_counts() {
        for (in_ready, in_next) in [(waits as fn(), (|| ()) as fn()), (|| (), waits)] {
            let interval = Some(Duration::from_millis(1));
            let builder = Runtime::builder()
                .servers(servers)
                .scheduler(Faulty::new(in_ready, in_next))
                .preemption(interval);
            everything_runs(&builder.build().unwrap());
        }
    }
}

#[test]
fn one_that_panics_ends_the_process() {
    const TEST: &str = "faulty_schedulers::one_that_panics_ends_the_process";
    if !is_child(TEST) {
        return aborts(TEST, "a scheduler's `ready` panicked");
    }
    static PANICS: AtomicBool = AtomicBool::new(false);
    let faulty = Faulty::new(|| assert!(!PANICS.load(Relaxed), "from a scheduler"), || ());
    let runtime = Runtime::builder()
        .servers(1)
        .scheduler(faulty)
        .build()
        .unwrap();
    runtime.run(|| ());
    PANICS.store(true, Relaxed);
    // Would unwind out of the frame that the worker borrows from.
    let owned = AtomicUsize::new(1);
    runtime.run(|| owned.fetch_add(1, Relaxed));
}

#[test]
fn one_that_relies_on_naps_that_there_are_not_wakes_another() {
    for servers in server_counts() {
        let faulty = Faulty {
            wake: Wake::UnlessNapping,
            ..Faulty::new(|| (), || ())
        };
        everything_runs(
            &Runtime::builder()
                .servers(servers)
                .scheduler(faulty)
                .build()
                .unwrap(),
        );
    }
}

#[test]
fn one_that_wakes_a_server_that_there_is_not_wakes_another() {
    for servers in server_counts() {
        let faulty = Faulty {
            wake: Wake::Server(servers + 7),
            ..Faulty::new(|| (), || ())
        };
        everything_runs(
            &Runtime::builder()
                .servers(servers)
                .scheduler(faulty)
                .build()
                .unwrap(),
        );
    }
}
