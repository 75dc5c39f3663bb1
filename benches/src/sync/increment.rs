//! The increments of the semaphore paper's Figure 11: of a counter that many increment at once, in
//! several ways.

use super::flow::{Threads, together};
use super::locks::{Counter, Lock, Spin};
use super::request::{Answer, Clock, Request};
use super::semaphores::Ours;
use crate::harness::ticks;
use anyhow::{Result, ensure};
use std::iter::repeat_with;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

pub(super) fn increment(request: &Request) -> Result<Answer> {
    match &*request.case {
        "atomic_add" => increments::<AtomicAdd>(request),
        "compare_exchange" => increments::<CompareExchange>(request),
        "spin_lock" => increments::<Locked<Spin>>(request),
        "umcg" => increments::<Locked<Ours<true>>>(request),
        _ => request.refuse(),
    }
}

/// A counter that several increment at once.
trait Increment: Send + Sync + Sized + 'static {
    fn new() -> Result<Self>;
    fn add(&self);
    fn get(&self) -> u64;
}

struct AtomicAdd(AtomicU64);

impl Increment for AtomicAdd {
    fn new() -> Result<Self> {
        Ok(Self(AtomicU64::new(0)))
    }

    #[inline(always)]
    fn add(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

struct CompareExchange(AtomicU64);

impl Increment for CompareExchange {
    fn new() -> Result<Self> {
        Ok(Self(AtomicU64::new(0)))
    }

    #[inline(always)]
    fn add(&self) {
        let mut value = self.0.load(Relaxed);
        while let Err(other) = self
            .0
            .compare_exchange_weak(value, value + 1, Relaxed, Relaxed)
        {
            value = other;
        }
    }

    fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

struct Locked<L>(L, Counter);

impl<L: Lock> Increment for Locked<L> {
    fn new() -> Result<Self> {
        Ok(Self(L::new()?, Counter::default()))
    }

    #[inline(always)]
    fn add(&self) {
        self.0.with(|| self.1.set(self.1.get() + 1));
    }

    fn get(&self) -> u64 {
        self.0.with(|| self.1.get())
    }
}

fn increments<I: Increment>(request: &Request) -> Result<Answer> {
    let (count, times) = (request.number("processes")?, request.times);
    let counter = Arc::new(I::new()?);
    let shared = Arc::clone(&counter);
    let clock = Clock::start();
    let body = move |_| {
        let one = || {
            let start = ticks();
            shared.add();
            ticks().wrapping_sub(start)
        };
        repeat_with(one).take(times as usize).collect::<Vec<u64>>()
    };
    let all = together::<Threads, _>(request, count, body)?;
    ensure!(
        counter.get() == count as u64 * times,
        "increments were lost"
    );
    Answer::measured(clock.nanos(all.into_iter().flatten()))
}
