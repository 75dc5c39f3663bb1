//! The word in which a worker's end is waited for.
//!
//! # States of a worker's `join` word
//!
//! ```text
//!              join: commit                  end
//!   RUNNING ------------------> waiter ------------> DONE      the handle has the worker's stack, and its result
//!      |  ^                       |                   ^
//!      |  '--- leave: timeout ----'                   |
//!      |        or cancelled                          |
//!      |------------------------ end -----------------'
//!      '---- drop: DETACHED ---- end: the server recycles the stack
//! ```
//!
//! RUNNING and a waiter become ABANDONED when the worker's runtime is ended without the worker. If
//! the worker still computes, its end later changes ABANDONED to DONE, and its handle changes it to
//! DETACHED.
//!
//! - J1: a waiter is a task and how it waits. A suspended waiter: the thread that takes the word
//!   away has the right to run it. A parked waiter: it is unparked. Or the waiter is one that waits
//!   for other things, too (`ending`).
//! - J2: a suspended waiter enters the word after its context was saved, on its server's stack.
//! - J3: the ended worker's server writes DONE after the worker has left its stack for good: a
//!   thread that sees DONE may recycle the stack.
//! - J4: the second of the two recycles: the handle that finds DONE, or the end that finds
//!   DETACHED. If the worker is detached in time, it drops its result itself, while it has its
//!   locals. If the handle is dropped between the worker's check for that and its end, the worker
//!   is run once more to drop the result.
//!
//! One locked operation at the end, and one where the joiner has to wait.

use crate::rt::task::{NOT_ENDED, Task};
use std::sync::atomic::{AtomicUsize, Ordering::*};

pub(crate) const RUNNING: usize = NOT_ENDED;
pub(crate) const DONE: usize = 1;
pub(crate) const DETACHED: usize = 2;
pub(crate) const ABANDONED: usize = 3;
/// How a waiter waits, in the low bits of its address.
pub(crate) const SUSPENDED: usize = 4;
pub(crate) const UNPARKS: usize = 8;
/// The waiter is an `Ending`, not a task.
pub(crate) const SELECTS: usize = 16;
pub(crate) const TASK: usize = !63;

/// Whether the worker has ended and its handle is not yet used up.
#[inline(always)]
pub(crate) fn has_ended(task: &Task) -> bool {
    // ORDERING(join.2): Acquire, pairs with join.1.
    task.join.load(Acquire) == DONE
}

/// Whether a join has nothing left to wait for.
pub(crate) fn is_over(task: &Task) -> bool {
    // ORDERING(join.2): Acquire, pairs with join.1.
    matches!(task.join.load(Acquire), DONE | ABANDONED)
}

/// Takes a suspended waiter out of the word it waits at, and the right to run it with it. False if
/// it does not wait there.
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

/// Panics: a worker that waits for its own end would wait for ever.
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
