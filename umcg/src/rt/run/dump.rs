//! Dumps: the state of all workers of a runtime, for people.
//!
//! While the dump is taken, no server begins to run a worker: each stops at its next turn, and
//! publishes that. A server that runs one worker for longer than [`PATIENCE`] is passed over; it
//! stops as soon as that worker leaves. So all workers are suspended and stay so, except those that
//! such servers run and those that block on helpers. Their stacks can be read. There is one dump of
//! a runtime at a time, as a worker's own stack is used to read it.
//!
//! Only addresses are recorded meanwhile. Their names are looked up ([`symbols`]) once the servers
//! run again.

use super::{stall, symbols};
use crate::io::driver::Driver;
use crate::rt::base::clock;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server::ServerState;
use crate::rt::task::{IS_THREAD, Task, heap};
use crate::rt::wait::{joined, park};
use std::fmt::Write;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use umcg_core::Uncancelled;
use umcg_core::context::way::nap;
use umcg_core::raw::{self, Activity};

/// How long the dump waits for a server to stop.
const PATIENCE: u64 = 100_000_000;
/// A worker's callers are looked for only if it has at least this many bytes of stack left.
const ROOM: usize = 16 << 10;
/// The most callers of a worker that are printed, from the innermost on.
const MOST_CALLERS: usize = 200;
/// The most workers that are described. Of the others only the number is printed.
const MOST: usize = 1_000;

/// A text with a paragraph for each worker.
pub(crate) fn dump(shared: &RuntimeState) -> String {
    // Check this first: the lock may have been held when the process forked.
    if shared.is_left_behind() {
        return format!(
            "runtime `{}`: left behind by a fork, with all its servers and workers\n",
            shared.name
        );
    }
    // The kernel's information on a thread is read from files.
    let _uncancelled = Uncancelled::begin();
    let _one = shared.dumping.lock();
    // Count them before they are stopped: stopping wakes them.
    let asleep = shared.sleepers.asleep();
    let stopped = Stopped::new(shared);
    let mut text = String::new();
    describe_runtime(&mut text, shared, asleep);
    let (mut described, mut count, mut ended) = (Vec::new(), 0, 0);
    each_worker(shared, &mut |task| {
        if task.flags.load(Relaxed) & IS_THREAD != 0 {
            return;
        }
        if joined::has_ended(task) {
            ended += 1;
            return;
        }
        count += 1;
        if count <= MOST {
            described.push(describe(shared, task.worker(), stopped.all));
        }
    });
    drop(stopped);
    add(&mut text, described);
    if count > MOST {
        let _ = writeln!(text, "… and {} more", count - MOST);
    }
    if ended > 0 {
        let _ = writeln!(text, "\nended, but not joined: {ended}");
    }
    text
}

/// For each worker: its description, and the return addresses of its functions.
fn add(text: &mut String, described: Vec<(String, Vec<usize>)>) {
    let (states, stacks): (Vec<_>, Vec<_>) = described.into_iter().unzip();
    let any = stacks.iter().any(|stack| !stack.is_empty());
    let named = if any {
        symbols::describe(&stacks)
    } else {
        None
    };
    if any && named.is_none() {
        text.push_str(
            "no names of functions: somebody has the lock of their tables, or there is \
            no thread to look there\n",
        );
    }
    let raw = || {
        stacks.iter().map(|stack| {
            stack
                .iter()
                .map(|address| format!("  {address:#x}\n"))
                .collect()
        })
    };
    let callers: Vec<String> = named.unwrap_or_else(|| raw().collect());
    for part in states
        .into_iter()
        .zip(callers)
        .flat_map(|(state, callers)| [state, callers])
    {
        text.push_str(&part);
    }
}

/// Calls `f` with each worker of the runtime, including those that have ended and whose handles are
/// left.
pub(crate) fn each_worker(shared: &RuntimeState, f: &mut dyn FnMut(&'static Task)) {
    // When a runtime ends, its group goes to another one. Handles of the ended runtime's workers
    // may live on.
    let is_ours = |task: &Task| task.is_worker() && task.runtime.load(Relaxed) == shared.number;
    let mut ours = Vec::new();
    raw::each_light_worker(&mut |worker| {
        if worker.group() == shared.group {
            ours.push(Task::of(worker));
        }
    });
    heap::each(&mut |task| ours.push(task));
    ours.into_iter().filter(|task| is_ours(task)).for_each(f);
}

/// The same, called by a server of the runtime itself, which runs no worker meanwhile.
pub(crate) fn dump_by_server(shared: &RuntimeState, local: &ServerState) -> String {
    local.stop();
    let text = dump(shared);
    local.run_again();
    text
}

fn describe_runtime(text: &mut String, shared: &RuntimeState, asleep: usize) {
    let deadlines: usize = shared
        .servers
        .iter()
        .map(|server| server.timers.len())
        .sum();
    let servers = shared.active.most();
    let inactive = match servers.saturating_sub(shared.active.count()) {
        0 => String::new(),
        inactive => format!(", {inactive} inactive"),
    };
    let _ = writeln!(
        text,
        "runtime `{}`: {} workers, {} servers ({} asleep{}), {} deadlines, I/O by {:?}",
        shared.name,
        shared.live(),
        servers,
        asleep,
        inactive,
        deadlines,
        Driver::of(shared).kind(),
    );
}

fn describe(shared: &RuntimeState, worker: raw::Worker, can_look: bool) -> (String, Vec<usize>) {
    let task = Task::of(worker);
    let name = worker.name();
    let name = if name.is_empty() { "(no name)" } else { &name };
    let doing = worker.doing();
    let runs_on = shared
        .servers
        .iter()
        .position(|server| server.server().is_some_and(|server| server.runs(worker)));
    let state = match (doing, runs_on) {
        (Activity::Blocked, _) => "blocks in the kernel".to_owned(),
        (_, Some(server)) => format!(
            "runs on server {server}{} (so no backtrace)",
            stall::describe(shared, server)
        ),
        _ => match task.reason() {
            _ if park::is_notified(task)
                && task.waiter.load(Relaxed).is_null()
                && task.waits_at.load(Relaxed).is_null() =>
            {
                "ready".to_owned()
            }
            "" => "ready, has not waited yet".to_owned(),
            reason => format!("waits: {reason}"),
        },
    };
    let state = format!("\nworker {:#x} {name}: {state}\n", worker.id());
    let is_still = can_look && doing == Activity::Suspended && runs_on.is_none();
    (
        state,
        if is_still {
            callers(worker)
        } else {
            Vec::new()
        },
    )
}

/// The return addresses of a suspended worker's functions, the innermost first.
fn callers(worker: raw::Worker) -> Vec<usize> {
    // Allocated before, as the worker's stack must not be used to allocate.
    let mut addresses = Vec::with_capacity(MOST_CALLERS);
    let mut note = |address| {
        addresses.push(address);
        if addresses.len() < MOST_CALLERS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    // SAFETY: the worker is suspended. While the servers are stopped no thread runs it. No other
    // thread reads its stack, as there is one dump of the runtime at a time.
    unsafe { worker.callers(ROOM, &mut note) };
    addresses
}

/// The servers are stopped until this is dropped.
struct Stopped<'a> {
    shared: &'a RuntimeState,
    /// Whether every server was stopped.
    all: bool,
}

impl<'a> Stopped<'a> {
    fn new(shared: &'a RuntimeState) -> Stopped<'a> {
        shared.stand_still();
        let deadline = clock::now() + PATIENCE;
        let all = loop {
            let stopped = shared
                .servers
                .iter()
                .all(|server| server.local().is_none_or(|local| local.is_stopped()));
            if stopped || clock::now() >= deadline {
                break stopped;
            }
            nap(100_000);
        };
        Stopped { shared, all }
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.shared.go_on();
    }
}
