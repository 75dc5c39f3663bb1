//! The servers of guests, once the runtime has begun.

use crate::rt::engine::runtime::RuntimeState;
use std::sync::OnceLock;
use umcg_core::raw::{Server, Worker};

static STATE: OnceLock<&RuntimeState> = OnceLock::new();

/// The runtime has begun. Called once.
pub(super) fn begin(state: &'static RuntimeState) {
    let _ = STATE.set(state);
}

/// The runtime's state. None if there is none, or it could not begin: then guests stay plain
/// threads.
pub(super) fn state() -> Option<&'static RuntimeState> {
    STATE.get().copied()
}

/// How many servers there are.
pub(super) fn count() -> usize {
    state().map_or(0, |state| state.servers.len())
}

/// This server, once it has begun.
pub(super) fn get(index: usize) -> Option<Server> {
    state()?.servers.get(index)?.server()
}

/// Calls `f` with each server that has begun, and its number.
pub(super) fn each(f: &mut dyn FnMut(usize, Server)) {
    (0..count()).for_each(|index| {
        if let Some(server) = get(index) {
            f(index, server);
        }
    });
}

/// The server that runs this worker just now.
pub(super) fn of(worker: Worker) -> Option<(usize, Server)> {
    let mut found = None;
    each(&mut |index, server| {
        if server.runs(worker) {
            found = Some((index, server));
        }
    });
    found
}

/// Preempts the worker, if a server runs it.
pub(super) fn preempt(worker: Worker) {
    if let Some((_, server)) = of(worker) {
        server.preempt();
    }
}

/// How many times a worker has begun to run on a server.
pub(super) fn turns() -> u64 {
    let mut turns = 0;
    each(&mut |_, server| turns += server.turns());
    turns
}
