//! The memory that workers need, and the behaviour when there is no more. Each measurement is made
//! in a process of its own.
//!
//! `UMCG_MEMORY_WORKERS` is how many idle light workers are measured; 200,000 where it is not set.

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::Write;
use std::process::{Command, Output};
use umcg::{Error, Event, Ready, Server, WorkerId};

/// Names the measurement for the process that makes it.
const MEASURE: &str = "UMCG_TEST_MEASURE";
/// The most memory an idle light worker may need, in bytes.
const BYTES_A_WORKER: usize = 4600;

/// Past the test runner, which would keep the words to itself.
fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// A process that makes one of the measurements.
#[test]
fn measurement() {
    match std::env::var(MEASURE).as_deref() {
        Ok("idle") => idle_workers(),
        Ok("memory") => until_memory_ends(),
        Ok("mappings") => until_mappings_end(),
        Ok("locked") => with_locked_memory(),
        _ => return, // on its own this is no test
    }
    std::process::exit(0); // the workers that wait are not to be collected
}

fn measure(what: &str, settings: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "measurement", "--nocapture"])
        .env(MEASURE, what)
        .envs(settings.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{what}: {:?}\n{said}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
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

fn mappings() -> usize {
    std::fs::read_to_string("/proc/self/maps")
        .unwrap()
        .lines()
        .count()
}

/// A worker that waits twice.
fn waiting(index: usize) -> Result<Ready, Error> {
    let body = || (0..2).for_each(|_| umcg::wait().unwrap());
    // SAFETY: it only waits.
    unsafe { umcg::light(WorkerId::from_index(index as u64)).spawn(body) }
}

/// Runs a worker until it waits.
fn run(server: &Server, ready: Ready) -> Ready {
    match server.switch_to(ready) {
        Event::Wait(ready) => ready,
        other => panic!("{other:?}"),
    }
}

fn workers() -> usize {
    std::env::var("UMCG_MEMORY_WORKERS")
        .map_or(200_000, |text| text.parse().expect("UMCG_MEMORY_WORKERS"))
}

fn idle_workers() {
    let server = Server::register().unwrap();
    let mut idle = Vec::with_capacity(workers());
    idle.push(run(&server, waiting(0).unwrap()));
    let before = used();
    for index in 1..workers() {
        idle.push(run(
            &server,
            waiting(index).unwrap_or_else(|error| panic!("worker {index}: {error}")),
        ));
    }
    let bytes = (used() - before) / (workers() - 1);
    println!(
        "{} idle light workers: {bytes} bytes each, {} mappings",
        workers(),
        mappings()
    );
    assert!(
        cfg!(debug_assertions) || bytes <= BYTES_A_WORKER,
        "{bytes} bytes each"
    );
    // They are alive, from the first to the last.
    for ready in idle {
        std::mem::forget(run(&server, ready));
    }
}

/// Without optimisation the frames are larger, and only the number of workers is checked.
#[test]
fn an_idle_light_worker_costs_little() {
    if std::env::var_os("UMCG_NO_GUARD_INSTALL").is_some() || !guards_are_markers() {
        return say(
            "SKIPPED: this kernel has no guard markers (Linux 6.13), so there cannot be so many \
             stacks",
        );
    }
    if kib("/proc/meminfo", "MemAvailable") < workers() * 3 * BYTES_A_WORKER {
        return say(&format!(
            "SKIPPED: not enough memory for {} workers",
            workers()
        ));
    }
    let output = measure("idle", &[]);
    print!("{}", String::from_utf8_lossy(&output.stdout));
}

/// Whether the kernel marks guards in the page table, where they cost no mapping.
fn guards_are_markers() -> bool {
    const GUARD_INSTALL: i32 = 102;
    let (access, kind) = (ProtFlags::READ, MapFlags::PRIVATE);
    // SAFETY: a new page, wherever there is room.
    let page = unsafe { mmap_anonymous(std::ptr::null_mut(), 4096, access, kind) }.unwrap();
    // SAFETY: the page is ours, and no other thread touches it.
    unsafe { libc::madvise(page, 4096, GUARD_INSTALL) == 0 }
}

/// Spawns until there is no more, and says why there is none.
fn spawn_all(workers: &mut Vec<Ready>) -> Error {
    loop {
        match waiting(workers.len()) {
            Ok(ready) => workers.push(ready),
            Err(error) => return error,
        }
    }
}

fn until_memory_ends() {
    let server = Server::register().unwrap();
    let mut workers = Vec::with_capacity(100_000);
    let limit = kib("/proc/self/status", "VmSize") as u64 + (256 << 20);
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
        let error = spawn_all(&mut workers);
        assert!(format!("{error:?}").contains("OutOfMemory"), "{error:?}");
        assert_eq!(
            format!("{:?}", waiting(0).unwrap_err()),
            format!("{error:?}"),
            "it stays so"
        );
        counts.push(workers.len());
        for ready in workers.drain(..) {
            let ready = run(&server, run(&server, ready));
            assert!(matches!(server.switch_to(ready), Event::Exit(_)));
        }
    }
    assert!(
        counts[0] > 1000 && counts.iter().all(|count| *count == counts[0]),
        "{counts:?}"
    );
}

/// The end of memory is an error, which is the same the next time, and costs nothing: as many
/// workers as before can be made once these have ended.
#[test]
fn the_end_of_memory_is_an_error() {
    measure("memory", &[]);
}

fn until_mappings_end() {
    let server = Server::register().unwrap();
    let mut workers = Vec::new();
    let error = spawn_all(&mut workers);
    assert!(
        format!("{error:?}").contains("TooManyMappings"),
        "{error:?}"
    );
    assert!(error.to_string().contains("vm.max_map_count"), "{error}");
    // The rest of the program goes on.
    std::thread::spawn(|| vec![1u8; 256 << 20]).join().unwrap();
    for ready in workers {
        std::mem::forget(run(&server, ready));
    }
}

/// Without guard markers the number of stacks is bounded. The error names the bound, and the
/// program keeps mappings for itself.
#[test]
fn the_end_of_mappings_is_an_error() {
    measure("mappings", &[("UMCG_NO_GUARD_INSTALL", "1")]);
}

/// Locked memory takes no guard markers, and guards cost two mappings there: all the same there are
/// stacks, of sizes that there were before and of new ones, and no more memory is locked than
/// theirs.
fn with_locked_memory() {
    let server = Server::register().unwrap();
    let mut workers = vec![run(&server, waiting(0).unwrap())];
    let mut lock = |flags| {
        // SAFETY: no precondition.
        if unsafe { libc::mlockall(flags) } != 0 {
            return say(&format!(
                "SKIPPED: mlockall: {}",
                std::io::Error::last_os_error()
            ));
        }
        let before = kib("/proc/self/status", "VmRSS");
        for index in 0..100 {
            workers.push(run(&server, waiting(index).unwrap()));
            let larger = umcg::light(WorkerId::from_index(index as u64)).stack_size(128 << 10);
            // SAFETY: it only waits.
            workers.push(run(
                &server,
                unsafe { larger.spawn(|| (0..2).for_each(|_| umcg::wait().unwrap())) }.unwrap(),
            ));
        }
        let more = kib("/proc/self/status", "VmRSS") - before;
        assert!(
            more < (200 * (128 + 64)) << 10,
            "{more} more bytes are in memory"
        );
    };
    lock(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT);
    lock(libc::MCL_CURRENT | libc::MCL_FUTURE);
    // SAFETY: no precondition.
    unsafe { libc::munlockall() };
    workers.push(run(&server, waiting(0).unwrap()));
    for ready in workers {
        std::mem::forget(run(&server, ready));
    }
}

#[test]
fn locked_memory_has_stacks() {
    measure("locked", &[]);
}
