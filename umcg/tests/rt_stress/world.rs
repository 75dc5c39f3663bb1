//! What a round shares.

use crate::harness::{Dump, Rng, SIGNALS, progress};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use std::sync::{Arc, Mutex};
use umcg::{Builder, Handle, JoinHandle, Runtime, Scope, ScopedJoinHandle};

/// Whose thread-local storage a worker has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Full,
    Light,
}

impl Kind {
    pub(crate) fn spawn<R: Send + 'static>(self, builder: &Builder<'_>, f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        match self {
            Kind::Full => builder.spawn(f).unwrap(),
            Kind::Light => unsafe { builder.spawn_light(f) }.unwrap(),
        }
    }

    pub(crate) fn spawn_on<R: Send + 'static>(self, on: &Runtime, f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
        match self {
            Kind::Full => on.spawn(f),
            Kind::Light => unsafe { on.spawn_light(f) },
        }
    }

    pub(crate) fn spawn_in<'s, R: Send + 's>(
        self,
        scope: &'s Scope<'s, '_>,
        f: impl FnOnce() -> R + Send + 's,
    ) -> ScopedJoinHandle<'s, R> {
        match self {
            Kind::Full => scope.spawn(f),
            Kind::Light => unsafe { scope.spawn_light(f) },
        }
    }
}

/// What a round is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) servers: usize,
    pub(crate) scheduler: u64,
    pub(crate) ring: bool,
    pub(crate) preemption: bool,
    pub(crate) signals: bool,
    pub(crate) roots: u64,
}

impl Shape {
    pub(crate) fn new(rng: &mut Rng) -> Shape {
        Shape {
            servers: rng.pick(&[1, 1, 2, 2, 3, 4, 8]),
            scheduler: rng.below(8),
            ring: rng.one_in(2),
            preemption: SIGNALS && rng.one_in(3),
            signals: rng.one_in(2),
            roots: 1 + rng.below(12),
        }
    }
}

/// Who waits for somebody to set the flag, and to unpark it.
struct Waiting(Handle, Arc<AtomicBool>);

pub(crate) struct World {
    seed: u64,
    pub(crate) shape: Shape,
    runtime: Mutex<Option<Arc<Runtime>>>,
    /// What all trees together have to return.
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

    /// A light worker that may be preempted anywhere could not allocate.
    pub(crate) fn kind(&self, rng: &mut Rng) -> Kind {
        if self.shape.preemption || rng.one_in(2) { Kind::Full } else { Kind::Light }
    }

    pub(crate) fn builder(&self, rng: &mut Rng) -> Builder<'static> {
        let mut builder = Builder::new().priority(rng.below(256) as u8);
        if rng.one_in(4) {
            builder = builder.server(rng.below(self.shape.servers as u64 + 1) as usize);
        }
        if rng.one_in(4) {
            builder = builder.deadline(std::time::Instant::now());
        }
        builder
    }

    /// Leaves the caller's handle to the storm; the flag is set before the unpark.
    pub(crate) fn ask(&self) -> Arc<AtomicBool> {
        let flag = Arc::new(AtomicBool::new(false));
        let waiting = Waiting(Handle::current(), flag.clone());
        // Who is preempted with a lock would hold up its server.
        umcg::critical(|| self.waiting.lock().unwrap().push(waiting));
        flag
    }

    pub(crate) fn answer_one(&self) -> bool {
        let Some(Waiting(handle, flag)) = umcg::critical(|| self.waiting.lock().unwrap().pop()) else { return false };
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

    /// Somebody, who may have ended.
    pub(crate) fn anybody(&self, rng: &mut Rng) -> Option<Handle> {
        umcg::critical(|| {
            let stale = self.stale.lock().unwrap();
            (!stale.is_empty()).then(|| stale[rng.below(stale.len() as u64) as usize])
        })
    }

    /// The body of a plain thread that answers, and wakes anybody for nothing.
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
        eprintln!("rt_stress: UMCG_STRESS_SEED={}, {:?}", self.seed, self.shape);
        std::thread::spawn(|| {
            std::thread::sleep(std::time::Duration::from_secs(20));
            std::process::abort();
        });
        let runtime = self.runtime.try_lock().ok().and_then(|runtime| runtime.clone());
        let text = runtime.map_or_else(|| "the runtime ends".to_owned(), |runtime| runtime.dump());
        let asked = self.waiting.try_lock().map_or(0, |waiting| waiting.len());
        format!("{:?}, {asked} ask to be unparked\n{text}", self.shape)
    }
}
