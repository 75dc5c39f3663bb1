//! Waiting as it is, with cancellation and deadlines as the checker has them.

pub(crate) mod cancel;
pub(crate) mod deadline;
#[path = "../../../src/rt/wait/park.rs"]
pub(crate) mod park;
#[path = "../../../src/rt/wait/queue/mod.rs"]
pub(crate) mod queue;

pub(crate) use queue::*;
