//! What is done when deadlines pass: a server looks at its [`Timers`], and a party goes on.

use super::deadline::{ALARM, SCOPE};
use super::{cancel, interrupt, park, queue};
use crate::rt::engine::timers::Timers;
use crate::rt::task::Task;

/// The task of an entry's word.
fn task_of(word: usize) -> &'static Task {
    // SAFETY: `armed` made the word of a task, which is never freed.
    unsafe { &*((word & !SCOPE) as *const Task) }
}

/// Wakes whom it was for. Whoever has the descriptor by now takes it for a wake-up without a
/// reason.
fn fire(word: usize) {
    match word & SCOPE {
        0 => park::wake(task_of(word)),
        ALARM => queue::revoke(task_of(word)),
        _ => interrupt::interrupt(task_of(word)),
    }
}

/// Makes those go on whose deadline has passed. Reads the clock only if there may be any. True when
/// there were.
pub(crate) fn expire(timers: &Timers) -> bool {
    // What is asked of a scope is said under the lock, which its end takes: it must not come to
    // whoever is there later.
    let mark = |word| {
        if !matches!(word & SCOPE, 0 | ALARM) {
            cancel::mark(task_of(word), (word & SCOPE) as u32);
        }
    };
    timers.expire(mark, fire)
}
