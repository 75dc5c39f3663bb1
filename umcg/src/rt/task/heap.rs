//! Descriptors on the heap: those of full workers that are kernel threads.

use super::Task;
use crate::rt::base::sync::HoldLock;
use std::sync::atomic::Ordering::*;
use umcg_core::{SpareList, try_box};

/// Descriptors that no worker has. The holder of the lock is not preempted: other workers would
/// block their servers on it.
static SPARE: HoldLock<SpareList<Task>> = HoldLock::new(SpareList::new());

/// All descriptors that exist.
static ALL: HoldLock<Vec<&'static Task>> = HoldLock::new(Vec::new());

/// Returns a descriptor that no worker has. None if there is no memory for one.
pub(crate) fn take() -> Option<&'static Task> {
    SPARE.lock().take_or(make)
}

fn make() -> Option<&'static Task> {
    let mut all = ALL.lock();
    all.try_reserve(1).ok()?;
    let task: &'static Task = Box::leak(try_box(Task::of_thread())?);
    all.push(task);
    Some(task)
}

/// Calls `f` with the descriptor of each such worker, and with the descriptors that no worker has.
pub(crate) fn each(f: &mut dyn FnMut(&'static Task)) {
    ALL.lock().iter().for_each(|task| f(task));
}

/// Takes the descriptor of a worker that has ended and whose handle is used up.
pub(crate) fn give_back(task: &'static Task) {
    task.flags.store(0, Relaxed);
    SPARE.lock().give_back(task);
}
