//! The sources of the runtime as they are, and beside them replacements for the rest of it.

pub(crate) mod base;
pub(crate) mod engine;
pub(crate) mod task;
pub(crate) mod wait;

pub(crate) use base::timed::timed;
pub(crate) use base::{clock as time, here, last, rank, spin, sync, word};
pub(crate) use engine::server;
pub(crate) use wait::{cancel, park};

pub(crate) mod scheduler {
    pub(crate) enum Why {
        Woken,
    }
}
