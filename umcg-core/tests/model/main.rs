//! Models of the protocols, under shuttle: the real sources of the idle lists, of the pool of
//! helpers, of the homes of adopted workers, and of stuck workers that are taken off, on locks,
//! atomics, futexes, signals and a clock of the checker's.
//!
//! `ci/models.sh` runs them, first with bugs planted in a copy of those sources: the models have to
//! find each. By hand:
//!
//! ```text
//! RUSTFLAGS="--cfg shuttle" cargo test -p umcg-core --test model
//! ```
//!
//! | variable | means |
//! |---|---|
//! | `UMCG_MODEL_RUNS` | schedules a test and a scheduler; 500 |
//! | `UMCG_MODEL_SEED` | the seed of the schedules, as a failure prints it |
//! | `UMCG_MODEL_STOP` | if set, the first failure ends the process, and no other model continues |
//!
//! The models cannot check orderings: shuttle treats every atomic operation as sequentially
//! consistent.

#![cfg(shuttle)]
#![allow(
    missing_docs,
    dead_code,
    unreachable_pub,
    reason = "the sources are a part of the library, and not all of them is used here"
)]

mod at_home;
#[path = "../../src/umcg/helper"]
mod helper {
    pub(crate) mod maker;
    pub(crate) mod pool;
}
mod helpers;
#[path = "../../src/umcg/idle/mod.rs"]
mod idle;
mod kernel;
#[path = "../../src/base/link.rs"]
mod link;
pub mod static_lock;
mod storm;
mod sync;
mod taken_off;
#[path = "../../src/base/timer.rs"]
mod timer;
mod two;

/// The paths by which the sources import these.
mod base {
    pub(crate) use crate::at_home::kernel as call;
    pub(crate) use crate::{link, sync, timer};
}

/// As above.
mod os {
    pub(crate) mod signal {
        pub(crate) use crate::at_home::kernel::*;
        pub(crate) use crate::taken_off::frame::{Frame, block};
    }
}

// Names of `umcg_context` are found in this crate.
extern crate self as umcg_context;
pub use at_home::context::{EntryFn, local, set_thread_pointer, switch, way};
pub use static_lock as lock;

use helpers::worker;
use idle::{EventKind, IdleSeat, Lists, Node};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner, thread};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Runs `test` under many schedules of two kinds: random ones, and those with few but well chosen
/// preemptions (PCT).
fn check(test: fn()) {
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
    let mut config = Config::new();
    config.max_steps = shuttle::MaxSteps::FailAfter(100_000);
    config.silence_warnings = true;
    Runner::new(RandomScheduler::new_from_seed(seed, runs), config.clone()).run(test);
    Runner::new(PctScheduler::new_from_seed(seed, 3, runs), config).run(test);
}

fn lists() -> &'static Lists {
    Box::leak(Box::new(Lists::new(kernel::now, |_| {})))
}

fn seat() -> &'static IdleSeat {
    Box::leak(Box::new(IdleSeat::new()))
}

fn node(tid: u32, state: u32) -> &'static Node {
    let node: &'static Node = Box::leak(Box::new(Node::new()));
    node.reset(tid, u64::from(tid) << 5, state);
    node
}

/// Threads that may be waiting as idle servers.
struct Servers<T> {
    threads: Vec<thread::JoinHandle<T>>,
    finished: Arc<AtomicUsize>,
}

impl<T: Send + 'static> Servers<T> {
    fn spawn(count: usize, serve: impl Fn() -> T + Clone + Send + 'static) -> Servers<T> {
        let finished = Arc::new(AtomicUsize::new(0));
        let one = |_| {
            let (serve, finished) = (serve.clone(), finished.clone());
            thread::spawn(move || {
                let result = serve();
                finished.fetch_add(1, Relaxed);
                result
            })
        };
        let threads = (0..count).map(one).collect();
        Servers { threads, finished }
    }

    /// Ends the servers' waits until none is left.
    fn end(self, lists: &'static Lists) -> Vec<T> {
        while self.finished.load(Relaxed) < self.threads.len() {
            lists.wake_server();
            thread::yield_now();
        }
        self.join()
    }

    fn join(self) -> Vec<T> {
        self.threads
            .into_iter()
            .map(|thread| thread.join().unwrap())
            .collect()
    }
}

/// Waits for the next event as a server does. None if the wait ends otherwise.
fn next_event(
    lists: &'static Lists,
    seat: &'static IdleSeat,
    deadline: Option<u64>,
    hand: idle::Hand,
) -> (idle::WaitOutcome, Vec<(u32, EventKind)>) {
    let mut events = Vec::new();
    let room = if hand == idle::Hand::Held { 1 } else { 2 };
    let waited = lists.wait(
        seat,
        deadline,
        hand,
        room,
        &mut |node, kind| {
            events.push((node.tid(), kind));
            true
        },
        &|| false,
    );
    (waited, events)
}
