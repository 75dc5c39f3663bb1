//! First in, first out: one queue for all servers.

use super::shared::Ordered;
use super::{Scheduler, Wake, Why};
use crate::rt::base::here::Here;
use crate::rt::task::runnable::{Queue, Runnable};

/// Workers run in the order in which they became ready, on any server. It is a lock around one
/// queue: fair and simple. The more servers there are, the slower it is compared with
/// [`WorkStealing`](super::WorkStealing).
#[derive(Default)]
pub struct Fifo(Ordered<Queue>);

impl Fifo {
    /// A scheduler without workers.
    pub fn new() -> Fifo {
        Fifo::default()
    }
}

impl Scheduler for Fifo {
    fn start(&mut self, servers: usize) {
        self.0.start(servers);
    }

    fn ready(&self, worker: Runnable, _why: Why, _here: Option<&Here>) -> Wake {
        self.0.ready(worker)
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        self.0.next(here)
    }

    fn has_work(&self, here: &Here) -> bool {
        self.0.has_work(here)
    }
}
