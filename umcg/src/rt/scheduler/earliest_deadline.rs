//! Earliest deadline first.
//!
//! Source: Liu, Layland, "Scheduling algorithms for multiprogramming in a hard-real-time environment", 1973.

use super::super::here::Here;
use super::super::runnable::Runnable;
use super::shared::Bound;
use super::{Scheduler, Wake, Why};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg_core::context::lock::HoldLock;

/// The worker whose deadline ([`Builder::deadline`](crate::Builder::deadline)) is the earliest runs next; those without come last, in the order in which they became
/// ready. With preemption on, a worker that becomes ready takes the place of the one with the latest deadline that runs, if its own is earlier.
#[derive(Default)]
pub struct EarliestDeadline {
    ready: HoldLock<Ready>,
    len: AtomicUsize,
    bound: Bound,
}

#[derive(Default)]
struct Ready {
    heap: BinaryHeap<Reverse<Entry>>,
    /// Numbers the entries, so that equals stay in order.
    count: u64,
}

struct Entry {
    deadline: u64,
    number: u64,
    worker: Runnable,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.number == other.number
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> std::cmp::Ordering {
        (self.deadline, self.number).cmp(&(other.deadline, other.number))
    }
}

impl EarliestDeadline {
    /// One without workers.
    pub fn new() -> EarliestDeadline {
        EarliestDeadline::default()
    }
}

impl Scheduler for EarliestDeadline {
    fn start(&mut self, servers: usize) {
        self.bound.start(servers);
    }

    fn ready(&self, worker: Runnable, _why: Why, _here: Option<&Here>) -> Wake {
        self.bound.put(worker).unwrap_or_else(|worker| {
            let mut ready = self.ready.lock();
            ready.count += 1;
            let entry = Entry { deadline: worker.deadline_nanos(), number: ready.count, worker };
            ready.heap.push(Reverse(entry));
            self.len.store(ready.heap.len(), Relaxed);
            Wake::One
        })
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        if let Some(bound) = self.bound.pop(here) {
            return Some(bound);
        }
        if self.len.load(Relaxed) == 0 {
            return None;
        }
        let mut ready = self.ready.lock();
        let first = ready.heap.pop()?;
        self.len.store(ready.heap.len(), Relaxed);
        Some(first.0.worker)
    }

    fn has_work(&self, here: &Here) -> bool {
        self.len.load(Relaxed) != 0 || self.bound.has_work(here)
    }

    fn is_ranked(&self) -> bool {
        true
    }

    fn rank(&self, worker: &Runnable) -> u64 {
        worker.deadline_nanos().min(u64::MAX - 1)
    }
}
