//! The word in which a worker's end is waited for.
//!
//! # States of a worker's `join` word
//!
//! ```text
//!              join: commit                  end
//!   RUNNING ------------------> waiter ------------> DONE      the handle has the worker's stack, and what it returned
//!      |  ^                       |                   ^
//!      |  '--- leave: timeout ----'                   |
//!      |        or cancelled                          |
//!      |------------------------ end -----------------'
//!      '---- drop: DETACHED ---- end: the server recycles the stack
//! ```
//!
//! RUNNING and a waiter become ABANDONED when the worker's runtime is ended without it; from there,
//! if it still computes, its end makes it DONE, and its handle DETACHED.
//!
//! - J1: a waiter is a task and how it waits: suspended (who takes the word away has the right to
//!   run it) or parked (it is unparked); or who waits for other things, too (`ending`).
//! - J2: a suspended waiter enters the word after its context was saved, on its server's stack.
//! - J3: the ended worker's server writes DONE after the worker has left its stack for good: who
//!   sees it may recycle that.
//! - J4: whoever is second recycles: the handle that finds DONE, the end that finds DETACHED. What
//!   was returned is dropped by the worker itself, while it has its locals, if it is detached in
//!   time; if the handle goes between the worker's look at that and its end, the worker is run once
//!   more for that.
//!
//! One locked operation at the end, one where the joiner has to wait.

use crate::rt::task::{NOT_ENDED, Task};
use std::sync::atomic::{AtomicUsize, Ordering::*};

pub(crate) const RUNNING: usize = NOT_ENDED;
pub(crate) const DONE: usize = 1;
pub(crate) const DETACHED: usize = 2;
pub(crate) const ABANDONED: usize = 3;
/// How a waiter waits, in the low bits of its address.
pub(crate) const SUSPENDED: usize = 4;
pub(crate) const UNPARKS: usize = 8;
/// It is no task, but an `Ending`.
pub(crate) const SELECTS: usize = 16;
pub(crate) const TASK: usize = !63;

/// Whether a worker has ended, and its handle is still to be used up.
#[inline(always)]
pub(crate) fn has_ended(task: &Task) -> bool {
    // ORDERING(join.2): Acquire, pairs with join.1.
    task.join.load(Acquire) == DONE
}

/// Whether there is nothing to wait for any more.
pub(crate) fn is_over(task: &Task) -> bool {
    // ORDERING(join.2): Acquire, pairs with join.1.
    matches!(task.join.load(Acquire), DONE | ABANDONED)
}

/// Takes a suspended waiter away from where it waits, and the right to run it with it. False if it
/// does not wait there.
pub(crate) fn leave(word: &AtomicUsize, task: &'static Task) -> bool {
    // ORDERING(join.6): Acquire, as in `ended`.
    word.compare_exchange(
        (task as *const Task).addr() | SUSPENDED,
        RUNNING,
        Acquire,
        Relaxed,
    )
    .is_ok()
}

/// Nothing else could make it go on, so it is told.
#[cold]
pub(crate) fn waits_for_itself(task: &'static Task) -> ! {
    let worker = task.worker();
    match worker.name() {
        name if name.is_empty() => {
            panic!("worker {:#x} (no name) waits for its own end", worker.id())
        }
        name => panic!("worker `{name}` waits for its own end"),
    }
}
