//! A server's records, from the server to the writer.
//!
//! The server alone adds records, and the holder of the writer's lock alone takes them.

use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering::*};

/// How many records a ring has; a power of two.
const SIZE: usize = 1 << 14;

/// What a server changed to at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// In nanoseconds of CLOCK_MONOTONIC.
    pub(super) time: u64,
    /// The thread that begins to run; 0 for none.
    pub(super) serial: u32,
    /// Why the one before has stopped, as [`Stop`](super::Stop) codes it.
    pub(super) stop: u32,
}

pub(super) struct Ring {
    records: Box<[[AtomicU64; 2]]>,
    /// How many were added, and taken.
    added: AtomicUsize,
    taken: AtomicUsize,
    /// The guest that runs. Of the server alone.
    pub(super) running: AtomicPtr<()>,
}

impl Ring {
    pub(super) fn new() -> Ring {
        Ring {
            records: (0..SIZE).map(|_| Default::default()).collect(),
            added: AtomicUsize::new(0),
            taken: AtomicUsize::new(0),
            running: AtomicPtr::new(std::ptr::null_mut()),
        }
    }

    /// Adds a record. Called by the server. A full ring drops it.
    #[inline]
    pub(super) fn add(&self, record: Record) {
        let added = self.added.load(Relaxed);
        if self.fill(added) == SIZE {
            return;
        }
        let [time, rest] = &self.records[added % SIZE];
        time.store(record.time, Relaxed);
        rest.store(
            u64::from(record.serial) << 32 | u64::from(record.stop),
            Relaxed,
        );
        // ORDERING(ring.1): Release, pairs with ring.2: the record is whole.
        self.added.store(added + 1, Release);
    }

    /// Whether the records are to be taken soon. Asked by the server.
    #[inline]
    pub(super) fn is_half_full(&self) -> bool {
        self.fill(self.added.load(Relaxed)) >= SIZE / 2
    }

    #[inline]
    fn fill(&self, added: usize) -> usize {
        // ORDERING(ring.4): Acquire, pairs with ring.3: a place that is free was read.
        added - self.taken.load(Acquire)
    }

    /// Calls `f` with each record, the oldest first. Called by the holder of the writer's lock.
    pub(super) fn take(&self, f: &mut dyn FnMut(Record)) {
        // ORDERING(ring.2): Acquire, pairs with ring.1.
        let added = self.added.load(Acquire);
        let taken = self.taken.load(Relaxed);
        for index in taken..added {
            let [time, rest] = &self.records[index % SIZE];
            let rest = rest.load(Relaxed);
            f(Record {
                time: time.load(Relaxed),
                serial: (rest >> 32) as u32,
                stop: rest as u32,
            });
        }
        // ORDERING(ring.3): Release, pairs with ring.4.
        self.taken.store(added, Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_out_in_order_and_a_full_ring_drops_new_ones() {
        let ring = Ring::new();
        let record = |index: usize| Record {
            time: 7 + index as u64,
            serial: index as u32,
            stop: !(index as u32),
        };
        for round in 0..3 {
            for index in 0..SIZE + 5 {
                assert_eq!(ring.is_half_full(), index >= SIZE / 2, "{round} {index}");
                ring.add(record(index));
            }
            let mut taken = Vec::new();
            ring.take(&mut |record| taken.push(record));
            assert!(taken.into_iter().eq((0..SIZE).map(record)));
        }
    }
}
