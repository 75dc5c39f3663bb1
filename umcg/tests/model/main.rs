//! Models of the runtime's protocols: the real sources on locks, atomics and futexes of a checker's
//! (shuttle). Beside them, under every interleaving of an x86-64 ([`tso`]), the few lines that
//! stand on a membarrier, to which shuttle is blind.
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
mod condvar;
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
mod idle;
#[cfg(shuttle)]
mod joint;
#[cfg(shuttle)]
#[path = "../../../umcg-core/tests/model/kernel.rs"]
#[allow(dead_code, reason = "it has signals too")]
mod kernel;
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
mod park;
#[cfg(shuttle)]
mod per_server;
#[cfg(shuttle)]
mod rank;
#[cfg(shuttle)]
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    reason = "the sources are a part of the library, and not all of them is used here"
)]
mod rt;
#[cfg(shuttle)]
#[allow(missing_docs, dead_code, unreachable_pub, reason = "as above")]
#[path = "../../src/select"]
mod select {
    pub(crate) mod custom;
    pub(crate) mod engine;
    pub(crate) mod list;
    pub(crate) mod operation;
    pub(crate) mod order;
    pub(crate) mod set;

    /// The loop is used without it.
    struct Select;

    impl Select {
        fn new() -> Select {
            unreachable!()
        }

        fn wait(self, _: &mut [impl operation::Selectable]) -> usize {
            unreachable!()
        }

        fn wait_deadline(
            self,
            _: &mut [impl operation::Selectable],
            _: std::time::Instant,
        ) -> Option<usize> {
            unreachable!()
        }

        fn wait_timeout(
            self,
            _: &mut [impl operation::Selectable],
            _: std::time::Duration,
        ) -> Option<usize> {
            unreachable!()
        }
    }
}
#[cfg(shuttle)]
mod rwlock;
#[cfg(shuttle)]
mod segment;
#[cfg(shuttle)]
mod semaphore;
#[cfg(shuttle)]
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "as above"
)]
#[path = "../../src/sync"]
mod sync {
    pub(crate) mod any;
    pub(crate) mod barrier;
    pub(crate) mod condvar;
    pub(crate) mod event;
    pub(crate) mod gate;
    pub(crate) mod joint;
    pub(crate) mod mutex;
    pub(crate) mod objects;
    pub(crate) mod once;
    pub(crate) mod rwlock;
    pub(crate) mod semaphore;
    pub(crate) mod wait_group;
    pub(crate) use any::any;
    pub(crate) use mutex::Mutex;
    pub(crate) use semaphore::Semaphore;

    shuttle::lazy_static! {
        static ref JOINT_LOCK: crate::rt::spin::Spin<()> = crate::rt::spin::Spin::new(());
    }

    fn joint_lock() -> &'static crate::rt::spin::Spin<()> {
        &JOINT_LOCK
    }
}
#[cfg(shuttle)]
#[path = "set.rs"]
mod sets;
#[cfg(shuttle)]
mod system;
#[cfg(shuttle)]
#[path = "../../src/tube"]
#[allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "as above"
)]
mod tube {
    pub(crate) mod back;
    pub(crate) mod batch;
    pub(crate) mod core;
    pub(crate) mod ends;
    pub(crate) mod error;
    pub(crate) mod futures;
    pub(crate) mod guards;
    pub(crate) mod layout;
    pub(crate) mod operation;
    /// No thread looks first, so that there are more waits.
    mod patience {
        pub(super) fn back_off(_: &mut u32) {
            crate::rt::sync::spin();
        }

        pub(super) fn look_while(_: impl Fn() -> bool, _: impl Fn() -> bool) {}
    }
    pub(crate) mod node;
    pub(crate) mod slots;
    pub(crate) mod waiting;
}
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
pub use system::{asymmetric, io, raw, thread};

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
