//! The home of a guest that has ended.

use crate::rt::engine::guest as engine;
use crate::rt::task::Task;

/// The right to the worker whose home it is, and to its task. The worker has ended.
pub(super) struct HomeRight(&'static Task);

impl HomeRight {
    /// # Safety
    /// The caller has the right to run the task's worker, an adopted one that is away and has
    /// ended. The value has that right from now on.
    pub(super) unsafe fn of(task: &'static Task) -> HomeRight {
        HomeRight(task)
    }

    /// The task, with the right that the value has.
    pub(super) fn into_task(self) -> &'static Task {
        self.0
    }

    pub(super) fn task(&self) -> &'static Task {
        self.0
    }

    /// It rests from now on. False if it is to be retired.
    pub(super) fn rest(&self) -> bool {
        // SAFETY: the right came with the value.
        unsafe { self.0.worker().rest() }
    }

    /// It rests, and is taken for a guest. False if it is to be retired.
    pub(super) fn take(&self) -> bool {
        // SAFETY: the right came with the value.
        unsafe { self.0.worker().take_home() }
    }

    /// It rests, and its kernel thread is to end.
    pub(super) fn retire(self) {
        // SAFETY: the right came with the value, and goes.
        unsafe { self.0.worker().retire_home() };
        engine::give_back(self.0);
    }
}
