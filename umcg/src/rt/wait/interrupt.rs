//! Asking a worker to end: the request is written, and then the worker's wait is interrupted,
//! wherever it waits.

use super::{cancel, joined, park, queue};
use crate::rt::engine::runtime;
use crate::rt::scheduler::Why;
use crate::rt::task::Task;
use crate::rt::task::runnable::Runnable;
use std::sync::atomic::Ordering::*;
use umcg_core::asymmetric;

/// Asks `task` to end from this depth on.
pub(crate) fn ask(task: &'static Task, depth: u32) {
    cancel::mark(task, depth);
    interrupt(task);
}

/// Makes it check for requests, wherever it waits.
pub(crate) fn interrupt(task: &'static Task) {
    asymmetric::heavy();
    // ORDERING(waits-at.2): Acquire, pairs with waits-at.1.
    // SAFETY: null, or the word of a task, which is never freed.
    match unsafe { task.waits_at.load(Acquire).as_ref() } {
        Some(word) if joined::leave(word, task) => {
            // SAFETY: taken from where it waited, with the right to run it.
            runtime::ready(unsafe { Runnable::new(task) }, Why::Woken);
        }
        _ if !task.waiter.load(Relaxed).is_null() => queue::revoke(task),
        _ => park::wake(task),
    }
}
