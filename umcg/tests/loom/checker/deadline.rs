//! Deadlines. A task that is about to wait arms no timer: the model has a thread that revokes, or
//! unparks, once the clock has gone on, and then too late perhaps.

use super::kernel;
use crate::rt::task::Task;
use crate::rt::wait;

pub(crate) fn with_deadline(deadline: u64, wait: impl FnOnce(u64) -> bool) -> bool {
    wait(deadline)
}

pub(crate) fn alarm(_: &mut std::mem::MaybeUninit<()>, _: u64) {}

/// The time is this from now on, and the timer of the task's wait looks at that.
pub(crate) fn pass(task: &'static Task, to: u64) {
    kernel::advance(to);
    wait::revoke(task);
}
