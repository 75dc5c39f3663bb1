//! A server, as the protocols see it.

use super::runtime::{RuntimeState, Timers};
use crate::rt::base::here::Here;
use crate::rt::scheduler::Why;
use crate::rt::task::runnable::Runnable;
use crate::rt::task::{self, Task};
use std::cell::Cell;
use umcg_core::raw;

pub(crate) struct ServerState {
    here: Here,
    pub(crate) patience: Cell<u32>,
    shared: Option<&'static RuntimeState>,
}

impl ServerState {
    pub(crate) fn new(index: usize, shared: Option<&'static RuntimeState>) -> ServerState {
        // SAFETY: used on this thread only.
        ServerState {
            here: unsafe { Here::new(index) },
            patience: Cell::new(2),
            shared,
        }
    }

    pub(crate) fn make_ready(&self, worker: Runnable, why: Why) {
        super::runtime::ready(worker, why);
    }

    pub(crate) fn here(&self) -> &Here {
        &self.here
    }

    pub(crate) fn shared(&self) -> &'static RuntimeState {
        self.shared.unwrap()
    }

    pub(crate) fn timers(&self) -> &'static Timers {
        &self.shared().servers[self.here.index()].timers
    }

    pub(crate) fn note_look(&self) {}

    pub(crate) fn looks(&self) -> u64 {
        0
    }

    pub(crate) fn has_work(&self) -> bool {
        self.shared().scheduler.has_work(&self.here)
    }

    pub(crate) fn run(&self, _server: raw::Server, worker: Runnable) {
        self.shared().run(worker);
    }
}

pub(crate) struct Running(&'static Task, ServerState);

pub(crate) fn running() -> Option<Running> {
    task::current_worker().map(|task| Running(task, ServerState::new(0, None)))
}

impl Running {
    pub(crate) fn task(&self) -> &'static Task {
        self.0
    }

    pub(crate) fn local(&self) -> &ServerState {
        &self.1
    }

    pub(crate) fn suspend(self, step: fn(&ServerState, Runnable)) {
        self.0
            .suspend(|worker| step(&ServerState::new(0, None), worker));
    }
}
