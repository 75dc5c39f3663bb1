//! A server, as the protocols see it.

use crate::rt::scheduler::Why;
use crate::rt::task::runnable::Runnable;
use crate::rt::task::{self, Task};
#[cfg(shuttle)]
pub(crate) use crate::servers::ServerState;

/// One that nobody looks into.
#[cfg(loom)]
#[derive(Default)]
pub(crate) struct ServerState {}

impl ServerState {
    pub(crate) fn make_ready(&self, worker: Runnable, why: Why) {
        super::runtime::ready(worker, why);
    }
}

pub(crate) struct Running(&'static Task, ServerState);

pub(crate) fn running() -> Option<Running> {
    task::current_worker().map(|task| Running(task, ServerState::default()))
}

impl Running {
    pub(crate) fn task(&self) -> &'static Task {
        self.0
    }

    pub(crate) fn local(&self) -> &ServerState {
        &self.1
    }

    /// The checker switches where it likes. True so that the caller looks again; not where all
    /// schedules are tried, of which each step makes more.
    #[expect(clippy::unused_self, reason = "the real one is used up")]
    pub(crate) fn give_way_to_look(self) -> bool {
        cfg!(shuttle)
    }

    pub(crate) fn suspend(self, step: fn(&ServerState, Runnable)) {
        self.0.suspend(|worker| step(&self.1, worker));
    }
}
