//! Roles: which role the calling flow has for the library, by a word of the storage that it runs
//! with.

use super::guest;
use super::server::Server;
use super::worker::{Carrier, Helper, Inside, Worker};
use crate::identity::credentials::{StorageOwners, Takeover};
use umcg_context::local::{self, Hold};

/// The caller's role.
#[derive(Clone, Copy)]
pub(crate) enum Role {
    Plain,
    /// A server, in its own flow.
    Server(&'static Server),
    /// A worker that a server runs.
    Worker(&'static Worker, &'static Server),
    /// A worker in a blocking scope.
    Blocked(&'static Worker),
}

const SERVER: usize = 1;
const WORKER: usize = 2;
const HELPER: usize = 3;
/// Combined with any of them, or alone: the flow stands [apart].
const APART: usize = 4;
const TAG: usize = 7;

/// The caller's role. The worker in it always is the caller. By preemption, its server may be
/// another one as soon as this has returned. Code that needs the server calls [`caller`].
#[inline(always)]
pub(crate) fn role() -> Role {
    let _hold = Hold::begin();
    role_held()
}

/// Like [`Role`], but a running worker is inside the library from here on. So it stays with this
/// server until it leaves.
pub(crate) enum CallerRole {
    Server(&'static Server),
    Worker(Inside, &'static Server),
    /// A plain thread, or a worker in a blocking scope.
    Neither,
}

/// Returns the role and enters the library. Requires hold count 0: overwrites it.
#[inline(always)]
pub(crate) fn caller() -> CallerRole {
    local::set_holds(1); // a server's count is 1 all the time
    match role_held() {
        Role::Server(server) => CallerRole::Server(server),
        Role::Worker(worker, server) => CallerRole::Worker(Inside(worker), server),
        Role::Plain | Role::Blocked(_) => {
            local::set_holds(0);
            CallerRole::Neither
        }
    }
}

/// The caller's role, from the word of the thread-local storage it runs with. Preemption in the
/// middle of this would mix two servers, so the caller holds, or is a signal handler.
///
/// A sharing worker's server comes from that word, not from the worker. So the way back to the
/// server depends on nothing that the server wrote just before, and the processor need not wait for
/// such a store.
#[inline(always)]
pub(crate) fn role_held() -> Role {
    role_of(local::task() as usize)
}

/// The role that the caller has without standing [apart]. The same precondition as [`role_held`].
pub(crate) fn role_beneath() -> Role {
    role_of(local::task() as usize & !APART)
}

#[inline(always)]
fn role_of(word: usize) -> Role {
    let address = word & !TAG;
    if word & TAG == SERVER {
        // SAFETY: `set_role` stored a server; descriptors are never freed.
        let server: &'static Server = unsafe { &*(address as *const Server) };
        server
            .current
            .get()
            .map_or(Role::Server(server), |worker| Role::Worker(worker, server))
    } else if word & TAG == WORKER {
        // SAFETY: likewise, a worker.
        let worker: &'static Worker = unsafe { &*(address as *const Worker) };
        match worker.server.get() {
            Some(server) if !worker.is_blocked() => Role::Worker(worker, server),
            _ => Role::Blocked(worker),
        }
    } else {
        helper_of(word)
            .and_then(|helper| helper.current.get())
            .map_or(Role::Plain, Role::Blocked)
    }
}

/// Calls `f` *apart*: meanwhile the whole library takes the calling flow for a plain thread. So
/// nothing in `f` switches, and preemption leaves it alone. `f` does not unwind.
pub(crate) fn apart<R>(f: impl FnOnce() -> R) -> R {
    let hold = Hold::begin();
    let (word, holds) = (local::task(), local::holds());
    local::set_task((word as usize | APART) as *mut ());
    let result = f();
    // Functions of the library count a plain thread's holds from 0.
    local::set_holds(holds);
    local::set_task(word);
    drop(hold);
    result
}

/// Whether the caller stands [apart].
pub(crate) fn is_apart() -> bool {
    local::task() as usize & APART != 0
}

/// The worker that the caller is, running or blocked.
#[inline]
pub(crate) fn current_worker() -> Option<&'static Worker> {
    match role() {
        Role::Worker(worker, _) | Role::Blocked(worker) => Some(worker),
        Role::Plain | Role::Server(_) => None,
    }
}

/// Whether the caller runs with the storage of this worker.
pub(crate) fn is_storage_of(worker: &Worker) -> bool {
    local::task() as usize & !APART == (worker as *const Worker).addr() | WORKER
}

/// The thread worker whose storage the caller runs with.
#[inline(always)]
pub(crate) fn worker_of_storage() -> Option<&'static Worker> {
    let word = local::task() as usize;
    // SAFETY: as in `role`.
    (word & TAG == WORKER).then(|| unsafe { &*((word & !TAG) as *const Worker) })
}

/// For the handler of SIGSETXID.
pub(crate) static STORAGE_OWNERS: StorageOwners = StorageOwners {
    away: home_of_storage,
    beside: guest::beside,
};

/// If the caller runs with the storage of a thread worker that can be away from home: the tid of
/// its home, and the home's [`Takeover`].
fn home_of_storage() -> Option<(u32, &'static Takeover)> {
    let word = local::task() as usize;
    // SAFETY: as in `role`.
    let worker = (word & TAG == WORKER).then(|| unsafe { &*((word & !TAG) as *const Worker) })?;
    let home = worker
        .home
        .as_ref()
        .filter(|_| worker.carrier() == Carrier::Moving)?;
    Some((worker.node.tid(), &home.takeover))
}

/// The helper that the caller's storage belongs to.
pub(crate) fn helper_of_storage() -> Option<&'static Helper> {
    helper_of(local::task() as usize)
}

#[inline(always)]
fn helper_of(word: usize) -> Option<&'static Helper> {
    // SAFETY: as in `role`.
    (word & TAG == HELPER).then(|| unsafe { &*((word & !TAG) as *const Helper) })
}

/// The owner of the calling thread's storage.
pub(crate) enum Owner {
    Nobody,
    Server(&'static Server),
    Worker(&'static Worker),
    Helper(&'static Helper),
}

pub(crate) fn set_role(owner: Owner) {
    local::set_task(role_word(owner));
}

/// The value that stands for the owner in the storage's words.
pub(crate) fn role_word(owner: Owner) -> *mut () {
    match owner {
        Owner::Nobody => std::ptr::null_mut(),
        Owner::Server(server) => ((server as *const Server).addr() | SERVER) as *mut (),
        Owner::Worker(worker) => ((worker as *const Worker).addr() | WORKER) as *mut (),
        Owner::Helper(helper) => ((helper as *const Helper).addr() | HELPER) as *mut (),
    }
}
