//! The right to run a worker.

use super::Task;

pub struct Runnable(&'static Task);

impl Runnable {
    /// # Safety
    /// As the library's.
    pub(crate) unsafe fn new(task: &'static Task) -> Runnable {
        Runnable(task)
    }

    pub(crate) fn into_task(self) -> &'static Task {
        self.0
    }
}
