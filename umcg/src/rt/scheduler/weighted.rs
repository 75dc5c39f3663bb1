//! Weighted classes: each gets turns in proportion to its weight.
//!
//! Source: Waldspurger, Weihl, "Stride scheduling: deterministic proportional-share resource
//! management", 1995. A class has a *pass*, which grows by its stride (the inverse of its weight)
//! with each turn. The class with workers that has the least pass is next. A class that had no
//! workers and gets some begins at the pass of the others: it cannot save up turns.

use super::shared::{EMPTY, Ordered, RunQueue, ordered};
use crate::rt::task::runnable::{Queue, Runnable};

/// The advance of a class of weight 1 in a turn.
const STRIDE: u64 = 1 << 32;

/// Classes by priority: a worker is in the class whose index is its priority; higher priorities are
/// in the last class. As long as a class has workers that are ready, it gets turns in proportion to
/// its weight. Within a class, workers take turns in order.
pub struct Weighted(Ordered<Classes>);

struct Classes {
    all: Vec<WeightClass>,
    /// The pass of the class that was served last.
    now: u64,
}

struct WeightClass {
    queue: Queue,
    stride: u64,
    pass: u64,
}

impl Weighted {
    /// A scheduler with a class for each weight.
    ///
    /// # Panics
    /// If there is no weight, or a weight is 0.
    pub fn new(weights: &[u32]) -> Weighted {
        assert!(
            !weights.is_empty() && !weights.contains(&0),
            "weights are numbers from 1, and there is one at least"
        );
        Weighted(Ordered::new(Classes::new(
            weights.iter().map(|weight| STRIDE / u64::from(*weight)),
        )))
    }
}

impl Classes {
    fn new(strides: impl Iterator<Item = u64>) -> Classes {
        Classes {
            all: strides
                .map(|stride| WeightClass {
                    queue: Queue::new(),
                    stride,
                    pass: 0,
                })
                .collect(),
            now: 0,
        }
    }
}

impl RunQueue for Classes {
    fn push(&mut self, worker: Runnable) {
        let index = usize::from(worker.priority()).min(self.all.len() - 1);
        let class = &mut self.all[index];
        if class.queue.is_empty() {
            class.pass = class.pass.max(self.now);
        }
        class.queue.push_back(worker);
    }

    fn pop(&mut self) -> Option<Runnable> {
        let class = self
            .all
            .iter_mut()
            .filter(|class| !class.queue.is_empty())
            .min_by_key(|class| class.pass)?;
        self.now = class.pass;
        class.pass += class.stride;
        class.queue.pop_front()
    }

    fn first(&self) -> u64 {
        if self.all.iter().all(|class| class.queue.is_empty()) {
            EMPTY
        } else {
            0
        }
    }

    fn another(&self) -> Classes {
        Classes::new(self.all.iter().map(|class| class.stride))
    }
}

ordered!(Weighted);
