//! What things cost on this machine: the part of [`Costs`] that it can tell, in about a second.
//!
//! Each cost is the median of some tries. Two threads that are pinned to two CPUs tell what passes
//! between cores; with one CPU these costs stay as they are by default. A second socket, a third
//! core that a membarrier has to interrupt, and what the library's own steps cost beside those that
//! a simulation counts, are not measured.

use super::word::{Word, wait, wake};
use crate::harness::cpu;
use anyhow::Result;
use std::hint::{black_box, spin_loop};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::*, fence};
use std::thread;
use std::time::{Duration, Instant};
use umcg::asymmetric;
use umcg_sim::Costs;

const TRIES: usize = 15;
/// Operations of a try that are too short to be timed by themselves.
const MANY: u32 = 10_000;
/// Lines of a scan, two cache lines apart.
const LINES: usize = 256;
/// How long a thread that is to be woken has slept by then, and a nap.
const NAP: Duration = Duration::from_micros(50);

/// The defaults, and in their place what could be measured.
pub(super) fn measure() -> Result<Costs> {
    let cpus = cpu::allowed()?;
    asymmetric::init();
    let mut costs = Costs::default();
    thread::scope(|scope| {
        let alone = scope.spawn(|| {
            cpu::pin(cpus[0])?;
            measure_alone(&mut costs);
            anyhow::Ok(())
        });
        alone.join().expect("no panic")
    })?;
    if let [first, second, ..] = cpus[..] {
        measure_together(&mut costs, first, second)?;
    }
    Ok(costs)
}

/// Nanoseconds of one of `MANY` calls.
fn each(f: impl Fn()) -> u64 {
    median(|| {
        let start = Instant::now();
        (0..MANY).for_each(|_| f());
        start.elapsed() / MANY
    })
}

fn median(f: impl FnMut() -> Duration) -> u64 {
    let mut times: Vec<Duration> = std::iter::repeat_with(f).take(TRIES).collect();
    times.sort_unstable();
    times[TRIES / 2].as_nanos() as u64
}

fn measure_alone(costs: &mut Costs) {
    let word = AtomicU64::new(0);
    // ORDERING(scale-cost.1): SeqCst, pairs with itself: the order is what is measured.
    costs.locked = each(|| {
        word.fetch_add(1, SeqCst);
    });
    costs.fence = each(|| {
        word.store(1, Relaxed);
        // ORDERING(scale-cost.1): SeqCst, as above.
        fence(SeqCst);
    });
    costs.pause = each(spin_loop);
    costs.clock = each(|| {
        black_box(Instant::now());
    });
    let nobody = AtomicU32::new(0);
    costs.call = each(|| wake(&nobody));
    costs.barrier = each(asymmetric::heavy);
    costs.late = median(|| {
        let start = Instant::now();
        wait(&nobody, 0, Some(NAP));
        start.elapsed().saturating_sub(NAP)
    });
}

/// Two threads, one of which does `f` until the other one is done.
fn beside<R: Send>(
    cpus: [usize; 2],
    f: impl Fn() + Send + Sync,
    measured: impl FnOnce() -> R + Send,
) -> Result<R> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (over, f) = (&is_over, &f);
        scope.spawn(move || {
            let pinned = cpu::pin(cpus[1]);
            while !over.load(Relaxed) {
                f();
            }
            pinned
        });
        let result = scope.spawn(move || {
            let result = cpu::pin(cpus[0]).map(|()| measured());
            over.store(true, Relaxed);
            result
        });
        result.join().expect("no panic")
    })
}

fn measure_together(costs: &mut Costs, first: usize, second: usize) -> Result<()> {
    let cpus = [first, second];
    costs.line = line(cpus)?;
    costs.line_in_scan = scan(cpus)?;
    let running = beside(cpus, spin_loop, || each(asymmetric::heavy))?;
    costs.barrier_others = running.saturating_sub(costs.barrier);
    costs.interrupted = interrupted(cpus)?;
    let (wake, latency) = waking(cpus)?;
    (costs.wake, costs.wake_latency) = (wake, latency);
    Ok(())
}

/// A word goes to and fro: each way is one line that the next step waits for.
fn line(cpus: [usize; 2]) -> Result<u64> {
    let word = Word::new(0);
    let answer = || {
        if word.0.load(Relaxed) == 1 {
            word.0.store(0, Relaxed);
        }
    };
    beside(cpus, answer, || {
        let there_and_back = each(|| {
            word.0.store(1, Relaxed);
            while word.0.load(Relaxed) != 0 {}
        });
        there_and_back / 2
    })
}

/// Lines that another core has written, one after the other.
fn scan(cpus: [usize; 2]) -> Result<u64> {
    let words: Vec<Word> = (0..LINES).map(|_| Word::new(0)).collect();
    let turn = Word::new(0);
    let write = || {
        // ORDERING(scale-turn.1): Acquire, pairs with scale-turn.2: the lines come in turns.
        if turn.0.load(Acquire) == 1 {
            words.iter().for_each(|word| word.0.store(2, Relaxed));
            // ORDERING(scale-turn.2): Release, pairs with scale-turn.1.
            turn.0.store(0, Release);
        }
    };
    beside(cpus, write, || {
        median(|| {
            // ORDERING(scale-turn.2)
            turn.0.store(1, Release);
            // ORDERING(scale-turn.1)
            while turn.0.load(Acquire) != 0 {}
            let start = Instant::now();
            black_box(
                words
                    .iter()
                    .filter(|word| word.0.load(Relaxed) == 1)
                    .count(),
            );
            start.elapsed()
        })
        .div_ceil(LINES as u64)
    })
}

/// What a membarrier takes from a thread that computes: of a time with many of them, by how much it
/// gets less done.
fn interrupted(cpus: [usize; 2]) -> Result<u64> {
    const TIME: Duration = Duration::from_millis(30);
    let count = AtomicU64::new(0);
    let work = || count.store(count.load(Relaxed) + 1, Relaxed);
    let rate = |disturb: &dyn Fn()| {
        let (before, start, mut times) = (count.load(Relaxed), Instant::now(), 0_u64);
        while start.elapsed() < TIME {
            disturb();
            times += 1;
        }
        let done = (count.load(Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
        (done, times)
    };
    beside(cpus, work, || {
        // Each round reads the clock and sleeps a little, with a membarrier and without.
        let pause = || (0..200).for_each(|_| spin_loop());
        let (quiet, _) = rate(&pause);
        let (disturbed, times) = rate(&|| {
            pause();
            asymmetric::heavy();
        });
        let lost = (1.0 - disturbed / quiet).max(0.0) * TIME.as_nanos() as f64;
        (lost / times.max(1) as f64) as u64
    })
}

/// A wake-up, and the time until the woken thread runs.
fn waking(cpus: [usize; 2]) -> Result<(u64, u64)> {
    let word = AtomicU32::new(0);
    let (start, woken) = (Instant::now(), AtomicU64::new(0));
    let sleeper = || {
        wait(&word, 0, Some(10 * NAP));
        if word.swap(0, Relaxed) != 0 {
            woken.store(start.elapsed().as_nanos() as u64, Relaxed);
        }
    };
    beside(cpus, sleeper, || {
        let mut latencies = Vec::new();
        let call = median(|| {
            thread::sleep(2 * NAP);
            woken.store(0, Relaxed);
            word.store(1, Relaxed);
            let begins = start.elapsed();
            wake(&word);
            let took = start.elapsed() - begins;
            let ends = loop {
                match woken.load(Relaxed) {
                    0 => spin_loop(),
                    at => break at,
                }
            };
            latencies.push(ends.saturating_sub(begins.as_nanos() as u64));
            took
        });
        latencies.sort_unstable();
        let latency = latencies[latencies.len() / 2];
        // From the end of the call: see `Costs::wake_latency`.
        (call, latency.saturating_sub(call))
    })
}
