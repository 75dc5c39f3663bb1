//! The runtime's sources as they are, and beside them what they find in place of the rest of it.

pub(crate) mod base;
pub(crate) mod engine;
pub(crate) mod run;
#[path = "../../../umcg/src/rt/scheduler/mod.rs"]
pub mod scheduler;
pub(crate) mod task;
pub(crate) mod wait;
