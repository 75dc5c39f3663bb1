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

#[path = "../../src/rt/run/inactive.rs"]
pub(crate) mod inactive;

/// A server's next worker.
pub(crate) mod turns {
    use super::inactive;
    use crate::rt::engine::server::ServerState;
    use crate::rt::task::runnable::Runnable;
    use shuttle::rand::Rng;
    use umcg_core::raw;

    pub(crate) fn next(local: &ServerState, _server: raw::Server) -> Option<Runnable> {
        let scheduler = &local.shared().scheduler;
        local.shared().settle_one(local.here());
        let looks_around = shuttle::rand::thread_rng().gen_bool(0.125);
        if (looks_around || local.is_inactive()) && inactive::look(local) {
            return inactive::next(local);
        }
        if looks_around {
            scheduler.look_around(local.here());
        }
        scheduler.next(local.here())
    }
}
