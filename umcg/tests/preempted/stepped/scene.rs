//! A worker that is stepped through a sequence, in a runtime with companions that get the server
//! whenever the worker is taken off.

use super::flag;
use crate::child;
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::rt::scheduler::{Scheduler, Wake, Why};
use umcg::rt::{Here, Runnable};
use umcg::{Builder, JoinHandle, Runtime};

/// The owner of the worker's thread-local storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Its own.
    Full,
    /// The server's. Its sequence does nothing that uses thread-local storage, malloc included, as
    /// it may be taken off anywhere and go on elsewhere.
    Light,
}

/// How long the stepped worker may take for an instruction, with all that others do in between.
const PATIENCE: Duration = Duration::from_secs(60);
/// Workers of this priority are not stepped.
const COMPANION: u8 = 1;

/// A number of the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|number| number.parse().ok())
        .unwrap_or(default)
}

/// Plays `scene` with a tick before each instruction that comes in between, in processes of their
/// own: all ticks in one process, or every n-th in each of several.
#[track_caller]
pub(crate) fn plays(test: &str, label: &str, scene: impl Fn()) {
    let stride = number("UMCG_STEP_STRIDE", 1).max(1);
    let first = number("UMCG_STEP_FIRST", 0) % stride;
    child::plays(test, label, Duration::from_secs(600), || {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            flag::end();
            usual(panic);
        }));
        if !flag::prepare(stride, first) {
            eprintln!("SKIPPED {test} {label}: nothing traps behind an instruction here");
            return;
        }
        scene();
        let seen = flag::seen();
        eprintln!(
            "{test} {label}: {} instructions, {} turns",
            seen.steps, seen.turns
        );
        assert!(seen.turns > 0, "nobody was taken off");
    });
}

/// Steps a worker of this kind through `sequence`, on one server.
#[track_caller]
pub(crate) fn steps(test: &str, kind: Kind, sequence: impl Fn() + Copy + Send + Sync + 'static) {
    plays(test, &format!("{kind:?}"), || step(kind, sequence));
}

/// The same, in a process that has done `first` before it has made any runtime.
#[track_caller]
pub(crate) fn steps_after(
    test: &str,
    label: &str,
    kind: Kind,
    first: impl Fn(),
    sequence: impl Fn() + Copy + Send + Sync + 'static,
) {
    plays(test, &format!("{label} {kind:?}"), || {
        first();
        step(kind, sequence);
    });
}

fn step(kind: Kind, sequence: impl Fn() + Copy + Send + Sync + 'static) {
    let builder = Runtime::builder()
        .servers(1)
        .scheduler(Stepped::default())
        .stack_size(256 << 10);
    // For workers that may be preempted, and no tick of its own.
    let runtime = builder
        .preemption(Some(Duration::from_secs(3600)))
        .build()
        .unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let companions = [Kind::Full, Kind::Light].map(|kind| companion(&runtime, &over, kind));
    let body = move || {
        sequence(); // initialisation, once in a process, is not stepped
        flag::know_server();
        let before = state_of_thread();
        flag::begin();
        sequence();
        flag::end();
        assert!(
            before == state_of_thread(),
            "the signal mask or the alternate stack is another one"
        );
    };
    let worker = match kind {
        Kind::Full => runtime.build(&Builder::new(), body),
        // SAFETY: its sequence is as `Kind::Light` says.
        Kind::Light => unsafe { runtime.build_light(&Builder::new(), body) },
    };
    let worker = worker.unwrap();
    watch(|| worker.is_finished(), || runtime.dump());
    worker.join().unwrap();
    over.store(true, Relaxed);
    companions
        .into_iter()
        .for_each(|companion| companion.join().unwrap());
    drop(runtime);
}

/// Waits for the worker's end. Ends the process when it does not get on.
pub(crate) fn watch(is_over: impl Fn() -> bool, dump: impl Fn() -> String) {
    let (mut last, mut since) = (flag::seen(), Instant::now());
    while !is_over() {
        std::thread::sleep(Duration::from_millis(1));
        let now = flag::seen();
        if now != last {
            (last, since) = (now, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            eprintln!("the stepped worker does not get on: {now:x?}");
            // Both allocate, and another thread may have malloc's lock.
            // SAFETY: the process ends by it.
            unsafe { libc::alarm(10) };
            eprintln!(
                "{}",
                std::fs::read_to_string("/proc/self/maps").unwrap_or_default()
            );
            eprintln!("{}", dump());
            std::process::exit(1);
        }
    }
}

/// Yields all the time. It leaves an error in the storage that a light worker shares, and wants the
/// locks of malloc and the loader.
fn companion(runtime: &Runtime, over: &Arc<AtomicBool>, kind: Kind) -> JoinHandle<()> {
    let over = over.clone();
    let body = move || {
        while !over.load(Relaxed) {
            match kind {
                // SAFETY: no descriptor: an error.
                Kind::Light => _ = unsafe { libc::close(-1) },
                Kind::Full => {
                    drop(black_box(Vec::<u8>::with_capacity(3000)));
                    each_object();
                }
            }
            umcg::yield_now();
        }
    };
    let builder = Builder::new().priority(COMPANION);
    match kind {
        Kind::Full => runtime.build(&builder, body),
        // SAFETY: it keeps nothing of the thread's.
        Kind::Light => unsafe { runtime.build_light(&builder, body) },
    }
    .unwrap()
}

/// Calls a function of the program's with the loader's lock, once.
pub(crate) fn each_object() {
    unsafe extern "C" fn first(
        _: *mut libc::dl_phdr_info,
        _: usize,
        count: *mut libc::c_void,
    ) -> i32 {
        // SAFETY: the number below.
        unsafe { *count.cast::<i32>() += 1 };
        1
    }
    let mut objects = 0i32;
    // SAFETY: the callback gets its number, and does not unwind.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut objects).cast()) };
    assert_eq!(objects, 1);
}

/// State that a handler's return might change.
fn state_of_thread() -> (u64, usize, usize) {
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
    // SAFETY: zero is a valid stack_t.
    let mut stack: libc::stack_t = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the setting.
    unsafe { libc::sigaltstack(std::ptr::null(), &mut stack) };
    (mask, stack.ss_sp.addr(), stack.ss_size)
}

/// First in, first out. A worker that is to be stepped goes on with the flag, unless the frame that
/// it was taken off with has it.
#[derive(Default)]
struct Stepped {
    ready: Mutex<VecDeque<(Runnable, Why)>>,
}

impl Scheduler for Stepped {
    fn start(&mut self, _servers: usize) {
        self.ready.get_mut().unwrap().reserve(64);
    }

    fn ready(&self, worker: Runnable, why: Why, _here: Option<&Here>) -> Wake {
        self.ready.lock().unwrap().push_back((worker, why));
        Wake::One
    }

    fn next(&self, _here: &Here) -> Option<Runnable> {
        let (worker, why) = self.ready.lock().unwrap().pop_front()?;
        match why {
            Why::Preempted => flag::pause(),
            _ if worker.priority() == COMPANION => flag::pause(),
            _ => flag::resume(),
        }
        Some(worker)
    }

    fn has_work(&self, _here: &Here) -> bool {
        !self.ready.lock().unwrap().is_empty()
    }
}
