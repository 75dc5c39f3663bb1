//! The engine: a worker that is ready is run at once.

#[cfg(shuttle)]
#[path = "../../../src/rt/engine/active.rs"]
pub(crate) mod active;
pub(crate) mod guest;
#[cfg(shuttle)]
#[path = "../../../src/rt/engine/poller.rs"]
pub(crate) mod poller;
pub(crate) mod server;
#[cfg(shuttle)]
#[path = "../../../src/rt/engine/sleepers.rs"]
pub(crate) mod sleepers;

pub(crate) mod runtime {
    use super::server::ServerState;
    use crate::rt::scheduler::Why;
    use crate::rt::task::runnable::Runnable;
    #[cfg(shuttle)]
    pub(crate) use crate::servers::{RuntimeState, Timers};

    pub(crate) fn ready_in_step(_local: &ServerState, worker: Runnable, why: Why) {
        ready(worker, why);
    }

    /// At once: the sooner, the worse for a party that is not done with it.
    pub(crate) fn ready(worker: Runnable, _why: Why) {
        worker.into_task().run();
    }
}
