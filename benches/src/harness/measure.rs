//! The clock, and the loop that calls the measured operation.

use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The unit of [`ticks`]. On x86-64 the time-stamp counter: cycles at the processor's nominal
/// frequency, at any actual frequency. Elsewhere no counter that user mode may read counts cycles,
/// so it is nanoseconds.
pub const TICKS_UNIT: &str = if cfg!(target_arch = "x86_64") {
    "cycles"
} else {
    "ns"
};

/// The finest clock there is; see [`TICKS_UNIT`].
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: reads a counter; every x86-64 has it and Linux does not forbid it.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// The step of [`ticks`] in nanoseconds. Some processors count in steps of 10 ns, or more: an
/// operation that is measured by itself then takes a whole number of steps, whatever it takes.
pub fn clock_step() -> f64 {
    static STEP: OnceLock<f64> = OnceLock::new();
    *STEP.get_or_init(|| {
        let (start, first) = (Instant::now(), ticks());
        let differences = (0..20_000).map(|place| {
            let before = ticks();
            for turn in 0..place % 64 {
                black_box(turn);
            }
            ticks().wrapping_sub(before)
        });
        let step = step_of(differences.collect());
        let all = ticks().wrapping_sub(first).max(1);
        step as f64 * start.elapsed().as_nanos() as f64 / all as f64
    })
}

/// The distance of the clusters that the differences of readings are in: the middle one of the
/// first few. Differences of a fine clock are in none, as all come up from the smallest on.
fn step_of(mut differences: Vec<u64>) -> u64 {
    /// A step that is no whole number of ticks is rounded up or down, and time may not stand still.
    const NEAR: u64 = 2;
    differences.retain(|difference| *difference > NEAR);
    differences.sort_unstable();
    differences.dedup();
    let first = &differences[..differences.len().min(8)];
    let gaps = first.windows(2).map(|pair| pair[1] - pair[0]);
    let mut gaps: Vec<u64> = gaps.filter(|gap| *gap > NEAR).collect();
    gaps.sort_unstable();
    if gaps.len() < 2 {
        1
    } else {
        gaps[gaps.len() / 2]
    }
}

/// How many operations took how long.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Operations done.
    pub operations: u64,
    /// Time they took.
    pub elapsed: Duration,
    /// The same in [`TICKS_UNIT`].
    pub ticks: u64,
}

impl Sample {
    /// Operations a second.
    pub fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// Nanoseconds an operation.
    pub fn nanos(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1e9 / self.operations as f64
    }

    /// [`TICKS_UNIT`] an operation.
    pub fn ticks_each(&self) -> f64 {
        self.ticks as f64 / self.operations as f64
    }

    /// Puts two samples of the same thing together.
    pub fn add(&mut self, other: Sample) {
        self.operations += other.operations;
        self.elapsed += other.elapsed;
        self.ticks += other.ticks;
    }
}

/// Times `work`, which does `operations` operations.
#[inline(always)]
pub fn time(operations: u64, work: impl FnOnce()) -> Sample {
    let start = (Instant::now(), ticks());
    work();
    let ticks = ticks().wrapping_sub(start.1);
    Sample {
        operations,
        elapsed: start.0.elapsed(),
        ticks,
    }
}

/// A batch takes about this long, so that reading the clock between batches costs nothing.
const BATCH: Duration = Duration::from_micros(50);

/// And is not larger than this.
const MOST: u64 = 1 << 24;

/// Says how many operations to do next, until the budget is over. The size of a batch is found by
/// trying; the trials are not counted.
#[derive(Debug)]
pub struct Pace {
    budget: Duration,
    /// Of a batch.
    size: u64,
    is_found: bool,
    /// Of a try, then of all that counts.
    start: (Instant, u64),
    sample: Sample,
}

impl Pace {
    /// For so long.
    pub fn new(budget: Duration) -> Pace {
        Pace {
            budget,
            size: 0,
            is_found: false,
            start: (Instant::now(), ticks()),
            sample: Sample::default(),
        }
    }

    /// The count and the time, at the end.
    pub fn sample(&self) -> Sample {
        self.sample
    }
}

impl Iterator for Pace {
    type Item = u64;

    /// The size of the next batch; the one before is done.
    fn next(&mut self) -> Option<u64> {
        let elapsed = self.start.0.elapsed();
        if self.is_found {
            let operations = self.sample.operations + self.size;
            self.sample = Sample {
                operations,
                elapsed,
                ticks: ticks().wrapping_sub(self.start.1),
            };
            return (elapsed < self.budget).then_some(self.size);
        }
        self.is_found = self.size > 0 && (elapsed >= BATCH || self.size >= MOST);
        if !self.is_found {
            self.size = (self.size * 2).max(1);
        }
        self.start = (Instant::now(), ticks());
        Some(self.size)
    }
}

/// Calls `batch(n)`, which does `n` operations, in the [`Pace`] of the budget.
pub fn measure(budget: Duration, batch: impl FnMut(u64)) -> Sample {
    let mut pace = Pace::new(budget);
    pace.by_ref().for_each(batch);
    pace.sample()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_timed_part_is_counted() {
        let (mut total, mut largest) = (0, 0);
        let sample = measure(Duration::from_millis(2), |n| {
            total += n;
            largest = largest.max(n);
            std::thread::sleep(Duration::from_micros(10 * n));
        });
        assert!(sample.operations >= 1 && sample.operations < total);
        assert_eq!(sample.operations % largest, 0);
        assert!(sample.elapsed >= Duration::from_millis(2));
        assert!(sample.ticks > 0);
    }

    #[test]
    fn the_clocks_step_is_found() {
        assert_eq!(
            step_of((20..200).step_by(2).collect()),
            1,
            "every other one"
        );
        let coarse = |step: f64| (0..99).map(|n| (f64::from(n) * step) as u64).collect();
        assert_eq!(step_of(coarse(27.0)), 27);
        assert!((24..=25).contains(&step_of(coarse(24.5))));
        assert_eq!((step_of(Vec::new()), step_of(vec![0, 30])), (1, 1));
        let step = clock_step();
        assert!(step > 0.0 && step < 1e5, "{step}");
    }

    #[test]
    fn figures_an_operation() {
        let mut sample = Sample {
            operations: 4,
            elapsed: Duration::from_nanos(80),
            ticks: 400,
        };
        assert!((sample.nanos() - 20.0).abs() < 1e-9);
        assert!((sample.ticks_each() - 100.0).abs() < 1e-9);
        assert!((sample.rate() - 5e7).abs() < 1e-3);
        sample.add(sample);
        assert_eq!((sample.operations, sample.ticks), (8, 800));
    }
}
