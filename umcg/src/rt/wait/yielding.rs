//! Giving way to other workers.

use super::cancel;
use crate::rt::engine::server;

/// Lets other workers run. The caller goes on when it is its turn again. A plain thread only calls
/// `sched_yield`. Switches.
#[inline]
pub fn yield_now() {
    let Some(running) = server::running() else {
        return std::thread::yield_now();
    };
    let task = running.task();
    running.give_way();
    cancel::check(task);
}
