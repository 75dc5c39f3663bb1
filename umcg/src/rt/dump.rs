//! What all workers of a runtime are doing, for people.
//!
//! While the dump is taken no server begins to run a worker: each stops at its next turn, and says so. One that runs a worker for longer than [`PATIENCE`] is
//! passed over; it stops as soon as that worker leaves. So all workers but those that such servers run, and those that block on helpers, are
//! suspended and stay so: their stacks can be looked at. One dump of a runtime at a time, as the look
//! is taken on the very stack that it is about.

use super::join;
use super::on_thread;
use super::park;
use super::runtime::Shared;
use super::server::Local;
use super::stall;
use super::sync::Hold;
use super::task::{IS_THREAD, Task};
use super::time;
use std::backtrace::Backtrace;
use std::ffi::c_void;
use std::fmt::Write;
use std::ptr::{null, null_mut};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use umcg_core::Uncancelled;
use umcg_core::context::way::nap;
use umcg_core::raw::{self, Doing};

/// How long the dump waits for a server to stop.
const PATIENCE: u64 = 100_000_000;
/// How long it waits for the lock of Rust's backtraces.
const LOCK_PATIENCE: u64 = 2_000_000_000;
/// A backtrace is taken only where the worker has so many bytes of stack left for that.
const ROOM: usize = 16 << 10;
/// So many workers are described; of more, only how many there are.
const MOST: usize = 1_000;

/// A text with a paragraph a worker.
pub(crate) fn dump(shared: &Shared) -> String {
    // First: the lock may have been held when the process forked.
    if shared.is_left_behind() {
        return format!("runtime `{}`: left behind by a fork, with all its servers and workers\n", shared.name);
    }
    // What the kernel says of a thread is read from files.
    let _uncancelled = Uncancelled::begin();
    let _one = shared.dumping.lock();
    // Before they are stopped, for which they are woken.
    let asleep = shared.sleepers.asleep();
    let stopped = shared.stop();
    let can_look = stopped.all && backtraces_are_free();
    let mut text = String::new();
    describe_runtime(&mut text, shared, asleep);
    if stopped.all && !can_look {
        text.push_str("no backtraces: somebody has their lock, or there is no thread to find that out\n");
    }
    let (mut count, mut ended) = (0, 0);
    each_worker(shared, &mut |task| {
        let worker = task.worker();
        if task.flags.load(Relaxed) & IS_THREAD != 0 {
            return;
        }
        if join::has_ended(task) {
            ended += 1;
            return;
        }
        count += 1;
        if count <= MOST {
            describe(&mut text, shared, worker, can_look);
        }
    });
    if count > MOST {
        let _ = writeln!(text, "… and {} more", count - MOST);
    }
    if ended > 0 {
        let _ = writeln!(text, "\nended, but not joined: {ended}");
    }
    drop(stopped);
    text
}

/// Calls `f` with each worker of the runtime, those among them that have ended and whose handles are left.
pub(crate) fn each_worker(shared: &Shared, f: &mut dyn FnMut(&'static Task)) {
    // A group comes to another runtime when its own ends; handles of workers that ended there may live on.
    let is_ours = |task: &Task| task.is_worker() && task.runtime.load(Relaxed) == shared.number;
    let mut ours = Vec::new();
    raw::each_light_worker(&mut |worker| {
        if worker.group() == shared.group {
            ours.push(Task::of(worker));
        }
    });
    on_thread::each(&mut |task| ours.push(task));
    ours.into_iter().filter(|task| is_ours(task)).for_each(f);
}

/// The same, by a server of the runtime itself, which runs nothing meanwhile.
pub(crate) fn dump_by_server(shared: &Shared, local: &Local) -> String {
    local.stop();
    let text = dump(shared);
    local.run_again();
    text
}

fn describe_runtime(text: &mut String, shared: &Shared, asleep: usize) {
    let deadlines: usize = shared.seats.iter().map(|seat| seat.timers.len()).sum();
    let _ = writeln!(
        text,
        "runtime `{}`: {} workers, {} servers ({} asleep), {} deadlines, I/O by {:?}",
        shared.name,
        shared.live(),
        shared.seats.len(),
        asleep,
        deadlines,
        shared.driver.kind(),
    );
}

fn describe(text: &mut String, shared: &Shared, worker: raw::Worker, can_look: bool) {
    let task = Task::of(worker);
    let name = worker.name();
    let name = if name.is_empty() { "(no name)" } else { &name };
    let doing = worker.doing();
    let runs_on = shared.seats.iter().position(|seat| seat.server().is_some_and(|server| server.runs(worker)));
    let state = match (doing, runs_on) {
        (Doing::Blocked, _) => "blocks in the kernel".to_owned(),
        (_, Some(server)) => format!("runs on server {server}{} (so no backtrace)", stall::describe(shared, server)),
        _ => match task.reason() {
            _ if park::is_notified(task) && task.waiter.load(Relaxed).is_null() && task.waits_at.load(Relaxed).is_null() => {
                "ready".to_owned()
            }
            "" => "ready, has not waited yet".to_owned(),
            reason => format!("waits: {reason}"),
        },
    };
    let _ = writeln!(text, "\nworker {:#x} {name}: {state}", worker.id());
    if can_look && doing == Doing::Suspended && runs_on.is_none() {
        if let Some(trace) = backtrace(worker) {
            let _ = write!(text, "{trace}");
        }
    }
}

/// Whether the lock is free that Rust's library has for all backtraces of the process. A worker
/// that was preempted with it keeps it for good. So does a thread that prints a panic to a pipe that
/// is full. So another thread is sent ahead; it is left behind if it does not come back. Who takes
/// the lock only later, while the dump is taken, is waited for.
fn backtraces_are_free() -> bool {
    extern "C" fn ahead(is_free: *mut c_void) -> *mut c_void {
        drop(Backtrace::force_capture());
        // SAFETY: the reference was given to this thread.
        unsafe { Arc::from_raw(is_free.cast::<AtomicBool>()) }.store(true, Relaxed);
        null_mut()
    }
    let is_free = Arc::new(AtomicBool::new(false));
    let other = Arc::into_raw(Arc::clone(&is_free)).cast_mut();
    let mut thread = 0;
    // Not one of Rust's threads, which ends the process where it gets no memory for its signal stack.
    let hold = Hold::begin();
    // SAFETY: `ahead` takes the reference that it is given.
    let make = || unsafe { libc::pthread_create(&raw mut thread, null(), ahead, other.cast()) };
    let made = umcg_core::signal::without(make);
    drop(hold);
    if made != 0 {
        // SAFETY: nobody has it.
        drop(unsafe { Arc::from_raw(other) });
        return false;
    }
    // SAFETY: made above, and joined by nobody.
    unsafe { libc::pthread_detach(thread) };
    let deadline = time::now() + LOCK_PATIENCE;
    while !is_free.load(Relaxed) && time::now() < deadline {
        nap(100_000);
    }
    is_free.load(Relaxed)
}

/// Where a suspended worker stands.
fn backtrace(worker: raw::Worker) -> Option<Backtrace> {
    let mut trace = None;
    // SAFETY: the worker is suspended, and nobody runs it while the servers are stopped, nor
    // inspects it, as there is one dump of the runtime at a time.
    let looked = unsafe { worker.inspect(ROOM, &mut || trace = Some(Backtrace::force_capture())) };
    if looked { trace } else { None }
}

/// The servers are stopped; they go on when it is dropped.
struct Stopped<'a> {
    shared: &'a Shared,
    /// Each of them was.
    all: bool,
}

impl Shared {
    fn stop(&self) -> Stopped<'_> {
        self.stand_still();
        let deadline = time::now() + PATIENCE;
        let all = loop {
            let stopped = self.seats.iter().all(|seat| seat.local().is_none_or(|local| local.is_stopped()));
            if stopped || time::now() >= deadline {
                break stopped;
            }
            nap(100_000);
        };
        Stopped { shared: self, all }
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.shared.go_on();
    }
}
