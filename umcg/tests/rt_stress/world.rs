//! The shared state of a round.

use crate::harness::{Dump, Rng, progress};
use crate::runtime::{Kind, Shape};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use umcg::{Builder, Handle, Runtime};

/// A worker that waits for the flag to be set, and for an unpark.
struct Waiting(Handle, Arc<AtomicBool>);

pub(crate) struct World {
    seed: u64,
    pub(crate) shape: Shape,
    runtime: Mutex<Option<Arc<Runtime>>>,
    /// The sum that all trees together have to return.
    pub(crate) expected: AtomicU64,
    /// Guards.
    pub(crate) made: AtomicU64,
    pub(crate) dropped: AtomicU64,
    waiting: Mutex<Vec<Waiting>>,
    /// Of workers that have ended, most of them.
    stale: Mutex<Vec<Handle>>,
    pub(crate) over: AtomicBool,
}

/// Counts its drop. Large enough for a heap when there are a few in a closure.
pub(crate) struct Guard(Arc<World>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Relaxed);
    }
}

impl World {
    pub(crate) fn new(seed: u64, shape: Shape, runtime: Arc<Runtime>) -> World {
        World {
            seed,
            shape,
            runtime: Mutex::new(Some(runtime)),
            expected: AtomicU64::new(0),
            made: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            waiting: Mutex::new(Vec::new()),
            stale: Mutex::new(Vec::new()),
            over: AtomicBool::new(false),
        }
    }

    pub(crate) fn forget_runtime(&self) {
        drop(self.runtime.lock().unwrap().take());
    }

    pub(crate) fn guard(self: &Arc<Self>) -> Guard {
        self.made.fetch_add(1, Relaxed);
        Guard(self.clone())
    }

    pub(crate) fn kind(&self, rng: &mut Rng) -> Kind {
        self.shape.kind(rng)
    }

    pub(crate) fn builder(&self, rng: &mut Rng) -> Builder<'static> {
        self.shape.builder(rng)
    }

    /// Leaves the caller's handle to the storm; the flag is set before the unpark.
    pub(crate) fn ask(&self) -> Arc<AtomicBool> {
        let flag = Arc::new(AtomicBool::new(false));
        let waiting = Waiting(Handle::current(), flag.clone());
        // A worker that is preempted with a lock would hold up its server.
        umcg::critical(|| self.waiting.lock().unwrap().push(waiting));
        flag
    }

    pub(crate) fn answer_one(&self) -> bool {
        let Some(Waiting(handle, flag)) = umcg::critical(|| self.waiting.lock().unwrap().pop())
        else {
            return false;
        };
        flag.store(true, Release);
        handle.unpark();
        true
    }

    pub(crate) fn leave_stale(&self, handle: Handle) {
        umcg::critical(|| {
            let mut stale = self.stale.lock().unwrap();
            if stale.len() < 100 {
                stale.push(handle);
            } else {
                stale[handle.id().as_u64() as usize / 64 % 100] = handle;
            }
        });
    }

    /// A worker or thread that may have ended.
    pub(crate) fn anybody(&self, rng: &mut Rng) -> Option<Handle> {
        umcg::critical(|| {
            let stale = self.stale.lock().unwrap();
            (!stale.is_empty()).then(|| stale[rng.below(stale.len() as u64) as usize])
        })
    }

    /// The body of a plain thread that answers, and wakes others without a reason.
    pub(crate) fn storm(&self, number: u64) {
        let mut rng = Rng::new(self.seed, 5000 + number);
        while !self.over.load(Relaxed) {
            if !self.answer_one() {
                std::thread::sleep(std::time::Duration::from_micros(rng.below(100)));
            }
            for _ in 0..rng.below(4) {
                if let Some(handle) = self.anybody(&mut rng) {
                    handle.unpark();
                }
            }
        }
        while self.answer_one() {}
    }

    /// Something was done.
    pub(crate) fn done(&self) {
        progress();
    }
}

impl Dump for World {
    fn dump(&self) -> String {
        // First of all, as the dump may hang itself.
        eprintln!(
            "rt_stress: UMCG_STRESS_SEED={}, {:?}",
            self.seed, self.shape
        );
        std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_secs(20));
            std::process::abort();
        });
        let runtime = self
            .runtime
            .try_lock()
            .ok()
            .and_then(|runtime| runtime.clone());
        let text = runtime.map_or_else(|| "the runtime ends".to_owned(), |runtime| runtime.dump());
        let asked = self.waiting.try_lock().map_or(0, |waiting| waiting.len());
        format!("{:?}, {asked} ask to be unparked\n{text}", self.shape)
    }
}
