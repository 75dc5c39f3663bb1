//! Models of the runtime's protocols: the real sources on locks, atomics and futexes of a checker's
//! (shuttle). Beside them, under every interleaving of an x86-64 ([`tso`]), the few lines that
//! stand on a membarrier, to which shuttle is blind.
//!
//! What loom runs as well is in `tests/checked`: the scenarios, their parties, and what the sources
//! find in place of the rest. It stands on [`checker`], which is each checker's own.
//!
//! `ci/models.sh` runs them, first with bugs planted in a copy of the sources: each has to be
//! found. By hand:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p umcg --test model
//! ```
//!
//! | variable | means |
//! |---|---|
//! | `UMCG_MODEL_RUNS` | schedules a test and a scheduler; 500 |
//! | `UMCG_MODEL_SEED` | the seed of the schedules, as a failure prints it |
//! | `UMCG_MODEL_STOP` | if set, the first failure ends the process, and no other model goes on |

mod tso;

#[cfg(shuttle)]
#[allow(dead_code, reason = "as much as the shared parts want")]
mod checker;
#[cfg(shuttle)]
mod condvar;
#[cfg(shuttle)]
#[allow(missing_docs, unreachable_pub, reason = "as the library's")]
mod core_calls;
#[cfg(shuttle)]
#[allow(unreachable_pub, reason = "as the library's")]
mod courier;
#[cfg(shuttle)]
#[path = "../../src/error"]
mod error {
    pub(crate) mod texts;
    pub(crate) use texts::texts;
}
#[cfg(shuttle)]
mod event;
#[cfg(shuttle)]
mod futex;
#[cfg(shuttle)]
mod futex_calls;
#[cfg(shuttle)]
#[allow(unreachable_pub, reason = "as the library's")]
mod homes;
#[cfg(shuttle)]
mod idle;
#[cfg(shuttle)]
mod inactive;
#[cfg(shuttle)]
mod joins;
#[cfg(shuttle)]
mod joint;
#[cfg(shuttle)]
#[path = "../../../umcg-core/tests/model/kernel.rs"]
#[allow(dead_code, reason = "it has signals too")]
mod kernel;
#[cfg(shuttle)]
#[allow(missing_docs, unreachable_pub, reason = "as the library's")]
mod late;
#[cfg(shuttle)]
mod meetings;
#[cfg(shuttle)]
mod moments;
#[cfg(shuttle)]
mod mutex;
#[cfg(shuttle)]
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "as for `rt`"
)]
#[path = "../../src/nt"]
mod nt {
    pub(crate) mod handle;
    pub(crate) mod object;
    pub(crate) mod types;
    pub(crate) mod wait;
    pub(crate) use handle::Handle;
    pub(crate) use types::{Event, Mutex, NotOwner, Owned, Semaphore, Timer};
    pub(crate) use wait::{Wait, WaitError, Woken};

    /// There are no timers.
    mod clock {
        use super::object::Object;

        pub(super) struct Alarm;

        impl Alarm {
            pub(super) const fn none() -> Alarm {
                Alarm
            }

            pub(super) const fn of(_: usize) -> Alarm {
                Alarm
            }

            pub(super) fn due(&self) -> u64 {
                u64::MAX
            }
        }

        pub(super) fn set(_: &Object, _: u64, _: u64) -> std::io::Result<bool> {
            unreachable!()
        }

        pub(super) fn disarm(_: &Object) -> bool {
            unreachable!()
        }

        pub(super) fn catch_up(_: &Object) {}
    }

    /// Owners are the callers' own.
    mod owner {
        use super::handle::{BorrowedHandle, Handle};
        use std::num::NonZeroU32;

        pub(super) fn current() -> NonZeroU32 {
            unreachable!()
        }

        pub(super) fn note(_: NonZeroU32, _: BorrowedHandle<'_>) {}

        pub(super) fn adopt(_: NonZeroU32, _: BorrowedHandle<'_>) {}

        pub(super) fn forget(_: NonZeroU32, _: &Handle) {}
    }
}
#[cfg(shuttle)]
#[path = "nt.rs"]
mod nt_objects;
#[cfg(shuttle)]
#[allow(missing_docs, reason = "as the library's")]
mod outsiders;
#[cfg(shuttle)]
mod park;
#[cfg(shuttle)]
#[path = "../checked/parties.rs"]
mod parties;
#[cfg(shuttle)]
mod per_server;
#[cfg(shuttle)]
mod rank;
#[cfg(shuttle)]
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    clippy::drop_non_drop,
    reason = "the sources are a part of the library, and not all of them is used here"
)]
#[path = "../checked/rt/mod.rs"]
mod rt;
#[cfg(shuttle)]
mod rwlock;
#[cfg(shuttle)]
mod segment;
#[cfg(shuttle)]
mod semaphore;
#[cfg(shuttle)]
mod servers;
#[cfg(shuttle)]
#[path = "set.rs"]
mod sets;
#[cfg(shuttle)]
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "as above"
)]
#[path = "../checked/sources.rs"]
mod sources;
#[cfg(shuttle)]
#[allow(unreachable_pub, reason = "as the library's")]
#[path = "../../../umcg-core/tests/model/static_lock.rs"]
pub mod static_lock;
#[cfg(shuttle)]
#[path = "../checked/system.rs"]
mod system;
#[cfg(shuttle)]
mod tubes;
#[cfg(shuttle)]
mod waitable;

// Names that the sources call are found in this crate.
#[cfg(shuttle)]
extern crate self as rustix;
#[cfg(shuttle)]
extern crate self as umcg_core;
#[cfg(shuttle)]
extern crate self as umcg_intercept;
#[cfg(shuttle)]
pub use core_calls::{call, context, reach};
#[cfg(shuttle)]
pub use outsiders::hooked::{Call, Next};
#[cfg(shuttle)]
use sources::{select, sync, tube};
#[cfg(shuttle)]
pub use system::io;

/// For `umcg_core::asymmetric`. Fences are nothing to the checker; but a switch may come there.
#[cfg(shuttle)]
pub mod asymmetric {
    /// As the library's.
    pub fn light() {
        shuttle::thread::yield_now();
    }

    /// As the library's.
    pub fn heavy() {
        shuttle::thread::yield_now();
    }
}

/// For `umcg_core::raw`.
#[cfg(shuttle)]
pub mod raw {
    /// A server's right to run workers, which a model does not need.
    #[derive(Clone, Copy)]
    pub struct Server;

    pub use crate::courier::rouse_courier;
    pub use crate::homes::home::reclaim_homes;
    pub use crate::late::home::{Adopted, tell_home};
    pub(crate) use crate::rt::engine::guest::Worker;
}

/// For `rustix::thread`.
#[cfg(shuttle)]
pub mod thread {
    pub use crate::system::{Timespec, futex};
}

/// Runs `test` under many schedules of two kinds: random ones, and those with few but well chosen
/// preemptions (PCT).
#[cfg(shuttle)]
fn check(test: fn()) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    kernel::stop_at_the_first_failure();
    let setting = |name: &str| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().expect(name))
    };
    let runs = setting("UMCG_MODEL_RUNS").unwrap_or(500) as usize;
    let seed =
        setting("UMCG_MODEL_SEED").unwrap_or_else(|| u64::from(std::process::id()) * 1_000_003);
    eprintln!("UMCG_MODEL_SEED={seed}");
    let mut config = shuttle::Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(100_000);
    config.silence_warnings = true;
    shuttle::Runner::new(RandomScheduler::new_from_seed(seed, runs), config.clone()).run(test);
    shuttle::Runner::new(PctScheduler::new_from_seed(seed, 3, runs), config).run(test);
}
