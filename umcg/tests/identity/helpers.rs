//! Helper threads: how many there are, and that they have the process's present attributes.

use crate::support::forks::{fork, in_plain_thread};
use crate::support::{
    Kind, child, child_succeeds, child_variable, eventually, flag, is_child, threads,
};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use umcg::Runtime;

/// A kind that blocks on helpers: light, and full by turns, where those are no threads.
fn kind(index: usize) -> Kind {
    if umcg::storage::is_ruled_out() || index % 2 == 0 {
        Kind::Light
    } else {
        Kind::Full
    }
}

fn helpers() -> usize {
    threads("umcg-helper").len()
}

/// Many workers block at once for a while each, and until this many helpers were seen. Returns the
/// most helpers at one time, and how long it took.
fn crowd(runtime: &Runtime, workers: usize, bound: usize) -> (usize, Duration) {
    let (start, are_seen) = (Instant::now(), flag());
    let nap = || {
        let are_seen = are_seen.clone();
        move || {
            umcg::blocking(|| {
                std::thread::sleep(Duration::from_millis(5));
                while !are_seen.load(Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
    };
    let naps: Vec<_> = (0..workers)
        .map(|index| kind(index).spawn_on(runtime, nap()))
        .collect();
    let mut most = 0;
    while runtime.workers() > 0 {
        most = most.max(helpers());
        are_seen.store(most >= bound, Relaxed);
        std::thread::sleep(Duration::from_millis(1));
    }
    naps.into_iter().for_each(|nap| nap.join().unwrap());
    (most, start.elapsed())
}

/// One a bound, and one each 10 ms at most.
#[track_caller]
fn are_bounded((most, took): (usize, Duration), bound: usize) {
    let allowed = bound + took.as_millis() as usize / 10 + 1;
    assert!(
        most >= bound && most <= allowed,
        "{most} helpers of {bound} in {took:?}"
    );
}

#[test]
fn there_are_no_more_than_the_builder_says() {
    let test = "helpers::there_are_no_more_than_the_builder_says";
    if !is_child(test) {
        return child_succeeds(test);
    }
    let runtime = Runtime::builder().servers(2).helpers(16).build().unwrap();
    are_bounded(crowd(&runtime, 400, 16), 16);
    // Those that were made beyond the bound end when they are free.
    eventually("too many have ended", || helpers() <= 16);
}

#[test]
fn there_are_no_more_than_the_environment_says() {
    let test = "helpers::there_are_no_more_than_the_environment_says";
    if !is_child(test) {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let (name, value) = child_variable(test);
        let output = command
            .args(crate::support::child_arguments(test))
            .env(name, value)
            .env("UMCG_HELPERS", "7")
            .output();
        return assert!(output.unwrap().status.success());
    }
    let runtime = Runtime::builder().servers(2).build().unwrap();
    are_bounded(crowd(&runtime, 200, 7), 7);
}

#[test]
fn workers_that_wait_for_each_other_go_on_beyond_the_bound() {
    const LINKS: usize = 12;
    let test = "helpers::workers_that_wait_for_each_other_go_on_beyond_the_bound";
    if !is_child(test) {
        let output = child(test);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{said}");
        let lines = said
            .lines()
            .filter(|line| line.starts_with("umcg: all") && line.contains("helper threads block"));
        assert_eq!(lines.count(), 1, "{said}");
        return;
    }
    let runtime = Runtime::builder().servers(1).helpers(2).build().unwrap();
    let (mut next, mut workers) = (None::<UnixStream>, Vec::new());
    let begun = Arc::new(AtomicUsize::new(0));
    for index in 0..LINKS {
        // Each reads, and then writes to the one before.
        let (mut reads, writes) = UnixStream::pair().unwrap();
        let (to, begun) = (next.replace(writes), begun.clone());
        workers.push(kind(index).spawn_on(&runtime, move || {
            begun.fetch_add(1, Relaxed);
            umcg::blocking(|| {
                reads.read_exact(&mut [0]).unwrap();
                if let Some(mut to) = to {
                    to.write_all(&[1]).unwrap();
                }
            });
        }));
    }
    eventually("all have begun", || begun.load(Relaxed) == LINKS);
    let mut last = next.unwrap();
    workers.push(kind(LINKS).spawn_on(&runtime, move || {
        umcg::blocking(|| last.write_all(&[1]).unwrap())
    }));
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
}

#[test]
fn the_child_of_a_fork_makes_its_own() {
    let test = "helpers::the_child_of_a_fork_makes_its_own";
    if !is_child(test) {
        return child_succeeds(test);
    }
    let runtime = Runtime::builder().servers(1).helpers(1).build().unwrap();
    assert_eq!(runtime.spawn(|| umcg::blocking(|| 7)).join().unwrap(), 7);
    in_plain_thread(|| {
        let forked = fork(|| {
            let runtime = Runtime::builder().servers(1).build().unwrap();
            let workers = [(); 3].map(|()| runtime.spawn(|| umcg::blocking(|| 8)));
            let right = workers
                .into_iter()
                .all(|worker| worker.join().unwrap() == 8);
            i32::from(!right)
        });
        forked.ends_well();
    });
}

#[test]
fn a_server_is_pinned_to_a_processor_that_it_may_use() {
    let may = sched_getaffinity(None).unwrap();
    let processors: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| may.is_set(*cpu))
        .collect();
    let last = *processors.last().unwrap();
    // As if the process had been started so.
    let pinned = std::thread::spawn(move || {
        let mut one = CpuSet::new();
        one.set(last);
        rustix::thread::sched_setaffinity(None, &one).unwrap();
        let runtime = Runtime::builder().servers(2).pin(true).build().unwrap();
        let sets: Vec<_> = (0..2)
            .map(|server| {
                let builder = umcg::Builder::new().server(server);
                Kind::Light
                    .build_on(&runtime, &builder, || sched_getaffinity(None).unwrap())
                    .unwrap()
                    .join()
                    .unwrap()
            })
            .collect();
        (one, sets)
    });
    let (one, sets) = pinned.join().unwrap();
    assert!(sets.iter().all(|set| *set == one), "{sets:?}");
    // And with all: one after the other.
    let runtime = Runtime::builder()
        .servers(processors.len())
        .pin(true)
        .build()
        .unwrap();
    for (server, cpu) in processors.into_iter().enumerate() {
        let builder = umcg::Builder::new().server(server);
        let set = Kind::Light
            .build_on(&runtime, &builder, || sched_getaffinity(None).unwrap())
            .unwrap()
            .join()
            .unwrap();
        assert!(
            set.count() == 1 && set.is_set(cpu),
            "server {server}: {set:?}"
        );
    }
}

#[test]
fn they_are_as_the_process_is() {
    let test = "helpers::they_are_as_the_process_is";
    if !is_child(test) {
        return child_succeeds(test);
    }
    fn now() -> (CpuSet, i32, i32) {
        // SAFETY: no precondition.
        let class = unsafe { libc::sched_getscheduler(0) };
        (
            sched_getaffinity(None).unwrap(),
            rustix::process::getpriority_process(None).unwrap(),
            class,
        )
    }
    let main = rustix::process::getpid();
    let process = move || {
        // SAFETY: no precondition.
        let class = unsafe { libc::sched_getscheduler(main.as_raw_nonzero().get()) };
        let nice = rustix::process::getpriority_process(Some(main)).unwrap();
        (sched_getaffinity(Some(main)).unwrap(), nice, class)
    };
    let runtime = Runtime::builder().servers(1).pin(true).build().unwrap();
    let body = move || {
        rustix::process::setpriority_process(None, 10).unwrap();
        let parameters = libc::sched_param { sched_priority: 0 };
        assert_eq!(
            // SAFETY: the parameters outlive the call.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &parameters) },
            0
        );
        assert_ne!(now().2, process().2);
        assert_eq!(umcg::blocking(now), process());
        // A child is as the thread that makes it.
        let output = umcg::process::Command::new("nice").output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            process().1.to_string()
        );
    };
    Kind::Light.spawn_on(&runtime, body).join().unwrap();
    drop(runtime);
    let other = Runtime::builder().servers(1).build().unwrap();
    assert_eq!(
        Kind::Light
            .spawn_on(&other, move || umcg::blocking(now))
            .join()
            .unwrap(),
        process()
    );
}
