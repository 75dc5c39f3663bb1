//! Strict priorities: a queue for each, and the most urgent worker that is ready runs next.

use super::shared::{EMPTY, Ordered, RunQueue, ordered};
use crate::rt::task::runnable::{Queue, Runnable};

const PRIORITIES: usize = 256;

/// The most urgent worker that is ready runs next. Among equals, workers that are bound to the
/// server come first, and then the worker that has been ready for longest. With preemption on, a
/// worker that becomes ready preempts the least urgent running worker, if that one is less urgent.
/// By design, less urgent workers starve while there are more urgent ones.
#[derive(Default)]
pub struct Priority(Ordered<Queues>);

struct Queues {
    by_priority: [Queue; PRIORITIES],
    /// A bit for each queue that has workers.
    occupied: [u64; PRIORITIES / 64],
}

impl RunQueue for Queues {
    fn push(&mut self, worker: Runnable) {
        let priority = usize::from(worker.priority());
        self.by_priority[priority].push_back(worker);
        self.occupied[priority / 64] |= 1 << (priority % 64);
    }

    fn pop(&mut self) -> Option<Runnable> {
        let priority = self.highest()?;
        let worker = self.by_priority[priority].pop_front();
        if self.by_priority[priority].is_empty() {
            self.occupied[priority / 64] &= !(1 << (priority % 64));
        }
        worker
    }

    fn first(&self) -> u64 {
        self.highest().map_or(EMPTY, rank_of)
    }

    fn another(&self) -> Queues {
        Queues::default()
    }
}

impl Queues {
    /// The highest priority that has workers.
    fn highest(&self) -> Option<usize> {
        let word = self.occupied.iter().rposition(|word| *word != 0)?;
        Some(word * 64 + (63 - self.occupied[word].leading_zeros() as usize))
    }
}

fn rank_of(priority: usize) -> u64 {
    (PRIORITIES - 1 - priority) as u64
}

impl Default for Queues {
    fn default() -> Self {
        Queues {
            by_priority: [const { Queue::new() }; PRIORITIES],
            occupied: [0; PRIORITIES / 64],
        }
    }
}

impl Priority {
    /// A scheduler without workers.
    pub fn new() -> Priority {
        Priority::default()
    }
}

ordered!(Priority, |worker: &Runnable| rank_of(usize::from(
    worker.priority()
)));
