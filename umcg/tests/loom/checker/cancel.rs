//! Cancellation, without the unwinding.

use crate::rt::base::sync::Ordering::Relaxed;
use crate::rt::task::Task;

pub(crate) fn is_asked(task: &Task) -> bool {
    task.cancel.load(Relaxed) != 0
}

pub(crate) fn check(_: &Task) {}

pub(crate) fn unwind(_: &Task) {}

pub(crate) fn may_be_cut(_: &Task) -> bool {
    true
}

pub(crate) fn checkpoint() {}

/// Asks the task to end its wait in a queue.
pub(crate) fn ask(task: &'static Task) {
    task.cancel.store(1, Relaxed);
    crate::rt::wait::revoke(task);
}
