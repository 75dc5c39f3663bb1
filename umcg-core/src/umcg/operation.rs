//! The operations of the interface, for callers whose role is known.

use super::group::Group;
use super::idle::{EventKind, Give, Hand, WaitOutcome};
use super::server::Server;
use super::thread::Reservation;
use super::worker::{Inside, PREEMPT_WANTED, Worker};
use super::{
    Owner, Role, blocking, is_apart, light, preempt, process, role, set_role, thread, tick,
};
use crate::uth;
use rustix::io::Errno;
use std::sync::atomic::{Ordering::*, compiler_fence};
use umcg_context::local;

/// Makes the caller a server. `interval` is the default interval of the preemption tick.
pub(crate) fn register_server(
    group: &'static Group,
    interval: u64,
) -> Result<&'static Server, Errno> {
    if !matches!(role(), Role::Plain) || is_apart() {
        return Err(Errno::INVAL);
    }
    process::install()?;
    process::watch_end()?;
    let server = Server::make(group).map_err(|_| Errno::NOMEM)?;
    if let Err(error) = preempt::start(&server.tick, interval) {
        server.unmake();
        return Err(error);
    }
    set_role(Owner::Server(server));
    local::set_holds(1); // see `Inside`
    Ok(server)
}

/// Reserves the resources that a thread needs to become a worker: see [`Reservation`].
pub(crate) fn reserve() -> Result<Reservation, Errno> {
    process::install()?;
    Reservation::new()
}

/// Makes the calling pthread a worker. Returns when a server runs it. `interval` is the default
/// interval of the preemption tick.
pub(crate) fn register_worker(
    group: &'static Group,
    id: u64,
    interval: u64,
) -> Result<&'static Worker, Errno> {
    register_reserved(reserve()?, group, id, interval)
}

/// Likewise, with the resources that were reserved for it.
pub(crate) fn register_reserved(
    reserved: Reservation,
    group: &'static Group,
    id: u64,
    interval: u64,
) -> Result<&'static Worker, Errno> {
    process::watch_end()?;
    thread::register(reserved, group, id, interval)
}

/// Makes the calling server a plain thread.
pub(crate) fn unregister_server(server: &'static Server) {
    set_role(Owner::Nobody);
    local::set_holds(0);
    tick::stop(&server.tick);
    server.unmake();
}

/// Settles a worker's way of leaving, before the event is delivered.
#[inline]
pub(crate) fn settle(worker: &'static Worker, kind: EventKind, hand: Hand, deadline: Option<u64>) {
    match kind {
        EventKind::Block => blocking::settle(worker),
        EventKind::Exit if worker.is_light() => light::settle_exit(worker),
        EventKind::Exit => thread::settle_exit(worker),
        EventKind::Wait | EventKind::Preempt | EventKind::Wake | EventKind::Timeout => {
            worker.lists().hand_over(&worker.node, hand, deadline)
        }
    }
}

/// Waits as an idle server.
pub(crate) fn wait(
    server: &'static Server,
    deadline: Option<u64>,
    hand: Hand,
    room: usize,
    give: Give<'_>,
) -> WaitOutcome {
    // A tick that came while the server did something else interrupts nothing now.
    server.tick.take_interrupted();
    server
        .group()
        .lists
        .wait(&server.seat, deadline, hand, room, give, &|| {
            server.tick.take_interrupted()
        })
}

/// Waits as a server until `worker`, found by this tid, is no longer BLOCKED, or has another tid.
/// Returns false when a signal handler ran.
pub(crate) fn wait_for(server: &'static Server, worker: &'static Worker, tid: u32) -> bool {
    server.tick.take_interrupted();
    worker
        .node
        .wait_unblocked(tid, &|| server.tick.take_interrupted())
}

/// The calling worker, which `server` runs, gives the processor back. Returns false when its
/// deadline passed before a server ran it again.
///
/// # Safety
/// Both come from the same [`caller`](super::caller).
#[inline]
pub(crate) unsafe fn worker_wait(
    inside: Inside,
    server: &'static Server,
    deadline: Option<u64>,
) -> bool {
    let worker = inside.0;
    // SAFETY: the caller is the worker, running, inside.
    unsafe { worker.leave(server, EventKind::Wait, deadline) };
    !worker.node.take_timed_out()
}

/// The calling worker, which `server` runs, gives the processor to `next`. Returns false as
/// `worker_wait` does.
///
/// # Safety
/// As `worker_wait`; `next` is another worker, which the caller has claimed or taken.
#[inline]
pub(crate) unsafe fn worker_switch(
    inside: Inside,
    server: &'static Server,
    next: &'static Worker,
    deadline: Option<u64>,
) -> bool {
    let worker = inside.0;
    // SAFETY: the caller is the worker, running, inside; for `next` passed on.
    unsafe { worker.leave_to(server, next, deadline) };
    !worker.node.take_timed_out()
}

/// Begins a critical section of the calling worker.
pub(crate) fn critical_begin(worker: &'static Worker) {
    worker
        .critical
        .store(worker.critical.load(Relaxed) + 1, Relaxed);
    compiler_fence(SeqCst);
}

/// Ends a critical section. Returns false when there is none.
pub(crate) fn critical_end(worker: &'static Worker) -> bool {
    compiler_fence(SeqCst);
    let critical = worker.critical.load(Relaxed);
    if critical & !PREEMPT_WANTED == 0 {
        return false;
    }
    worker.critical.store(critical - 1, Relaxed);
    if critical - 1 == PREEMPT_WANTED {
        preempt::give_way();
    }
    true
}

/// Names the calling worker.
pub(crate) fn set_name(worker: &'static Worker, name: &str) {
    match &worker.home {
        Some(home) => {
            let mut kept = home.name.lock();
            kept.clear();
            kept.push_str(name);
        }
        None => {
            if let Some(uth) = uth::current() {
                uth.set_name(name);
            }
        }
    }
}

/// Called when the calling thread ends and its storage may still have a role.
pub(crate) fn thread_ended() {
    match role() {
        Role::Plain => {}
        Role::Server(server) => unregister_server(server),
        Role::Worker(worker, _) | Role::Blocked(worker) if worker.is_light() => {
            if let Some(uth) = uth::current() {
                uth::die(uth.0, "ended the kernel thread that it ran on");
            }
        }
        Role::Worker(worker, _) | Role::Blocked(worker) => thread::unregister(worker),
    }
}
