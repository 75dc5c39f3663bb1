//! Giving way to other workers.

use super::cancel;
use crate::rt::engine::server;

/// Lets other workers run. The caller goes on when it is its turn again. A plain thread only calls
/// `sched_yield`. Switches.
#[inline]
pub fn yield_now() {
    match server::running() {
        Some(running) => {
            let task = running.task();
            running.give_way();
            cancel::check(task);
        }
        None => std::thread::yield_now(),
    }
}

/// The same for a worker, which gives way to those that were preempted as well. False if no other
/// one was ready: then nothing has happened. A plain thread does nothing, and gets false.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
#[inline(always)]
pub(crate) fn yield_to_another() -> bool {
    let Some(running) = server::running() else {
        return false;
    };
    let task = running.task();
    let has_given = running.give_way_to_all();
    cancel::check(task);
    has_given
}
