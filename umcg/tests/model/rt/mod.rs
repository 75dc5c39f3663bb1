//! The sources of the runtime as they are, and beside them replacements for the rest of it: a
//! `sync` of the checker's, servers that run a worker as soon as it is ready, a scheduler that is
//! one queue.

pub(crate) mod base;
pub(crate) mod engine;
pub(crate) mod run;
pub(crate) mod task;
pub(crate) mod wait;

pub(crate) use base::timed::timed;
pub(crate) use base::{clock as time, here, last, per_server, rank, spin, sync, word};
pub(crate) use engine::runtime;
pub(crate) use engine::server;
pub(crate) use run::idle;
pub(crate) use wait::{cancel, park};

pub(crate) mod scheduler {
    pub(crate) enum Why {
        Woken,
    }
}
