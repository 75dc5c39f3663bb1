//! How many of a runtime's servers are active: those that run whatever is ready. The protocol is
//! described in `inactive`.

use crate::rt::base::sync::{AtomicUsize, Ordering::*};

/// With more servers on as many processors, both sides of their protocols have full fences. A
/// membarrier interrupts each processor that runs a thread of the process, and the kernel makes one
/// at a time: beyond this thefts and sleeps wait for each other's (`umcg bench scale`).
pub(crate) const FEW: usize = 8;

/// Which servers are active: those with the lowest indexes, so many of them.
pub(crate) struct Active {
    count: AtomicUsize,
    most: usize,
    adapts: bool,
}

impl Active {
    /// So many servers are active, of `most`; a further one is a standby. Their number `adapts` to
    /// the processors that the process may use, or stays as it is.
    pub(crate) fn new(count: usize, most: usize, adapts: bool) -> Active {
        Active {
            count: AtomicUsize::new(count),
            most,
            adapts,
        }
    }

    /// The number of servers, without a standby.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// Whether there is no other server, or only a standby that was not called.
    pub(crate) fn is_alone(&self) -> bool {
        self.most == 1 && self.count() == 1
    }

    /// Whether the standby is active.
    pub(crate) fn has_standby(&self) -> bool {
        self.count() > self.most
    }

    /// Whether this server is the standby.
    pub(crate) fn is_standby(&self, index: usize) -> bool {
        index >= self.most
    }

    /// How many there are; one at least.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// Whether this server is one of them.
    pub(crate) fn has(&self, index: usize) -> bool {
        index < self.count()
    }

    pub(crate) fn adapts(&self) -> bool {
        self.adapts
    }

    /// Called by the watch only.
    pub(crate) fn set(&self, count: usize) {
        self.count.store(count, Relaxed);
    }
}
