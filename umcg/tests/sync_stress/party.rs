//! A party: a worker or a kernel thread.

use crate::harness::{Rng, kernel_tid, progress, spin};
use crate::world::World;
use crate::{locks, select, takings, words};
use std::sync::atomic::Ordering::*;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::{JoinError, JoinHandle};

pub(crate) struct Party {
    pub(crate) world: Arc<World>,
    pub(crate) rng: Rng,
    number: usize,
    is_worker: bool,
}

impl Party {
    /// Between two things that it does, or while it has something: stops here while the world is
    /// frozen. A point of cancellation.
    pub(crate) fn step(&mut self) {
        progress();
        while self.world.is_frozen.load(Acquire) {
            umcg::sleep(Duration::from_micros(100));
        }
        match self.rng.below(12) {
            0..=2 => umcg::yield_now(),
            3 => umcg::sleep(self.short()),
            4 => spin(&mut self.rng, 3000),
            _ => {}
        }
    }

    pub(crate) fn short(&mut self) -> Duration {
        // Often over already, or just about then.
        match self.rng.below(4) {
            0 => Duration::ZERO,
            1 => Duration::from_micros(self.rng.below(10)),
            _ => Duration::from_micros(self.rng.below(400)),
        }
    }

    pub(crate) fn soon(&mut self) -> Instant {
        Instant::now() + self.short()
    }

    /// In a worker, now and then within a time: none if that was over first. Or within a blocking
    /// scope.
    pub(crate) fn cut<R>(&mut self, f: impl FnOnce(&mut Party) -> R) -> Option<R> {
        match self.rng.below(10) {
            0 | 1 if self.is_worker => umcg::timeout(self.short(), || f(self)).ok(),
            2 if self.is_worker => Some(umcg::blocking(|| f(self))),
            _ => Some(f(self)),
        }
    }

    /// Announces the thing it is about to wait for, without an end of its own.
    pub(crate) fn intends(&self, intent: u64) -> Intent {
        self.world.intents[self.number].store(intent, SeqCst);
        Intent(self.world.clone(), self.number)
    }
}

pub(crate) struct Intent(Arc<World>, usize);

impl Drop for Intent {
    fn drop(&mut self) {
        self.0.intents[self.1].store(0, SeqCst);
    }
}

/// The work of most of them: a few things, of any kind.
pub(crate) fn anything(mut party: Party) {
    for _ in 0..10 + party.rng.below(40) {
        party.step();
        match party.rng.below(8) {
            0..=2 => takings::one(&mut party),
            3 => select::one(&mut party),
            4 | 5 => locks::one(&mut party),
            _ => words::one(&mut party),
        }
    }
}

/// One that was started.
pub(crate) enum Joined {
    /// And whether it may be aborted.
    Worker(JoinHandle<()>, bool),
    Thread(std::thread::JoinHandle<()>),
}

impl Joined {
    /// `may_be_cut`: it is a worker, and may be aborted.
    pub(crate) fn start(
        world: &Arc<World>,
        number: usize,
        rng: &mut Rng,
        tids: &Arc<Mutex<Vec<i32>>>,
        (body, may_be_cut): (impl FnOnce(Party) + Send + 'static, bool),
    ) -> Joined {
        let is_worker = may_be_cut || !rng.one_in(3);
        let party = Party {
            world: world.clone(),
            rng: Rng::new(rng.next(), 1),
            number,
            is_worker,
        };
        if is_worker {
            let (runtime, builder) = (
                world.runtime().expect("the round has begun"),
                world.shape.builder(rng),
            );
            return Joined::Worker(
                world
                    .shape
                    .kind(rng)
                    .build_on(&runtime, &builder, move || body(party))
                    .unwrap(),
                may_be_cut,
            );
        }
        let tids = tids.clone();
        Joined::Thread(std::thread::spawn(move || {
            tids.lock().unwrap().push(kernel_tid());
            body(party);
        }))
    }

    /// If it may be.
    pub(crate) fn abort(&self) {
        if let Joined::Worker(worker, true) = self {
            worker.abort();
        }
    }

    pub(crate) fn join(self) {
        match self {
            Joined::Thread(thread) => thread.join().unwrap(),
            Joined::Worker(worker, may_be_cut) => match worker.join() {
                Err(JoinError::Cancelled) if may_be_cut => {}
                ended => ended.unwrap(),
            },
        }
    }
}
