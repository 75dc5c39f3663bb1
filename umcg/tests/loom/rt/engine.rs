//! The engine: a worker that is ready is run at once.

pub(crate) mod server;

/// A worker that is ready is run at once: the sooner, the worse for a thread that is not done with
/// it.
pub(crate) mod runtime {
    use super::server::ServerState;
    use crate::rt::scheduler::Why;
    use crate::rt::task::runnable::Runnable;

    pub(crate) fn ready_in_step(_local: &ServerState, worker: Runnable, why: Why) {
        ready(worker, why);
    }

    pub(crate) fn ready(worker: Runnable, _why: Why) {
        worker.into_task().run();
    }
}
