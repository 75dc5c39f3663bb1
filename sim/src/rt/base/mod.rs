//! The clock and the shared words as a machine has them; the rest as it is.

pub(crate) mod clock;
#[path = "../../../../umcg/src/rt/base/here.rs"]
pub(crate) mod here;
#[path = "../../../../umcg/src/rt/base/per_server.rs"]
pub(crate) mod per_server;
pub(crate) mod sync;
