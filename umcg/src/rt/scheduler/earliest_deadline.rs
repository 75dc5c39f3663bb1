//! Earliest deadline first.
//!
//! Source: Liu, Layland, "Scheduling algorithms for multiprogramming in a hard-real-time
//! environment", 1973.

use super::shared::{EMPTY, Ordered, RunQueue, ordered};
use crate::rt::task::runnable::Runnable;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The worker with the earliest deadline ([`Builder::deadline`](crate::Builder::deadline)) runs
/// next. Workers without a deadline come last, in the order in which they became ready. With
/// preemption on, a worker that becomes ready preempts the running worker with the latest deadline,
/// if its own is earlier.
#[derive(Default)]
pub struct EarliestDeadline(Ordered<DeadlineQueue>);

#[derive(Default)]
struct DeadlineQueue {
    heap: BinaryHeap<Reverse<DeadlineEntry>>,
    /// Numbers the entries, so that entries with equal deadlines stay in order.
    count: u64,
}

impl RunQueue for DeadlineQueue {
    fn push(&mut self, worker: Runnable) {
        self.count += 1;
        self.heap.push(Reverse(DeadlineEntry {
            deadline: worker.deadline_nanos(),
            number: self.count,
            worker,
        }));
    }

    fn pop(&mut self) -> Option<Runnable> {
        self.heap.pop().map(|first| first.0.worker)
    }

    fn first(&self) -> u64 {
        self.heap
            .peek()
            .map_or(EMPTY, |first| rank_of(&first.0.worker))
    }

    fn another(&self) -> DeadlineQueue {
        DeadlineQueue::default()
    }
}

fn rank_of(worker: &Runnable) -> u64 {
    worker.deadline_nanos().min(EMPTY - 1)
}

struct DeadlineEntry {
    deadline: u64,
    number: u64,
    worker: Runnable,
}

impl PartialEq for DeadlineEntry {
    fn eq(&self, other: &DeadlineEntry) -> bool {
        self.number == other.number
    }
}

impl Eq for DeadlineEntry {}

impl PartialOrd for DeadlineEntry {
    fn partial_cmp(&self, other: &DeadlineEntry) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for DeadlineEntry {
    fn cmp(&self, other: &DeadlineEntry) -> std::cmp::Ordering {
        (self.deadline, self.number).cmp(&(other.deadline, other.number))
    }
}

impl EarliestDeadline {
    /// A scheduler without workers.
    pub fn new() -> EarliestDeadline {
        EarliestDeadline::default()
    }
}

ordered!(EarliestDeadline, rank_of);
