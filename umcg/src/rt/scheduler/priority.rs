//! Strict priorities: a queue for each, and the most urgent worker that is ready runs next.

use super::super::here::Here;
use super::super::runnable::{Queue, Runnable};
use super::shared::Bound;
use super::{Scheduler, Wake, Why};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg_core::context::lock::HoldLock;

const PRIORITIES: usize = 256;

/// The most urgent worker that is ready runs next; among equals, who has been ready for longest. With preemption on, a worker that becomes ready takes the
/// place of the least urgent one that runs, if that is less urgent. Less urgent workers starve while there are more urgent ones: that is what it is for.
pub struct Priority {
    queues: HoldLock<Queues>,
    len: AtomicUsize,
    bound: Bound,
}

struct Queues {
    by_priority: [Queue; PRIORITIES],
    /// A bit for each queue with workers.
    occupied: [u64; PRIORITIES / 64],
}

impl Queues {
    fn push(&mut self, worker: Runnable) {
        let priority = usize::from(worker.priority());
        self.by_priority[priority].push_back(worker);
        self.occupied[priority / 64] |= 1 << (priority % 64);
    }

    fn pop(&mut self) -> Option<Runnable> {
        let word = self.occupied.iter().rposition(|word| *word != 0)?;
        let priority = word * 64 + (63 - self.occupied[word].leading_zeros() as usize);
        let worker = self.by_priority[priority].pop_front();
        if self.by_priority[priority].is_empty() {
            self.occupied[word] &= !(1 << (priority % 64));
        }
        worker
    }
}

impl Default for Priority {
    fn default() -> Self {
        let queues = Queues { by_priority: [const { Queue::new() }; PRIORITIES], occupied: [0; PRIORITIES / 64] };
        Priority { queues: HoldLock::new(queues), len: AtomicUsize::new(0), bound: Bound::default() }
    }
}

impl Priority {
    /// One without workers.
    pub fn new() -> Priority {
        Priority::default()
    }
}

impl Scheduler for Priority {
    fn start(&mut self, servers: usize) {
        self.bound.start(servers);
    }

    fn ready(&self, worker: Runnable, _why: Why, _here: Option<&Here>) -> Wake {
        self.bound.put(worker).unwrap_or_else(|worker| {
            let mut queues = self.queues.lock();
            queues.push(worker);
            self.len.store(self.len.load(Relaxed) + 1, Relaxed);
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
        let mut queues = self.queues.lock();
        let worker = queues.pop()?;
        self.len.store(self.len.load(Relaxed) - 1, Relaxed);
        Some(worker)
    }

    fn has_work(&self, here: &Here) -> bool {
        self.len.load(Relaxed) != 0 || self.bound.has_work(here)
    }

    fn is_ranked(&self) -> bool {
        true
    }

    fn rank(&self, worker: &Runnable) -> u64 {
        u64::from(u8::MAX - worker.priority())
    }
}
