//! Registers this room with the process, once: for forks, overflows of workers' stacks and the ends
//! of threads. The child of a fork has one plain thread, no servers and no workers.

use super::worker::Worker;
use super::{Owner, Role, WORKERS, group, helper, light, operation, role_held, server};
use super::{set_role, thread, tick};
use crate::os::fork::Part;
use crate::os::thread_end::{self, Room};
use crate::uth::{self, overflow, record::UthRecord};
use rustix::io::Errno;
use std::sync::atomic::Ordering::Relaxed;

/// Registers this room and those below it for forks and overflows.
pub(crate) fn install() -> Result<(), Errno> {
    static PART: Part = Part::new(Part::UMCG, before, after);
    uth::fork::install()?;
    PART.enter()?;
    group::when_released(|node| thread::release(Worker::of(node)));
    overflow::ask_of(running);
    overflow::install();
    Ok(())
}

/// Makes the calling thread, or the worker whose context this is, end properly.
pub(crate) fn watch_end() -> Result<(), Errno> {
    if thread_end::watch(Room::Umcg, operation::thread_ended) {
        Ok(())
    } else {
        Err(Errno::AGAIN)
    }
}

/// An [`overflow::FindRunning`].
fn running() -> Option<*const UthRecord> {
    match role_held() {
        Role::Worker(worker, _) | Role::Blocked(worker) => Some(worker.record.load(Relaxed)),
        Role::Plain | Role::Server(_) => None,
    }
}

/// Takes all locks of this room, in the order in which they nest.
fn before() {
    tick::before_fork();
    group::before_fork();
    helper::POOL.before_fork();
    light::before_fork();
    thread::SPARE.take();
    server::SPARE.take();
}

/// # Safety
/// As for [`Part::new`].
unsafe fn after(in_child: bool) {
    // SAFETY: `before` took it.
    drop(unsafe { server::SPARE.adopt() });
    // SAFETY: likewise.
    drop(unsafe { thread::SPARE.adopt() });
    // SAFETY: likewise.
    unsafe { light::forked() };
    // SAFETY: likewise.
    unsafe { helper::POOL.forked(in_child) };
    // SAFETY: likewise.
    unsafe { group::forked(in_child) };
    // SAFETY: likewise.
    unsafe { tick::forked(in_child) };
    if in_child {
        thread::forked_in_child();
        WORKERS.clear();
        set_role(Owner::Nobody);
    }
}
