//! Expired deadlines: a server checks its [`Timers`] and makes the waiters go on.

use super::deadline::{ALARM, SCOPE};
use super::{cancel, interrupt, park, queue};
use crate::rt::engine::timers::Timers;
use crate::rt::task::Task;

/// The task of an entry's word.
fn task_of(word: usize) -> &'static Task {
    // SAFETY: `armed` made the word of a task, which is never freed.
    unsafe { &*((word & !SCOPE) as *const Task) }
}

/// Wakes the worker that armed the entry. If the descriptor has a new user by now, that one takes
/// it for a wake-up without a reason.
fn fire(word: usize) {
    match word & SCOPE {
        0 => park::wake(task_of(word)),
        ALARM => queue::revoke(task_of(word)),
        _ => interrupt::interrupt(task_of(word)),
    }
}

/// Makes the waiters go on whose deadline has passed. Reads the clock only if there may be any.
/// True if there were any.
pub(crate) fn expire(timers: &Timers) -> bool {
    // A cancel request to a scope is written under the lock, which the end of the scope takes: it
    // must not reach a later scope of the same depth.
    let mark = |word| {
        if !matches!(word & SCOPE, 0 | ALARM) {
            cancel::mark(task_of(word), (word & SCOPE) as u32);
        }
    };
    timers.expire(mark, fire)
}
