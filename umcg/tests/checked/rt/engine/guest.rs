//! Adopted workers, at home: one that waits there leaves home, and goes on with a server.

use crate::rt::task::{self, Task};

/// For `umcg_core::raw::Worker`.
#[derive(Clone, Copy)]
pub(crate) struct Worker(&'static Task);

/// For `umcg_core::raw::Adopted`.
pub(crate) struct Adopted(&'static Task);

pub(crate) fn at_home() -> Option<Adopted> {
    task::current_at_home().map(Adopted)
}

pub(crate) fn task_of(worker: Worker) -> &'static Task {
    worker.0
}

pub(crate) fn note_departure(_: &'static Task) {}

impl Adopted {
    /// # Safety
    /// As the library's.
    pub(crate) unsafe fn leave(self, step: fn(Worker) -> bool) {
        self.0.leave_home(|| step(Worker(self.0)));
    }
}
