//! Many that want the same thing at once, over and over: how long each time takes, and how even the
//! shares are.

use super::flow::{Flow, settle};
use super::locks::{Counter, Lock};
use super::request::{Answer, Request};
use anyhow::{Context, Result, ensure};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Many that want the same thing at once, over and over, until the time is up. The holder looks at
/// the clock now and then: no other thread has to get a CPU for that.
pub(super) struct Contest {
    counter: Counter,
    there: AtomicUsize,
    is_over: AtomicBool,
    budget: Duration,
    start: OnceLock<Instant>,
    /// How often it was held, and how long that took.
    end: OnceLock<(u64, Duration)>,
}

/// It is held this often before the clock is looked at.
const CLOCK: u64 = 64;

impl Contest {
    pub(super) fn new(budget: Duration) -> Contest {
        Contest {
            counter: Counter::default(),
            there: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            budget,
            start: OnceLock::new(),
            end: OnceLock::new(),
        }
    }

    /// One more is about to ask for it.
    pub(super) fn arrive(&self) {
        self.there.fetch_add(1, Relaxed);
    }

    /// By the thread that keeps it from all others: waits until they have asked for it, and begins.
    pub(super) fn begin(&self, count: usize) {
        settle(&self.there, count);
        self.start.get_or_init(Instant::now);
    }

    /// By the holder. False if that was the last time.
    #[inline(always)]
    pub(super) fn turn(&self) -> bool {
        let count = self.counter.get() + 1;
        self.counter.set(count);
        if count % CLOCK == 0 {
            self.look(count);
        }
        !self.is_over.load(Relaxed)
    }

    #[inline(never)]
    fn look(&self, count: u64) {
        let elapsed = self.start.get().map_or(Duration::MAX, Instant::elapsed);
        if elapsed >= self.budget && self.end.set((count, elapsed)).is_ok() {
            self.is_over.store(true, Relaxed);
        }
    }

    /// With how often each had it.
    pub(super) fn answer(&self, each: &[u64]) -> Result<Answer> {
        let all: u64 = each.iter().sum();
        ensure!(
            self.counter.get() == all,
            "{} increments of {all}: two had it at once",
            self.counter.get()
        );
        let (count, took) = self.end.get().context("it has no end")?;
        let fairness = *each.iter().min().context("nobody")? as f64
            / *each.iter().max().context("nobody")? as f64;
        Ok(Answer {
            values: vec![took.as_secs_f64() * 1e9 / *count as f64, fairness],
            spread: None,
        })
    }
}

pub(super) fn contended<F: Flow, L: Lock>(request: &Request) -> Result<Answer> {
    let count = request.number("workers")?;
    let flow = F::new(request.cpus()?)?;
    let shared = Arc::new((L::new()?, Contest::new(request.budget())));
    let start = || {
        let shared = Arc::clone(&shared);
        flow.start(move || {
            let (lock, contest) = &*shared;
            contest.arrive();
            let mut turns = 1;
            while lock.with(|| contest.turn()) {
                turns += 1;
            }
            turns
        })
    };
    let joins: Vec<F::Join<u64>> = shared.0.with(|| {
        let joins = (0..count).map(|_| start()).collect();
        shared.1.begin(count);
        joins
    });
    let each = joins
        .into_iter()
        .map(F::join)
        .collect::<Result<Vec<u64>>>()?;
    shared.1.answer(&each)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contest_counts_and_ends() {
        let contest = Contest::new(Duration::ZERO);
        contest.begin(0);
        let turns = (0..).take_while(|_| contest.turn()).count() as u64;
        assert_eq!(turns + 1, CLOCK);
        assert!(contest.answer(&[turns]).is_err(), "a turn is missing");
        let answer = contest.answer(&[16, 48]).unwrap();
        assert_eq!(answer.values[1], 16.0 / 48.0);
    }
}
