//! To take from the first of many that has something: altsems, and `select` over channels. Two
//! figures of each: where one has something, and where the taker has to wait.

use super::flow::Flow;
use super::request::{Answer, Clock, Request};
use crate::harness::{measure, ticks};
use anyhow::{Result, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// This many are put into one before any is taken again. As many fit.
pub(super) const BATCH: u64 = 32;

/// Many that one can put something into. They stay for ever: a child process has few of them.
pub(super) trait Many: Sized + Sync + 'static {
    /// The taker, with the state that it keeps between two takings.
    type Taker;

    fn new(count: usize) -> Result<Self>;
    fn put(&self, index: usize);
    fn taker(&'static self) -> Self::Taker;
    /// Waits until one has something, takes it, and says which that was.
    fn take(taker: &mut Self::Taker) -> usize;
}

/// A sequence in which all come up equally often, and none predictably.
pub(super) struct Order {
    state: u32,
    count: usize,
}

impl Order {
    pub(super) fn of(count: usize) -> Order {
        Order {
            state: 2_463_534_242,
            count,
        }
    }

    #[inline]
    pub(super) fn next(&mut self) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        ((u64::from(self.state) * self.count as u64) >> 32) as usize
    }
}

/// One of them has something, the others have not: the cost of taking it.
pub(super) fn ready<F: Flow, M: Many>(request: &Request) -> Result<Answer> {
    let (flow, count, budget) = (F::new(1)?, request.number("k")?, request.budget());
    let many: &'static M = Box::leak(Box::new(M::new(count)?));
    let join = flow.start(move || {
        let (mut taker, mut order) = (many.taker(), Order::of(count));
        let mut batches = Batches::new(budget);
        while batches.go_on() {
            let index = order.next();
            (0..BATCH).for_each(|_| many.put(index));
            let start = ticks();
            let all_right = (0..BATCH).fold(true, |all_right, _| {
                all_right & (M::take(&mut taker) == index)
            });
            batches.add(ticks().wrapping_sub(start), all_right);
        }
        batches
    });
    F::join(join)?.answer()
}

/// Batches of [`BATCH`] that are timed by ticks, as reading another clock would take as long as
/// some of the measured operations. The first eighth of the time warms up.
pub(super) struct Batches {
    clock: Clock,
    start: Instant,
    budget: Duration,
    count: u64,
    ticks: u64,
    is_warm: bool,
    all_right: bool,
}

impl Batches {
    pub(super) fn new(budget: Duration) -> Batches {
        let (clock, start) = (Clock::start(), Instant::now());
        Batches {
            clock,
            start,
            budget,
            count: 0,
            ticks: 0,
            is_warm: false,
            all_right: true,
        }
    }

    pub(super) fn go_on(&self) -> bool {
        !self.is_warm || self.count == 0 || self.start.elapsed() < self.budget
    }

    pub(super) fn add(&mut self, ticks: u64, all_right: bool) {
        self.all_right &= all_right;
        if self.is_warm {
            self.count += 1;
            self.ticks += ticks;
        }
        self.is_warm |= self.start.elapsed() >= self.budget / 8;
    }

    pub(super) fn answer(&self) -> Result<Answer> {
        ensure!(self.all_right, "something was taken that was not there");
        Answer::of(self.clock.nanos([self.ticks])[0] / (self.count * BATCH) as f64)
    }
}

/// Two that answer each other, each by one of many: there and back.
pub(super) fn blocking<F: Flow, M: Many>(request: &Request) -> Result<Answer> {
    let (flow, count, budget) = (
        F::new(request.cpus()?)?,
        request.number("k")?,
        request.budget(),
    );
    let [here, there] =
        [M::new(count)?, M::new(count)?].map(|many| -> &'static M { Box::leak(Box::new(many)) });
    let stop = Arc::new(AtomicBool::new(false));
    let is_over = Arc::clone(&stop);
    let answering = flow.start(move || {
        let mut taker = there.taker();
        loop {
            let index = M::take(&mut taker);
            // The data that came with it are seen.
            if is_over.load(Relaxed) {
                return;
            }
            here.put(index);
        }
    });
    let asking = flow.start(move || {
        let (mut taker, mut order) = (here.taker(), Order::of(count));
        let mut all_right = true;
        let sample = measure(budget, |n| {
            for _ in 0..n {
                let index = order.next();
                there.put(index);
                all_right &= M::take(&mut taker) == index;
            }
        });
        stop.store(true, Relaxed);
        there.put(0);
        (sample, all_right)
    });
    let (sample, all_right) = F::join(asking)?;
    F::join(answering)?;
    ensure!(all_right, "an answer came by the wrong one");
    Answer::of(sample.nanos())
}
