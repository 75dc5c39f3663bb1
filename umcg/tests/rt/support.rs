//! The base of all tests here.

use std::io::Write;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Once};
use std::time::{Duration, Instant};
use umcg::Runtime;
use umcg::rt::{DriverKind, RuntimeBuilder};

// Beside this file also where this file belongs to another program.
#[allow(dead_code, reason = "not all of it is used everywhere")]
#[path = "forks.rs"]
pub(crate) mod forks;
#[path = "kind.rs"]
mod kind;

pub(crate) use kind::{KINDS, Kind};

/// How long a test may take before the watchdog ends the process: far longer than on any machine
/// that is only slow, or stands still now and then.
const PATIENCE: Duration = Duration::from_secs(240);

/// Longer than any test.
pub(crate) const HOUR: Duration = Duration::from_secs(3600);

/// 1, 2, as many as CPUs, and four times that.
pub(crate) fn server_counts() -> Vec<usize> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let mut counts = vec![1, 2, cpus, 4 * cpus];
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// A test with a runtime of each number of servers, and workers of each kind.
pub(crate) fn over(name: &'static str, test: impl Fn(&Runtime, Kind)) {
    for servers in server_counts() {
        for kind in KINDS {
            // Without optimisation frames are large.
            with(
                name,
                servers,
                Runtime::builder().stack_size(256 << 10),
                |runtime| test(runtime, kind),
            );
        }
    }
}

/// A test with a runtime of each number of servers.
pub(crate) fn over_servers(name: &'static str, test: impl Fn(&Runtime)) {
    for servers in server_counts() {
        with(name, servers, Runtime::builder(), &test);
    }
}

/// A test with each driver, too.
pub(crate) fn over_drivers(name: &'static str, test: impl Fn(&Runtime, Kind)) {
    for driver in [DriverKind::Epoll, DriverKind::IoUring] {
        for (servers, kind) in server_counts()
            .into_iter()
            .flat_map(|servers| KINDS.map(|kind| (servers, kind)))
        {
            if Runtime::builder()
                .servers(1)
                .driver(driver)
                .build()
                .is_err()
            {
                say(&format!(
                    "SKIPPED: {name} with {driver:?}, which this kernel does not give us"
                ));
                break;
            }
            with(
                name,
                servers,
                Runtime::builder().driver(driver),
                |runtime| test(runtime, kind),
            );
        }
    }
}

/// A test with one runtime: started, watched, and checked for remains.
pub(crate) fn with(
    name: &'static str,
    servers: usize,
    builder: RuntimeBuilder,
    test: impl FnOnce(&Runtime),
) {
    silence_what_is_expected();
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let label = format!("rt{}", NUMBER.fetch_add(1, Relaxed));
    let runtime = Arc::new(builder.servers(servers).name(&label).build().unwrap());
    let watchdog = Watchdog::start(format!("{name}, {servers} servers"), &runtime);
    let tested = catch_unwind(AssertUnwindSafe(|| {
        test(&runtime);
        eventually("all workers end", || runtime.workers() == 0);
    }));
    let mut last = runtime;
    let runtime = loop {
        match Arc::try_unwrap(last) {
            Ok(runtime) => break runtime,
            Err(shared) => last = shared,
        }
        std::thread::yield_now();
    };
    if let Err(panic) = tested {
        // Its workers may wait for events that do not come any more, and it would wait for them.
        let _ = runtime.shutdown_timeout(Duration::from_millis(100));
        resume_unwind(panic);
    }
    drop(runtime);
    eventually("all threads end", || {
        threads(&format!("{label}-")).is_empty()
    });
    drop(watchdog);
}

/// The kernel threads whose names begin so.
pub(crate) fn threads(prefix: &str) -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let named = |tid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
        name.is_ok_and(|name| name.starts_with(prefix))
    };
    tasks
        .filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok())
        .filter(named)
        .collect()
}

/// Waits until it is so: as a thread or a worker.
#[track_caller]
pub(crate) fn eventually(what: &str, so: impl Fn() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(
            start.elapsed() < PATIENCE / 2,
            "not so after {:?}: {what}",
            start.elapsed()
        );
        umcg::sleep(Duration::from_micros(300));
    }
}

/// The library's output where a test has it print that.
const EXPECTED: [&str; 2] = [
    "a worker of a scope panicked",
    "a worker-local is used while its value is being made",
];

/// The same, after the name of a worker.
const EXPECTED_END: &str = " waits for its own end";

/// Panics whose message begins with `expected` are not printed.
pub(crate) fn silence_what_is_expected() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        let expected = |panic: &PanicHookInfo<'_>| {
            let payload = panic.payload();
            let words = payload
                .downcast_ref::<String>()
                .map(String::as_str)
                .or(payload.downcast_ref().copied());
            words.is_none_or(|words: &str| {
                let begins = ["expected", "timeout: "]
                    .iter()
                    .any(|begin| words.starts_with(begin));
                begins || EXPECTED.contains(&words) || words.ends_with(EXPECTED_END)
            })
        };
        std::panic::set_hook(Box::new(move |panic| {
            if !expected(panic) {
                before(panic);
            }
        }));
    });
}

/// Past the test runner, which would keep the words to itself.
pub(crate) fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}

/// Ends the process with a dump when a test hangs.
struct Watchdog {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Watchdog {
    fn start(name: String, runtime: &Arc<Runtime>) -> Watchdog {
        let over = Arc::new(AtomicBool::new(false));
        let (seen, runtime) = (over.clone(), Arc::downgrade(runtime));
        let thread = std::thread::spawn(move || {
            let start = Instant::now();
            while !seen.load(Relaxed) {
                std::thread::park_timeout(Duration::from_secs(1));
                if start.elapsed() > PATIENCE {
                    say(&format!("{name}: hangs"));
                    // The dump may hang as well.
                    std::thread::spawn(|| {
                        std::thread::sleep(Duration::from_secs(10));
                        std::process::abort();
                    });
                    say(&runtime
                        .upgrade()
                        .map_or_else(|| "in its drop".to_owned(), |runtime| runtime.dump()));
                    std::process::abort();
                }
            }
        });
        Watchdog {
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Counts its drops.
#[derive(Debug)]
pub(crate) struct Counted(pub(crate) Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

pub(crate) fn counter() -> Arc<AtomicUsize> {
    Arc::new(AtomicUsize::new(0))
}

/// A panic whose payload panics when it is dropped.
pub(crate) struct PanicsAgain;

impl Drop for PanicsAgain {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("again"));
    }
}

pub(crate) fn flag() -> Arc<AtomicBool> {
    Arc::new(AtomicBool::new(false))
}

/// Set, to the name of a test, for a process that runs the test's child.
const CHILD: &str = "UMCG_TEST_CHILD";

/// Whether this process is to run the child of the test of this name.
pub(crate) fn is_child(test: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|name| name == test)
}

/// The command that runs a test of this binary alone, in a process that knows that it is the child.
pub(crate) fn child_arguments(test: &str) -> [String; 3] {
    [
        "--exact".to_owned(),
        test.to_owned(),
        "--nocapture".to_owned(),
    ]
}

/// The command that runs a test of this binary alone, in a process of its own.
pub(crate) fn child_command(test: &str) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "300"])
        .arg(std::env::current_exe().unwrap());
    command
        .args(child_arguments(test))
        .env(CHILD, test)
        .env("RUST_BACKTRACE", "0");
    command
}

/// Runs a test of this binary alone, in a process of its own.
pub(crate) fn child(test: &str) -> Output {
    child_command(test).output().unwrap()
}

/// The same, and it has to end well.
#[track_caller]
pub(crate) fn child_succeeds(test: &str) {
    let output = child(test);
    let (said, complained) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(
        output.status.success(),
        "{test}: {:?}\n{said}\n{complained}",
        output.status
    );
}

/// For a process that another program starts.
pub(crate) fn child_variable(test: &str) -> (&'static str, String) {
    (CHILD, test.to_owned())
}
