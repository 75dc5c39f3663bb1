//! Recording of histories.

use crate::checker::Recorded;
use crate::harness::{Rng, spin};
use crate::runtime::Kind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};
use umcg::{JoinHandle, Runtime};

/// A party that takes part.
pub(crate) struct Party<O> {
    number: usize,
    pub(crate) rng: Rng,
    clock: Arc<AtomicU64>,
    recorded: Vec<Recorded<O>>,
}

impl<O> Party<O> {
    /// Does something, and keeps its answer, and when it was done.
    pub(crate) fn record(&mut self, operation: impl FnOnce() -> O) {
        let called = self.clock.fetch_add(1, SeqCst);
        let operation = operation();
        let returned = self.clock.fetch_add(1, SeqCst);
        self.recorded.push(Recorded {
            party: self.number,
            operation,
            called,
            returned,
        });
        match self.rng.below(6) {
            0 | 1 => umcg::yield_now(),
            2 => spin(&mut self.rng, 200),
            _ => {}
        }
    }

    /// Now, or soon.
    pub(crate) fn soon(&mut self) -> Instant {
        let after = if self.rng.one_in(4) {
            0
        } else {
            self.rng.below(500)
        };
        Instant::now() + Duration::from_micros(after)
    }
}

/// How many wait, as the object says of itself.
pub(crate) fn waiting(text: &str, name: &str) -> usize {
    let (_, after) = text
        .split_once(&format!(" {name}: "))
        .unwrap_or_else(|| panic!("{name}: {text}"));
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

enum Joined<R> {
    Worker(JoinHandle<R>),
    Thread(std::thread::JoinHandle<R>),
}

/// Runtimes of different sizes, for all histories of a test.
pub(crate) fn runtimes() -> Vec<Runtime> {
    let build = |servers| {
        Runtime::builder()
            .servers(servers)
            .stack_size(128 << 10)
            .build()
            .unwrap()
    };
    [1, 2, 4].map(build).into()
}

/// The work of some parties together, a few things each.
pub(crate) fn history<O: Send + 'static>(
    runtime: &Runtime,
    rng: &mut Rng,
    body: impl Fn(&mut Party<O>) + Clone + Send + 'static,
) -> Vec<Recorded<O>> {
    let parties = 3 + rng.below(4) as usize;
    let (clock, arrived) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicUsize::new(0)));
    let start = |number| {
        let (arrived, body) = (arrived.clone(), body.clone());
        let mut party = Party {
            number,
            rng: Rng::new(rng.next(), 0),
            clock: clock.clone(),
            recorded: Vec::new(),
        };
        let all = move || {
            arrived.fetch_add(1, SeqCst);
            while arrived.load(SeqCst) < parties {
                umcg::yield_now();
            }
            body(&mut party);
            party.recorded
        };
        match rng.below(3) {
            0 => Joined::Thread(std::thread::spawn(all)),
            1 => Joined::Worker(Kind::Full.spawn_on(runtime, all)),
            _ => Joined::Worker(Kind::Light.spawn_on(runtime, all)),
        }
    };
    let started: Vec<_> = (0..parties).map(start).collect();
    let ended = started.into_iter().flat_map(|joined| match joined {
        Joined::Worker(worker) => worker.join().unwrap(),
        Joined::Thread(thread) => thread.join().unwrap(),
    });
    ended.collect()
}
