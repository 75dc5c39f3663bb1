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
use super::kernel_call::{ThreadState, has_pending, of_thread};
use crate::rt::base::clock;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server::ServerState;
use crate::rt::task::runnable::Runnable;

/// For how long all servers have to be kept, in nanoseconds.
const PATIENCE: u64 = 20_000_000;

/// The watch's part in it.
#[derive(Default)]
pub(super) struct Standby {
    /// See [`Standby::is_time`]; 0 if a server is not stuck.
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
        let is_kept = |index| is_stuck(index) && is_in_kernel(shared, index);
        if let Some(before) = self.before {
            if !(0..before).any(is_kept) {
                self.before = None;
                inactive::set_active(shared, before);
            }
            return;
        }
        let active = shared.active.count();
        let are_stuck = shared.live() > 1 && (0..active).all(&is_stuck);
        if self.is_time(clock::now(), are_stuck) && (0..active).all(is_kept) {
            self.before = Some(active);
            inactive::set_active(shared, shared.servers.len());
        }
    }

    /// Whether to ask the kernel about the servers, which takes some time: all have been stuck for
    /// [`PATIENCE`], since the first look that found them so or since they were last asked about.
    fn is_time(&mut self, now: u64, are_stuck: bool) -> bool {
        if !are_stuck {
            self.since = 0;
        } else if self.since == 0 {
            self.since = now;
        } else if now - self.since >= PATIENCE {
            self.since = now;
            return true;
        }
        false
    }
}

/// Whether the kernel keeps the server's thread. It sleeps there, or it does not get to a signal: a
/// fault in the midst of a call waits without sleep while a signal is pending.
fn is_in_kernel(shared: &RuntimeState, index: usize) -> bool {
    let Some(server) = shared.servers[index].server() else {
        return false;
    };
    let tid = server.carried_by();
    matches!(of_thread(tid), ThreadState::Blocks(_)) || has_pending(tid, libc::SIGURG)
}

/// The standby is about to run this worker, if any.
#[cold]
pub(super) fn send_home(local: &ServerState, worker: Option<&Runnable>) {
    local.hurry();
    if let Some(worker) = worker {
        worker.task().worker().ask_to_stay();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_once_in_a_while_and_only_while_all_are_stuck() {
        let mut standby = Standby::default();
        let mut asked = |looks: std::ops::Range<u64>, are_stuck| {
            looks
                .map(|look| look * PATIENCE / 4)
                .filter(|now| standby.is_time(*now, are_stuck))
                .count()
        };
        assert_eq!(asked(1..5, true), 0);
        assert_eq!(asked(5..6, true), 1);
        assert_eq!(asked(6..14, true), 2);
        assert_eq!(asked(14..15, false), 0);
        assert_eq!(asked(15..19, true), 0);
        assert_eq!(asked(19..20, true), 1);
    }
}
