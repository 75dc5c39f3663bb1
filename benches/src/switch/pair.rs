//! The common part of the sides with two kernel threads: the loops of both, and their clean end.

use crate::harness::{Sample, cpu, measure};
use anyhow::{Result, anyhow};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// A way for two kernel threads to hand control to each other.
///
/// Main has control at first, so the worker begins with `await_turn`.
pub(super) trait HandOver: Sized + Sync {
    fn new() -> Result<Self>;
    /// Gives control to `to` without waiting for it to come back.
    fn give(&self, to: Party);
    /// Returns once control is `me`'s, and takes it.
    fn await_turn(&self, me: Party);
    /// Gives control to `to`, the other of the two, and returns once it is the caller's again.
    #[inline(always)]
    fn hand_over(&self, to: Party) {
        self.give(to);
        self.await_turn(to.other());
    }
}

/// The side that has control.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Party {
    Main,
    Worker,
}

impl Party {
    #[inline(always)]
    pub(super) fn other(self) -> Self {
        match self {
            Self::Main => Self::Worker,
            Self::Worker => Self::Main,
        }
    }
}

/// Main (this thread) to worker and back, over and over.
pub(super) fn round_trips<H: HandOver>(worker_cpu: usize, budget: Duration) -> Result<Sample> {
    let way = H::new()?;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("worker".into())
            .spawn_scoped(scope, || {
                let pinned = cpu::pin(worker_cpu);
                way.await_turn(Party::Worker);
                // The hand-over itself orders this load after the store that precedes the last one.
                while !stop.load(Relaxed) {
                    way.hand_over(Party::Main);
                }
                pinned
            })?;
        way.hand_over(Party::Worker);
        let sample = measure(budget, |n| {
            (0..n).for_each(|_| way.hand_over(Party::Worker))
        });
        stop.store(true, Relaxed);
        way.give(Party::Worker);
        worker
            .join()
            .map_err(|_| anyhow!("the worker panicked"))??;
        Ok(sample)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::{condvar::Condvar, futex::Futex, pipe::Pipe, sem::Sem};
    use std::sync::atomic::AtomicU64;

    /// Each party adds one in its turn; a lost or doubled hand-over shows in the count, or hangs.
    fn takes_turns<H: HandOver>() {
        const TURNS: u64 = 500;
        let way = H::new().unwrap();
        let count = AtomicU64::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                way.await_turn(Party::Worker);
                for turn in 0..TURNS {
                    assert_eq!(count.load(Relaxed), 2 * turn + 1);
                    count.store(2 * turn + 2, Relaxed);
                    if turn + 1 == TURNS {
                        way.give(Party::Main)
                    } else {
                        way.hand_over(Party::Main)
                    }
                }
            });
            for turn in 0..TURNS {
                assert_eq!(count.load(Relaxed), 2 * turn);
                count.store(2 * turn + 1, Relaxed);
                way.hand_over(Party::Worker);
            }
        });
        assert_eq!(count.load(Relaxed), 2 * TURNS);
    }

    #[test]
    fn condvar_takes_turns() {
        takes_turns::<Condvar>();
    }

    #[test]
    fn futex_takes_turns() {
        takes_turns::<Futex>();
    }

    #[test]
    fn pipe_takes_turns() {
        takes_turns::<Pipe>();
    }

    #[test]
    fn sem_takes_turns() {
        takes_turns::<Sem>();
    }

    #[test]
    fn a_short_run_ends() {
        let cpus = cpu::allowed().unwrap();
        let sample = round_trips::<Futex>(*cpus.last().unwrap(), Duration::from_millis(5)).unwrap();
        assert!(sample.operations > 0);
    }
}
