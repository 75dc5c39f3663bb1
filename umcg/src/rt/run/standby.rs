//! The standby: a server that runs workers only while the kernel keeps all others.
//!
//! A server is kept by a page fault, or by a call made in place that waits all the same: a write to
//! a file system that is frozen, a read that another thread of the program is to permit, a buffer
//! in memory that another thread serves. If that thread is a worker that waits for a server, none
//! goes on. So the watch activates one server more ([`inactive`]), which is the last one.
//!
//! The standby is not kept itself: it runs no code of the program. Each adopted thread that it
//! resumes is asked to stay at home first ([`ask_to_stay`](umcg_core::raw::Worker::ask_to_stay)),
//! and goes there as it leaves the hook. There the kernel keeps that thread alone.
//!
//! ```text
//!   RESTING --all others are kept for 20 ms, and workers wait--> UP --none is kept--> RESTING
//! ```

use super::inactive;
use super::kernel_call::{ThreadState, of_thread};
use crate::rt::base::clock;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server::ServerState;
use crate::rt::task::runnable::Runnable;

/// For how long all servers have to be kept, in nanoseconds.
const PATIENCE: u64 = 20_000_000;

/// The watch's part in it.
#[derive(Default)]
pub(super) struct Standby {
    /// Since when all servers may be kept; 0 if one is not.
    since: u64,
    /// While it is up: how many servers were active before.
    before: Option<usize>,
}

impl Standby {
    /// One of the watch's checks. `is_stuck` says of a server that it has not looked around since
    /// the last one.
    pub(super) fn look(&mut self, shared: &RuntimeState, is_stuck: impl Fn(usize) -> bool) {
        if shared.servers.len() == shared.active.most() {
            return;
        }
        let is_kept = |index: &usize| is_stuck(*index) && sleeps(shared, *index);
        if let Some(before) = self.before {
            if !(0..before).any(|index| is_kept(&index)) {
                inactive::set_active(shared, before);
                self.before = None;
            }
            return;
        }
        let active = shared.active.count();
        let is_wanted = shared.live() > 1 && (0..active).all(&is_stuck);
        if !is_wanted {
            self.since = 0;
            return;
        }
        let now = clock::now();
        if self.since == 0 {
            self.since = now;
        } else if now - self.since >= PATIENCE {
            self.since = now;
            if (0..active).all(|index| is_kept(&index)) {
                self.before = Some(active);
                inactive::set_active(shared, shared.servers.len());
            }
        }
    }
}

/// Whether the server's thread sleeps in the kernel.
fn sleeps(shared: &RuntimeState, index: usize) -> bool {
    let server = shared.servers[index].server();
    server.is_some_and(|server| matches!(of_thread(server.carried_by()), ThreadState::Blocks(_)))
}

/// The standby is about to run this worker, if any.
#[cold]
pub(super) fn send_home(local: &ServerState, worker: Option<&Runnable>) {
    local.hurry();
    if let Some(worker) = worker {
        worker.task().worker().ask_to_stay();
    }
}
