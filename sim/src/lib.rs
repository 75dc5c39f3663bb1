//! The runtime's scheduler on more processors than this machine has.
//!
//! A simulation, in virtual time, of servers that run workers, search, steal, nap and sleep. The
//! default scheduler, the servers' loop and the protocol of idle servers are *the library's own
//! sources* (`rt`), compiled against stand-ins for words, locks, futexes and the clock that cost
//! virtual time (`machine`). What a server without a kernel thread cannot have is a stand-in too:
//! its slot and the steps of its workers, the driver, and the watch, each with the steps of the
//! real one. Workers are functions that are called for each of their turns (`workload`).
//!
//! | as it is | stand-in | not there |
//! |---|---|---|
//! | `scheduler/*`, `per_server`, `run/{idle,inactive,turns,spread}`, `engine/{sleepers,active,countdown}`, queues of workers | words, locks, clock; park words; slot and steps of a server; driver; watch | deadlines, preemption, blocking, guests, ranks |
//!
//! What a machine costs is a table ([`Costs`]), and how it is charged is said in `machine` and
//! `machine/lines`. What that leaves out:
//!
//! - Processors that are shared: each server has one, and the watch and threads outside have
//!   others. There is no kernel scheduler that moves or preempts threads.
//! - Caches that are full, and memory: a line is in another core's cache, or nowhere yet. Plain
//!   data, the insides of the queues, costs nothing but for the workers' descriptors.
//! - Processors that wake more slowly the longer they have slept.
//!
//! So figures tell what is the limit, and how it grows with the number of servers. How fast a
//! machine is they do not tell.
//!
//! Not chosen: to record a real run and replay it with more servers, as what a scheduler does
//! depends on how many there are; a model of the scheduler in a few lines, which would have the
//! faults that its writer thought of.

mod experiment;
mod machine;
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    unused_imports,
    rustdoc::broken_intra_doc_links,
    reason = "the sources are a part of the library, and not all of them is used here"
)]
mod rt;
mod workload;

// Names that the sources call are found in this crate.
extern crate self as rustix;
extern crate self as umcg_core;

pub use experiment::{Experiment, Findings, Lost, simulate, simulate_with};
pub use machine::{Cause, Costs, Spent, Stop};
pub use rt::base::here::Here;
pub use rt::scheduler;
pub use rt::task::runnable::Runnable;
pub use workload::{Workload, amounts};

/// A worker's number.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerId(u64);

impl WorkerId {
    pub(crate) fn from_raw(id: u64) -> WorkerId {
        WorkerId(id)
    }
}

/// For `umcg_core::asymmetric`.
#[doc(hidden)]
pub mod asymmetric {
    /// As the library's.
    #[track_caller]
    pub fn heavy() {
        crate::machine::heavy();
    }
}

/// For `umcg_core::raw`.
#[doc(hidden)]
pub mod raw {
    /// A server's right to run workers, which virtual ones do not need.
    #[derive(Clone, Copy, Debug)]
    pub struct Server;

    /// There are none: no worker blocks.
    #[derive(Clone, Copy, Debug)]
    pub enum Event {}

    impl Server {
        pub(crate) fn try_wait(self) -> Option<Event> {
            None
        }

        pub(crate) fn set_upper(self, _upper: usize) {}
    }

    pub(crate) fn apart<R>(f: impl FnOnce() -> R) -> R {
        f()
    }
}

/// For `umcg_core::fatal`.
#[doc(hidden)]
pub fn fatal(message: std::fmt::Arguments<'_>) -> ! {
    panic!("{message}")
}

/// For `rustix::thread`.
#[doc(hidden)]
pub mod thread {
    /// Futexes of a machine.
    pub mod futex {
        use crate::machine;
        use crate::rt::base::sync::AtomicU32;
        use std::num::NonZeroU32;
        use std::ptr::from_ref;

        /// As rustix has them.
        #[derive(Debug)]
        pub struct Flags;

        impl Flags {
            /// All words are of this process.
            pub const PRIVATE: Flags = Flags;
        }

        pub(crate) fn wake(word: &AtomicU32, _: Flags, _: u32) -> bool {
            machine::wake_one(from_ref(word).addr())
        }

        pub(crate) fn wait_bitset(
            word: &AtomicU32,
            _: Flags,
            value: u32,
            until: Option<&u64>,
            _: NonZeroU32,
        ) -> bool {
            let is_same = || word.peek() == value;
            machine::sleep_on(from_ref(word).addr(), until.copied(), is_same)
        }
    }
}
