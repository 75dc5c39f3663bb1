//! First in, first out: one queue for all servers.

use super::super::here::Here;
use super::super::runnable::Runnable;
use super::shared::{Bound, SharedQueue};
use super::{Scheduler, Wake, Why};

/// Workers run in the order in which they became ready, on any server. A lock around one queue: fair and simple, and slower than
/// [`WorkStealing`](super::WorkStealing) the more servers there are.
#[derive(Default)]
pub struct Fifo {
    queue: SharedQueue,
    bound: Bound,
}

impl Fifo {
    /// One without workers.
    pub fn new() -> Fifo {
        Fifo::default()
    }
}

impl Scheduler for Fifo {
    fn start(&mut self, servers: usize) {
        self.bound.start(servers);
    }

    fn ready(&self, worker: Runnable, _why: Why, _here: Option<&Here>) -> Wake {
        self.bound.put(worker).unwrap_or_else(|worker| {
            self.queue.push(worker);
            Wake::One
        })
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        self.bound.pop(here).or_else(|| self.queue.pop())
    }

    fn has_work(&self, here: &Here) -> bool {
        !self.queue.is_empty() || self.bound.has_work(here)
    }
}
