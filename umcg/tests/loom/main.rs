//! Models of the protocols under loom: the real sources, in two or three threads, under all of
//! their interleavings up to some preemptions, and with all that a load may see by the memory model
//! of C11. Most scenarios are those of `tests/checked`, in their smallest sizes. Shuttle runs them
//! with more threads and more steps, too (`tests/model`); but to it an ordering is as good as any
//! other.
//!
//! `ci/models.sh` runs them, first with orderings weakened in a copy of the sources: each has to be
//! found. By hand:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test --release -p umcg --test loom
//! ```
//!
//! `LOOM_MAX_PREEMPTIONS` is how many preemptions an interleaving has; where not given 3 with two
//! parties, 2 with three. `LOOM_LOCATION=1` has a failure say where the accesses were. The first
//! failure ends the process.
//!
//! The sources are compiled as they are. What they import from `std` they find in this crate, which
//! is `std` to itself: its atomics and cells are the checker's (`checker::shim`), all else is that
//! of the standard library. So each cell of a waiter, a place, a queue is checked for races,
//! besides the atomics.
#![cfg(loom)]
#![allow(
    missing_docs,
    dead_code,
    unused_imports,
    unreachable_pub,
    hidden_glob_reexports,
    private_interfaces,
    dropping_copy_types,
    clippy::drop_non_drop,
    clippy::let_unit_value,
    reason = "the sources are a part of the library, and not all of them is used here"
)]

extern crate std as real;
// Names that the sources call are found here.
extern crate self as rustix;
extern crate self as std;
extern crate self as umcg_core;

pub use real::*;

mod checker;
/// The library's, and `std::error`.
#[path = "../../src/error"]
pub mod error {
    pub use real::error::Error;
    pub(crate) mod texts;
    pub(crate) use texts::texts;
}
#[path = "../checked/futex_calls.rs"]
mod futex_calls;
#[path = "../checked/futex.rs"]
mod futexes;
mod locks;
#[path = "../checked/park.rs"]
mod park;
#[path = "../checked/parties.rs"]
mod parties;
mod rank;
#[path = "../checked/rt/mod.rs"]
mod rt;
mod semaphore;
#[path = "../checked/set.rs"]
mod sets;
#[path = "../checked/sources.rs"]
mod sources;
#[path = "../checked/system.rs"]
mod system;
#[path = "../checked/tubes.rs"]
mod tubes;

use checker::{check, check_with_heavy, leak, shim};
use parties::{be, party};
pub(crate) use sources::{futex, select, sync, tube};
pub use system::io;

/// For `std::cell`.
pub mod cell {
    pub(crate) use crate::checker::shim::cell::*;
}

/// For `umcg_core::raw`.
pub mod raw {
    pub(crate) use crate::rt::engine::guest::Worker;
}

/// For `rustix::thread`, and `std::thread`.
pub mod thread {
    pub use crate::system::{Timespec, futex};
    pub(crate) use real::thread::panicking;
}
