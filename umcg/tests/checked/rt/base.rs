//! The clock and the shared words as the checker has them; the rest as it is.

pub(crate) mod clock;
#[path = "../../../src/rt/base/here.rs"]
pub(crate) mod here;
#[path = "../../../src/rt/base/last.rs"]
pub(crate) mod last;
#[cfg(shuttle)]
#[path = "../../../src/rt/base/per_server.rs"]
pub(crate) mod per_server;
#[path = "../../../src/rt/base/rank.rs"]
pub(crate) mod rank;
#[path = "../../../src/rt/base/spin.rs"]
pub(crate) mod spin;
pub(crate) mod sync;
#[path = "../../../src/rt/base/timed.rs"]
pub(crate) mod timed;
#[path = "../../../src/rt/base/word.rs"]
pub(crate) mod word;
