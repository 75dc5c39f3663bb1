//! The state of a runtime and of a server: as much of it as schedulers and idle servers see.

#[path = "../../../../umcg/src/rt/engine/active.rs"]
pub(crate) mod active;
#[path = "../../../../umcg/src/rt/engine/countdown.rs"]
pub(crate) mod countdown;
pub(crate) mod driver;
#[path = "../../../../umcg/src/rt/engine/poller.rs"]
pub(crate) mod poller;
pub(crate) mod runtime;
pub(crate) mod server;
#[path = "../../../../umcg/src/rt/engine/sleepers.rs"]
pub(crate) mod sleepers;
