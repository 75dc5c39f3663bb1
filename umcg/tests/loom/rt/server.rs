//! A server, as the protocols see it.

use super::runnable::Runnable;
use super::scheduler::Why;
use super::task::{self, Task};

pub(crate) struct Local;

impl Local {
    pub(crate) fn make_ready(&self, worker: Runnable, why: Why) {
        super::runtime::ready(worker, why);
    }
}

pub(crate) struct Running(&'static Task);

pub(crate) fn running() -> Option<Running> {
    task::current_worker().map(Running)
}

impl Running {
    pub(crate) fn task(&self) -> &'static Task {
        self.0
    }

    pub(crate) fn local(&self) -> &Local {
        &Local
    }

    pub(crate) fn suspend(self, step: fn(&Local, Runnable)) {
        self.0.suspend(|worker| step(&Local, worker));
    }
}
