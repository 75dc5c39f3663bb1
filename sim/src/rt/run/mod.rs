//! The servers' loop and sleep as they are, with nothing around them that a simulation lacks.

#[path = "../../../../umcg/src/rt/run/idle.rs"]
pub(crate) mod idle;
#[path = "../../../../umcg/src/rt/run/inactive.rs"]
pub(crate) mod inactive;
#[path = "../../../../umcg/src/rt/run/spread.rs"]
pub(crate) mod spread;
#[path = "../../../../umcg/src/rt/run/turns.rs"]
pub(crate) mod turns;
pub(crate) mod watch;

/// There is no search for deadlocks: a machine finds that it is stuck.
pub(crate) mod deadlock {
    use crate::rt::engine::runtime::RuntimeState;
    use crate::rt::engine::server::ServerState;

    pub(crate) fn look(_shared: &RuntimeState, _local: &ServerState) -> bool {
        false
    }
}

/// There is no standby.
pub(crate) mod standby {
    use crate::rt::engine::server::ServerState;
    use crate::rt::task::runnable::Runnable;

    pub(crate) fn send_home(_local: &ServerState, _worker: Option<&Runnable>) {}
}
