//! Workers that repeat something, ticks that do not stop, and a check that all of them get on.

use crate::child;
use crate::report::Report;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use umcg::rt::scheduler::Priority;
use umcg::{Builder, Runtime};

/// How many servers and workers, and whether urgent workers come from outside, which are preempted
/// for at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    pub(crate) ranked: bool,
}

/// How long one more of the workers may take to get on, without a tick by hand. All together may
/// take longer: a worker that is nearly always in malloc is seldom met outside.
const PATIENCE: Duration = Duration::from_secs(60);

fn duration() -> Duration {
    let seconds = std::env::var("UMCG_STRESS_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok());
    Duration::from_secs_f64(seconds.unwrap_or(1.0))
}

/// Runs `work` again and again in each of the shape's workers, in a process of its own, under a
/// storm of ticks: each gets on once that is over.
#[track_caller]
pub(crate) fn survives(test: &str, shape: Shape, work: impl Fn() + Copy + Send + Sync + 'static) {
    child::plays(
        test,
        &format!("{shape:?}"),
        duration() + 5 * PATIENCE,
        || weather(shape, work),
    );
}

/// A worker's report of itself.
struct Progress {
    rounds: Vec<AtomicU64>,
    over: AtomicBool,
    storm: AtomicBool,
}

fn weather(shape: Shape, work: impl Fn() + Copy + Send + Sync + 'static) {
    let mut builder = Runtime::builder()
        .servers(shape.servers)
        .preemption(Some(Duration::from_millis(1)));
    if shape.ranked {
        builder = builder.scheduler(Priority::new());
    }
    let runtime = builder.name("storm").stack_size(256 << 10).build().unwrap();
    let report = Report::prepare(runtime.handle());
    let progress = Arc::new(Progress {
        rounds: (0..shape.workers).map(|_| AtomicU64::new(0)).collect(),
        over: AtomicBool::new(false),
        storm: AtomicBool::new(true),
    });
    let workers: Vec<_> = (0..shape.workers)
        .map(|worker| {
            let progress = progress.clone();
            let servers = report.servers();
            let body = move || {
                servers.note();
                while !progress.over.load(Relaxed) {
                    work();
                    progress.rounds[worker].fetch_add(1, Relaxed);
                }
            };
            runtime.build(&Builder::new().priority(10), body).unwrap()
        })
        .collect();
    let (ticks, servers) = (progress.clone(), servers(shape.servers));
    let ticker = std::thread::spawn(move || tick(&ticks, &servers));
    let end = Instant::now() + duration();
    while Instant::now() < end {
        if shape.ranked {
            // Before each wait, as the urgent one may wait for a lock that a worker was taken off
            // with.
            drop(runtime.build(&Builder::new().priority(200), || ()).unwrap());
            std::thread::sleep(Duration::from_micros(20));
        } else {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    progress.storm.store(false, Relaxed);
    all_get_on(&progress, &report);
    progress.over.store(true, Relaxed);
    ticker.join().unwrap();
    workers
        .into_iter()
        .for_each(|worker| worker.join().unwrap());
    drop(runtime);
}

/// Ends the process if a worker does not.
fn all_get_on(progress: &Progress, report: &Report) {
    let (began, mut since, mut left) = (Instant::now(), Instant::now(), usize::MAX);
    let rounds = |worker: &AtomicU64| worker.load(Relaxed);
    let before: [u64; 64] =
        std::array::from_fn(|worker| progress.rounds.get(worker).map_or(0, rounds));
    while left > 0 {
        let now = progress
            .rounds
            .iter()
            .zip(before)
            .filter(|(worker, before)| rounds(worker) == *before)
            .count();
        if now < left {
            (left, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            report.fail(&progress.rounds, &before);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    eprintln!("all got on in {:.1} s", began.elapsed().as_secs_f64());
}

/// The kernel threads of the runtime's servers, once they have their names.
fn servers(count: usize) -> Vec<i32> {
    let named = |tid: &i32| {
        let name = std::fs::read_to_string(format!("/proc/self/task/{tid}/comm"));
        // Others of the runtime have no number.
        name.is_ok_and(|name| {
            name.trim_end()
                .strip_prefix("storm-")
                .is_some_and(|rest| rest.parse::<u32>().is_ok())
        })
    };
    loop {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let tids = tasks.filter_map(|task| task.ok()?.file_name().to_str()?.parse().ok());
        let found: Vec<i32> = tids.filter(named).collect();
        if found.len() == count {
            return found;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends ticks as the timer would, up to three at once, with odd gaps.
fn tick(progress: &Progress, servers: &[i32]) {
    let mut random = 88172645463325252u64;
    while progress.storm.load(Relaxed) {
        for server in servers {
            for _ in 0..3 {
                send(*server);
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                (0..random % 300).for_each(|_| std::hint::spin_loop());
            }
        }
        std::thread::sleep(Duration::from_micros(random % 100));
    }
}

fn send(tid: i32) {
    // A siginfo_t: signal, errno, code.
    let mut information = [0i32; 32];
    (information[0], information[2]) = (libc::SIGURG, libc::SI_TIMER);
    let process = std::process::id();
    // SAFETY: the kernel reads a siginfo_t, of this size.
    unsafe {
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            process,
            tid,
            libc::SIGURG,
            information.as_ptr(),
        )
    };
}

/// Has the process handle a signal so.
pub(crate) fn handle(signal: i32, handler: extern "C" fn(i32), flags: i32) {
    // SAFETY: zero is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = flags;
    assert_eq!(
        // SAFETY: the handlers of these tests are async-signal-safe while they do not fail.
        unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) },
        0
    );
}

/// Sends it to the calling kernel thread. To another one of the runtime's, if the caller goes on
/// there in between.
pub(crate) fn raise(signal: i32) {
    // SAFETY: no arguments.
    let thread = unsafe { libc::syscall(libc::SYS_gettid) };
    // SAFETY: it has a handler.
    unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), thread, signal) };
}

/// Whether the calling kernel thread blocks it.
pub(crate) fn is_blocked(signal: i32) -> bool {
    let mut mask = 0u64;
    // SAFETY: room for a set of 64 signals.
    unsafe {
        libc::syscall(
            libc::SYS_rt_sigprocmask,
            libc::SIG_BLOCK,
            0usize,
            &raw mut mask,
            size_of::<u64>(),
        )
    };
    mask & 1 << (signal - 1) != 0
}
