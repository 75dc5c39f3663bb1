//! The scope in which a worker may block in the kernel.
//!
//! Its server gets BLOCK and runs on. The worker's own flow continues where blocking does no harm:
//! a thread worker on its home thread, a light worker on a helper thread. When the scope ends, the
//! worker reports WAKE and waits for a server.
//!
//! This is the seam for automatic blocking: code that notices that a worker is about to block, or
//! has just blocked, calls `begin` and `end`.

use super::idle::{EventKind, state};
use super::worker::{Carrier, Inside, Worker};
use super::{CallerRole, caller, helper, helper_of_storage, thread};
use std::sync::atomic::Ordering::*;
use umcg_context::annotate::Flow;

/// Begins a scope; scopes nest. Returns whether the worker is away from servers. It is not if the
/// system gives no thread for a helper: then a light worker blocks its server. The scope has begun
/// all the same.
pub(crate) fn begin(worker: &'static Worker) -> bool {
    let depth = worker.blocking.load(Relaxed);
    worker.blocking.store(depth + 1, Relaxed);
    let CallerRole::Worker(inside, server) = caller() else {
        return true;
    };
    if depth > 0 || (worker.is_light() && !helper::POOL.reserve()) {
        return false;
    }
    // SAFETY: the caller is the worker, running, inside. Its server sends it home, where this
    // returns.
    unsafe { worker.leave(server, EventKind::Block, None) };
    thread::came_home(worker);
    drop(inside);
    true
}

/// Ends a scope. Returns false when there is none.
pub(crate) fn end(worker: &'static Worker) -> bool {
    let depth = worker.blocking.load(Relaxed);
    if depth == 0 {
        return false;
    }
    worker.blocking.store(depth - 1, Relaxed);
    if depth == 1 && worker.is_blocked() {
        let _inside = Inside::enter(worker);
        match worker.helper.take().or_else(helper_of_storage) {
            Some(helper) if worker.carrier() == Carrier::Owning => {
                // SAFETY: the helper is suspended in its loop, on this kernel thread; nothing
                // touches its storage before the switch.
                unsafe { umcg_context::set_thread_pointer(helper.tp) };
                // SAFETY: as above. The helper posts WAKE.
                unsafe { umcg_context::switch(worker.context.get(), helper.context.get()) };
            }
            Some(helper) => {
                // SAFETY: the helper is suspended in its loop, on this kernel thread. It posts
                // WAKE.
                unsafe { Flow::leave(worker.flow(), helper.flow.get()) };
                // SAFETY: as above.
                unsafe { umcg_context::switch(worker.context.get(), helper.context.get()) };
                // SAFETY: back on the worker's stack.
                unsafe { Flow::arrive(worker.flow()) };
            }
            None => thread::arrive(worker),
        }
    }
    true
}

/// The worker's server has seen it block: sends it home.
pub(crate) fn settle(worker: &'static Worker) {
    worker.node.set_state(state::BLOCKED);
    match worker.carrier() {
        Carrier::Sharing | Carrier::Owning => helper::POOL.submit(worker),
        Carrier::Moving | Carrier::Staying => worker.post_go(),
    }
}
