//! The memory that workers of a runtime need, and the behaviour when there is no more. Each
//! measurement is made in a process of its own.
//!
//! `UMCG_MEMORY_WORKERS` is how many parked workers are measured; 50,000 where it is not set.

#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "rt/kind.rs"]
mod kind;

use kind::Kind;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use umcg::{Builder, JoinHandle, Runtime, SpawnError};

/// Names the measurement for the process that makes it.
const MEASURE: &str = "UMCG_TEST_MEASURE";
/// The most memory a parked light worker may need, in bytes.
const BYTES_A_WORKER: usize = 4800;

/// A process that makes one of the measurements.
#[test]
fn measurement() {
    match std::env::var(MEASURE).as_deref() {
        Ok("parked") => parked(),
        Ok("light") => until_memory_ends(Kind::Light),
        Ok("full") => until_memory_ends(Kind::Full),
        Ok("churn") => churn(),
        Ok("back") => memory_comes_back(),
        Ok("trim") => memory_is_trimmed(),
        Ok("shortage") => after_shortage(),
        _ => {} // on its own this is no test
    }
}

fn measure(what: &str) {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "300"])
        .arg(std::env::current_exe().unwrap());
    command
        .args(["--exact", "measurement", "--nocapture"])
        .env(MEASURE, what);
    // An arena of a thread that allocates late would take half of the addresses that are left.
    let output = command.env("MALLOC_ARENA_MAX", "1").output().unwrap();
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{what}: {:?}\n{said}\n{complained}",
        output.status
    );
    print!("{said}");
}

/// A number of KiB in a file of /proc, as bytes.
fn kib(file: &str, field: &str) -> usize {
    let text = std::fs::read_to_string(file).unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .unwrap();
    line.trim_start_matches(':')
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<usize>()
        .unwrap()
        << 10
}

/// Resident memory and page tables of this process.
fn used() -> usize {
    kib("/proc/self/status", "VmRSS") + kib("/proc/self/status", "VmPTE")
}

static PARKED: AtomicUsize = AtomicUsize::new(0);
static OVER: AtomicUsize = AtomicUsize::new(0);

fn park_until_over() {
    PARKED.fetch_add(1, Relaxed);
    while OVER.load(Relaxed) == 0 {
        umcg::park();
    }
}

fn all_are_parked(count: usize) {
    while PARKED.load(Relaxed) < count {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn end_all(workers: Vec<JoinHandle<()>>) {
    OVER.store(1, Relaxed);
    workers.iter().for_each(|worker| worker.handle().unpark());
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    PARKED.store(0, Relaxed);
    OVER.store(0, Relaxed);
}

fn parked() {
    let count = std::env::var("UMCG_MEMORY_WORKERS")
        .map_or(50_000, |text| text.parse().expect("UMCG_MEMORY_WORKERS"));
    let runtime = Runtime::builder().servers(1).build().unwrap();
    let mut workers = Vec::with_capacity(count);
    workers.push(Kind::Light.spawn_on(&runtime, park_until_over));
    all_are_parked(1);
    let before = used();
    workers.extend((1..count).map(|_| Kind::Light.spawn_on(&runtime, park_until_over)));
    all_are_parked(count);
    let bytes = (used() - before) / (count - 1);
    println!("{count} parked light workers: {bytes} bytes each");
    assert!(
        cfg!(debug_assertions) || bytes <= BYTES_A_WORKER,
        "{bytes} bytes each"
    );
    end_all(workers);
}

/// Without optimisation the frames are larger, and only the number of workers is checked.
#[test]
fn a_parked_worker_costs_little() {
    measure("parked");
}

/// Spawns until there is no more memory, three times: an error, the same each time, after as many
/// workers, and the others go on.
fn until_memory_ends(kind: Kind) {
    let runtime = Runtime::builder().servers(2).build().unwrap();
    let spawn = || kind.build_on(&runtime, &Builder::new(), park_until_over);
    // State that is made once is made before.
    end_all((0..10).map(|_| spawn().unwrap()).collect());
    let mut workers = Vec::with_capacity(1_000_000);
    let limit = kib("/proc/self/status", "VmSize") as u64 + (128 << 20);
    setrlimit(
        Resource::As,
        Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        },
    )
    .unwrap();
    let mut counts = Vec::new();
    for _ in 0..3 {
        let error = loop {
            match spawn() {
                Ok(worker) => workers.push(worker),
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, SpawnError::Stack(_) | SpawnError::Storage),
            "{error:?}"
        );
        assert!(spawn().is_err(), "it stays so");
        counts.push(workers.len());
        all_are_parked(workers.len());
        let all = std::mem::take(&mut workers);
        OVER.store(1, Relaxed);
        all.iter().for_each(|worker| worker.handle().unpark());
        all.into_iter().for_each(|worker| worker.join().unwrap());
        PARKED.store(0, Relaxed);
        OVER.store(0, Relaxed);
    }
    println!("{kind:?}, until memory ends: {counts:?}");
    // A few more or less: servers keep some for themselves.
    assert!(
        counts[0] > 300
            && counts
                .iter()
                .all(|count| count.abs_diff(counts[0]) < counts[0] / 4),
        "{counts:?}"
    );
    drop(runtime);
}

#[test]
fn the_end_of_memory_is_an_error_for_light_workers() {
    measure("light");
}

#[test]
fn the_end_of_memory_is_an_error_for_full_workers() {
    measure("full");
}

/// Workers that come and go, on all servers and from outside, use the same memory again.
fn churn() {
    let runtime = Runtime::builder().servers(2).build().unwrap();
    let once = || {
        let light: Vec<_> = (0..500)
            .map(|_| Kind::Light.spawn_on(&runtime, umcg::yield_now))
            .collect();
        let full: Vec<_> = (0..500)
            .map(|_| runtime.spawn(|| umcg::spawn(umcg::yield_now).join().unwrap()))
            .collect();
        light
            .into_iter()
            .chain(full)
            .for_each(|worker| worker.join().unwrap());
    };
    (0..20).for_each(|_| once());
    let before = used();
    (0..200).for_each(|_| once());
    let grown = used().saturating_sub(before);
    println!("after 300,000 more workers: {grown} bytes more");
    assert!(grown < 16 << 20, "{grown} bytes more");
}

#[test]
fn memory_is_used_again() {
    measure("churn");
}

/// Ends a burst of workers that have used some of their stacks, and says how much memory there is
/// beyond that before it; and when they began to end.
fn after_burst() -> (impl Fn() -> usize, Instant) {
    const WORKERS: usize = 4000;
    fn deep(n: usize) -> usize {
        let frame = std::hint::black_box([n; 512]);
        if n == 0 { 0 } else { deep(n - 1) + frame[7] }
    }
    let runtime = Box::leak(Box::new(Runtime::builder().servers(2).build().unwrap()));
    let spawn = || {
        Kind::Full.spawn_on(runtime, || {
            std::hint::black_box(deep(8));
            park_until_over();
        })
    };
    end_all((0..10).map(|_| spawn()).collect());
    let before = used();
    let workers: Vec<_> = (0..WORKERS).map(|_| spawn()).collect();
    all_are_parked(WORKERS);
    let most = used() - before;
    assert!(most > WORKERS * (36 << 10), "{most} bytes in use");
    let began = Instant::now();
    end_all(workers);
    (move || (used() - before) / WORKERS, began)
}

/// The remains of a worker that has ended: the page of its descriptor, its block of storage with
/// the C library's data, and page tables.
const BYTES_LEFT: usize = 16 << 10;

fn memory_comes_back() {
    let (left, _) = after_burst();
    let began = Instant::now();
    while left() > BYTES_LEFT && began.elapsed() < Duration::from_secs(100) {
        std::thread::sleep(Duration::from_millis(20));
    }
    println!(
        "{} bytes a worker are left, {:?} after the burst",
        left(),
        began.elapsed()
    );
    assert!(left() <= BYTES_LEFT, "{} bytes a worker", left());
}

/// The watch gives memory back after a burst.
#[test]
fn memory_comes_back_by_itself() {
    measure("back");
}

fn memory_is_trimmed() {
    /// So soon the watch has given back nothing yet.
    const SOON: Duration = Duration::from_millis(500);
    let (left, began) = after_burst();
    let stacks = umcg::rt::trim();
    let is_soon = began.elapsed() < SOON;
    println!(
        "{stacks} stacks were trimmed, and {} bytes a worker are left",
        left()
    );
    assert!(
        (stacks >= 3900 || !is_soon) && left() <= BYTES_LEFT,
        "{stacks} stacks, {} bytes a worker",
        left()
    );
}

#[test]
fn memory_comes_back_at_once_when_asked_for() {
    measure("trim");
}

/// After a shortage a thread gets workers again as soon as others have ended, though their stacks
/// are their servers'.
fn after_shortage() {
    let runtime = Runtime::builder().servers(1).build().unwrap();
    let limit = |bytes: Option<u64>| {
        setrlimit(
            Resource::As,
            Rlimit {
                current: bytes,
                maximum: None,
            },
        )
        .unwrap()
    };
    for kind in [Kind::Full, Kind::Light] {
        kind.run(&runtime, || ());
        limit(Some(kib("/proc/self/status", "VmSize") as u64 + (4 << 20)));
        let (mut made, over) = (0, Arc::new(AtomicBool::new(false)));
        let stays = || {
            let over = over.clone();
            move || {
                while !over.load(Relaxed) {
                    umcg::sleep(Duration::from_millis(5));
                }
            }
        };
        while kind.build_on(&runtime, &Builder::new(), stays()).is_ok() {
            made += 1;
        }
        over.store(true, Relaxed);
        while runtime.workers() > 0 {
            std::thread::sleep(Duration::from_millis(5));
        }
        // Servers hand over their stacks when they come to it, which may be late on a busy machine.
        let again = || {
            kind.build_on(&runtime, &Builder::new(), || ())
                .map(|worker| worker.join().unwrap())
        };
        for _ in 0..20 {
            let began = Instant::now();
            while let Err(error) = again() {
                assert!(
                    began.elapsed() < Duration::from_secs(100),
                    "{kind:?}, after {made}: {error}"
                );
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        limit(None);
    }
}

#[test]
fn a_shortage_ends_with_the_workers_that_made_it() {
    measure("shortage");
}
