//! Descriptors on the heap: those of full workers that are kernel threads.

use super::Task;
use crate::rt::base::sync::HoldLock;
use std::sync::atomic::Ordering::*;

/// Descriptors that no worker has. The holder of the lock is not preempted: other workers would
/// block their servers on it.
static SPARE: HoldLock<Vec<&'static Task>> = HoldLock::new(Vec::new());

/// All descriptors that exist.
static ALL: HoldLock<Vec<&'static Task>> = HoldLock::new(Vec::new());

/// Returns a descriptor that no worker has.
pub(crate) fn take() -> &'static Task {
    let spare = SPARE.lock().pop();
    spare.unwrap_or_else(|| {
        let task: &'static Task = Box::leak(Box::new(Task::of_thread()));
        ALL.lock().push(task);
        task
    })
}

/// Calls `f` with the descriptor of each such worker, and with the descriptors that no worker has.
pub(crate) fn each(f: &mut dyn FnMut(&'static Task)) {
    ALL.lock().iter().for_each(|task| f(task));
}

/// Takes the descriptor of a worker that has ended and whose handle is used up.
pub(crate) fn give_back(task: &'static Task) {
    task.flags.store(0, Relaxed);
    SPARE.lock().push(task);
}
