//! The sleep of idle servers as it is, among servers that only count.

/// There is no search for deadlocks.
pub(crate) mod deadlock {
    use crate::rt::engine::runtime::RuntimeState;
    use crate::rt::engine::server::ServerState;

    pub(crate) fn look(_shared: &RuntimeState, _local: &ServerState) -> bool {
        false
    }
}

#[path = "../../src/rt/run/idle.rs"]
pub(crate) mod idle;

/// A server's next worker.
pub(crate) mod turns {
    use crate::rt::engine::server::ServerState;
    use crate::rt::task::runnable::Runnable;
    use umcg_core::raw;

    pub(crate) fn next(local: &ServerState, _server: raw::Server) -> Option<Runnable> {
        local.shared().scheduler.next()
    }
}
