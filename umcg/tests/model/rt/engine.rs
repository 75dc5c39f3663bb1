//! The engine: a worker that is ready is run at once.

#[path = "../../../src/rt/engine/poller.rs"]
pub(crate) mod poller;
pub(crate) mod runtime;
pub(crate) mod server;
#[path = "../../../src/rt/engine/sleepers.rs"]
pub(crate) mod sleepers;
