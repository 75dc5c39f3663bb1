//! Waiting as it is, with cancellation and deadlines as the checker has them.

pub(crate) use crate::checker::{cancel, deadline};

/// Deadlines that pass make workers ready.
#[cfg(shuttle)]
pub(crate) mod expire {
    use crate::rt::engine::runtime::Timers;

    pub(crate) fn expire(timers: &Timers) -> bool {
        timers.expire()
    }
}

#[path = "../../../src/rt/wait/cut.rs"]
pub(crate) mod cut;
#[path = "../../../src/rt/wait/park.rs"]
pub(crate) mod park;
#[path = "../../../src/rt/wait/queue/mod.rs"]
pub(crate) mod queue;
#[path = "../../../src/rt/wait/second_look.rs"]
mod second_look;

pub(crate) use queue::*;
pub(crate) use second_look::second_look;

/// For the checker's cancellation and deadlines.
pub(crate) fn revoke(task: &'static super::task::Task) {
    queue::revoke(task);
}
