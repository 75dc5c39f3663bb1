//! A server's turns: it asks for a worker, runs it, and checks deadlines and files in between.

use super::{idle, inactive, standby};
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server::ServerState;
use crate::rt::task::runnable::Runnable;
use crate::rt::wait::expire::expire;
use std::time::Duration;
use umcg_core::raw;

/// The body of a server's kernel thread.
pub(crate) fn main(shared: &'static RuntimeState, index: usize, server: raw::Server) {
    let local = Box::new(ServerState::new(shared, index));
    let local = shared.servers[index].enter(local, server);
    server.set_upper((local as *const ServerState).addr());
    while !shared.is_over() {
        if shared.is_stopping() {
            stand_still(local);
        }
        match next(local, server) {
            Some(worker) => local.run(server, worker),
            None => idle::idle(local, server),
        }
    }
    local.discard_spares();
    server.set_upper(0);
}

/// Runs no worker while another thread reads the state of all workers.
#[cold]
fn stand_still(local: &ServerState) {
    if local.shared().wants_spares() {
        local.share_spares();
    }
    local.stop();
    local.run_again();
}

/// The worker to run next.
#[inline(always)]
pub(crate) fn next(local: &ServerState, server: raw::Server) -> Option<Runnable> {
    if let Some(event) = server.try_wait() {
        local.settle(event);
    }
    if local.countdown.is_over() {
        return look_around(local);
    }
    local.countdown.count();
    local.pick()
}

/// The work that is done at intervals, however busy the server is; and then the worker to run next.
/// An inactive server comes here each time, and so does the standby.
#[cold]
fn look_around(local: &ServerState) -> Option<Runnable> {
    local.countdown.restart();
    let is_inactive = inactive::look(local);
    if !is_inactive || local.begin_inactive_turn() {
        look_at_time_and_files(local);
        local.shared().scheduler.look_around(local.here());
        local.end_streak();
    }
    let worker = if is_inactive {
        inactive::next(local)
    } else {
        local.pick()
    };
    if local.is_standby() {
        standby::send_home(local, worker.as_ref());
    }
    worker
}

/// Checks deadlines and files. A busy server does this at intervals.
fn look_at_time_and_files(local: &ServerState) {
    local.note_look();
    expire(local.timers());
    let shared = local.shared();
    if shared.driver.has_sources() {
        shared.driver.poll(Some(Duration::ZERO));
    }
}
