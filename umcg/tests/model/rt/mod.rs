//! The sources of the runtime, where they find the checker's `sync` beside them.

#[path = "../../../src/rt/here.rs"]
pub(crate) mod here;
#[path = "../../../src/rt/per_server.rs"]
pub(crate) mod per_server;
pub(crate) mod sync;
