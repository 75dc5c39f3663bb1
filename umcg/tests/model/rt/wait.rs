//! Waiting as it is, with cancellation and deadlines as the checker has them.

pub(crate) mod cancel;
pub(crate) mod deadline;

/// Deadlines that pass make workers ready.
pub(crate) mod expire {
    use crate::rt::engine::runtime::Timers;

    pub(crate) fn expire(timers: &Timers) -> bool {
        timers.expire()
    }
}

#[path = "../../../src/rt/wait/park.rs"]
pub(crate) mod park;
#[path = "../../../src/rt/wait/queue/mod.rs"]
pub(crate) mod queue;

pub(crate) use queue::*;
