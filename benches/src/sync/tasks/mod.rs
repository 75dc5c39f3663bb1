//! Tasks of tokio's multi-threaded runtime: they have no stacks, and so lines of their own.

mod select;
mod sem;
pub(super) mod tube;

pub(super) use select::{blocking, ready};
pub(super) use sem::sem;

use crate::harness::Sample;
use anyhow::Result;
use std::future::Future;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};

/// As many threads as there are CPUs.
fn runtime(cpus: usize) -> Result<Runtime> {
    Ok(Builder::new_multi_thread().worker_threads(cpus).build()?)
}

/// As a task: what `block_on` itself runs is not on a worker thread.
fn enter<T: Send + 'static>(runtime: &Runtime, body: impl Future<Output = T> + Send + 'static) -> Result<T> {
    Ok(runtime.block_on(runtime.spawn(body))?)
}

/// A batch takes about this long.
const BATCH: Duration = Duration::from_micros(50);

/// `harness::measure` for what is awaited.
macro_rules! measure {
    ($budget:expr, $count:ident => $batch:expr) => {{
        let mut pace = $crate::sync::tasks::Pace::new($budget);
        while let Some($count) = pace.next() {
            $batch
        }
        pace.sample()
    }};
}
use measure;

/// How many to do, until the budget is over. How many make a batch is found by trying; what was tried is not counted.
struct Pace {
    budget: Duration,
    size: u64,
    is_found: bool,
    start: Instant,
    operations: u64,
    elapsed: Duration,
}

impl Pace {
    fn new(budget: Duration) -> Pace {
        Pace { budget, size: 0, is_found: false, start: Instant::now(), operations: 0, elapsed: Duration::ZERO }
    }

    /// The size of the next batch; the one before is done.
    fn next(&mut self) -> Option<u64> {
        let elapsed = self.start.elapsed();
        if self.is_found {
            (self.operations, self.elapsed) = (self.operations + self.size, elapsed);
            return (elapsed < self.budget).then_some(self.size);
        }
        self.is_found = self.size > 0 && (elapsed >= BATCH || self.size >= 1 << 24);
        if !self.is_found {
            self.size = (self.size * 2).max(1);
        }
        self.start = Instant::now();
        Some(self.size)
    }

    fn sample(&self) -> Sample {
        Sample { operations: self.operations, elapsed: self.elapsed, ticks: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_timed_part_is_counted() {
        let (mut total, mut largest) = (0, 0);
        let sample = measure!(Duration::from_millis(2), n => {
            total += n;
            largest = largest.max(n);
            std::thread::sleep(Duration::from_micros(10 * n));
        });
        assert!(sample.operations >= 1 && sample.operations < total);
        assert_eq!(sample.operations % largest, 0);
        assert!(sample.elapsed >= Duration::from_millis(2));
    }
}
