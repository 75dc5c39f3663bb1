//! What all workers of a runtime are doing, for people.
//!
//! While the dump is taken no server begins to run a worker: each stops at its next turn, and says
//! so. One that runs a worker for longer than [`PATIENCE`] is passed over; it stops as soon as that
//! worker leaves. So all workers but those that such servers run, and those that block on helpers,
//! are suspended and stay so: their stacks can be looked at. One dump of a runtime at a time, as
//! the look is taken on the very stack that it is about.
//!
//! Only addresses are taken down meanwhile. What they are called is found out ([`symbols`]) once
//! the servers run again.

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
use umcg_core::raw::{self, Doing};

/// How long the dump waits for a server to stop.
const PATIENCE: u64 = 100_000_000;
/// The callers of a worker are looked for only where it has so many bytes of stack left for that.
const ROOM: usize = 16 << 10;
/// So many of a worker's callers are told, from the innermost on.
const MOST_CALLERS: usize = 200;
/// So many workers are described; of more, only how many there are.
const MOST: usize = 1_000;

/// A text with a paragraph a worker.
pub(crate) fn dump(shared: &RuntimeState) -> String {
    // First: the lock may have been held when the process forked.
    if shared.is_left_behind() {
        return format!(
            "runtime `{}`: left behind by a fork, with all its servers and workers\n",
            shared.name
        );
    }
    // What the kernel says of a thread is read from files.
    let _uncancelled = Uncancelled::begin();
    let _one = shared.dumping.lock();
    // Before they are stopped, for which they are woken.
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

/// Of each worker: what it does, and the addresses where its functions go on.
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

/// Calls `f` with each worker of the runtime, those among them that have ended and whose handles
/// are left.
pub(crate) fn each_worker(shared: &RuntimeState, f: &mut dyn FnMut(&'static Task)) {
    // A group comes to another runtime when its own ends; handles of workers that ended there may
    // live on.
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

/// The same, by a server of the runtime itself, which runs nothing meanwhile.
pub(crate) fn dump_by_server(shared: &RuntimeState, local: &ServerState) -> String {
    local.stop();
    let text = dump(shared);
    local.run_again();
    text
}

fn describe_runtime(text: &mut String, shared: &RuntimeState, asleep: usize) {
    let deadlines: usize = shared.seats.iter().map(|seat| seat.timers.len()).sum();
    let _ = writeln!(
        text,
        "runtime `{}`: {} workers, {} servers ({} asleep), {} deadlines, I/O by {:?}",
        shared.name,
        shared.live(),
        shared.seats.len(),
        asleep,
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
        .seats
        .iter()
        .position(|seat| seat.server().is_some_and(|server| server.runs(worker)));
    let state = match (doing, runs_on) {
        (Doing::Blocked, _) => "blocks in the kernel".to_owned(),
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
    let is_still = can_look && doing == Doing::Suspended && runs_on.is_none();
    (
        state,
        if is_still {
            callers(worker)
        } else {
            Vec::new()
        },
    )
}

/// Where the functions of a suspended worker go on, the innermost first.
fn callers(worker: raw::Worker) -> Vec<usize> {
    // Made before, as memory is not asked for on the worker's stack.
    let mut addresses = Vec::with_capacity(MOST_CALLERS);
    let mut note = |address| {
        addresses.push(address);
        if addresses.len() < MOST_CALLERS {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    };
    // SAFETY: the worker is suspended, and nobody runs it while the servers are stopped, nor
    // looks at it, as there is one dump of the runtime at a time.
    unsafe { worker.callers(ROOM, &mut note) };
    addresses
}

/// The servers are stopped; they go on when it is dropped.
struct Stopped<'a> {
    shared: &'a RuntimeState,
    /// Each of them was.
    all: bool,
}

impl<'a> Stopped<'a> {
    fn new(shared: &'a RuntimeState) -> Stopped<'a> {
        shared.stand_still();
        let deadline = clock::now() + PATIENCE;
        let all = loop {
            let stopped = shared
                .seats
                .iter()
                .all(|seat| seat.local().is_none_or(|local| local.is_stopped()));
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
