//! Giving way to other workers.

use super::cancel;
use crate::rt::engine::server::{self, Running};

/// Lets other workers run. The caller goes on when it is its turn again. A plain thread only calls
/// `sched_yield`. Switches.
#[inline]
pub fn yield_now() {
    match server::running() {
        Some(running) => {
            give_way(running);
        }
        None => std::thread::yield_now(),
    }
}

/// The same for a worker. False if no other one was ready: then nothing has happened. A plain
/// thread does nothing, and gets false.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
#[inline(always)]
pub(crate) fn yield_to_another() -> bool {
    server::running().is_some_and(give_way)
}

#[inline(always)]
fn give_way(running: Running) -> bool {
    let task = running.task();
    let has_given = running.give_way();
    cancel::check(task);
    has_given
}
