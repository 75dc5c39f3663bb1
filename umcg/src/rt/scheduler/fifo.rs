//! First in, first out: one queue for all servers.

use super::shared::{Ordered, ordered};
use crate::rt::task::runnable::Queue;

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

ordered!(Fifo);
