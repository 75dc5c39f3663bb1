//! The sources of the runtime as they are, and beside them what they find in place of the rest of
//! it: a `sync` of the checker's, servers that run a worker as soon as it is ready.

pub(crate) mod base;
pub(crate) mod engine;
/// The sleep of idle servers: several loads of one queue are too many steps for loom.
#[cfg(shuttle)]
#[path = "../../model/run.rs"]
pub(crate) mod run;
pub(crate) mod task;
pub(crate) mod wait;

#[cfg(shuttle)]
pub(crate) use base::per_server;
pub(crate) use base::timed::timed;
pub(crate) use base::{clock as time, here, last, rank, spin, sync, word};
pub(crate) use engine::{runtime, server};
#[cfg(shuttle)]
pub(crate) use run::idle;
pub(crate) use wait::{cancel, park};

#[cfg(shuttle)]
#[path = "../../model/scheduler.rs"]
pub(crate) mod scheduler;
#[cfg(loom)]
pub(crate) mod scheduler {
    pub(crate) enum Why {
        Woken,
    }
}
