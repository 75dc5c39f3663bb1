//! The queue of entries for the kernel, and the order in which they came.
//!
//! An entry cannot be taken out of the queue, and the kernel takes entries in order. So entries are
//! numbered as they come: one is taken if its number is less than `QueueSnapshot::taken`, the count
//! of all entries less those in the queue.

use super::{ENTRIES, IoRing, NOBODY};
use io_uring::squeue;

/// The entries that were put into the queue.
pub(super) struct Submitted {
    /// How many entries there have been in all.
    pub(super) count: u64,
    /// The user data of the last ones.
    pub(super) keys: [u64; ENTRIES as usize],
    /// The ring is given up, and the entries that the kernel has not taken have no owner.
    pub(super) is_given_back: bool,
    /// How often entries were given back.
    pub(super) epoch: u64,
}

/// The number of an entry of the queue.
#[derive(Clone, Copy)]
pub(super) struct QueuePosition {
    /// How many entries came before it in all.
    pub(super) number: u64,
    /// The value of [`Submitted::epoch`] when it came.
    pub(super) epoch: u64,
}

/// The queue at some moment.
pub(super) struct QueueSnapshot {
    /// How many entries the kernel has taken in all, and how many there have been.
    pub(super) taken: u64,
    pub(super) count: u64,
    pub(super) epoch: u64,
    /// The ring is not given up.
    pub(super) is_open: bool,
    pub(super) is_given_back: bool,
    /// The kernel keeps completions back.
    pub(super) keeps_back: bool,
}

impl Submitted {
    /// `count` entries have been there, and the kernel has taken them.
    pub(super) fn new(count: u64) -> Submitted {
        Submitted {
            count,
            keys: [NOBODY; ENTRIES as usize],
            is_given_back: false,
            epoch: 0,
        }
    }
}

impl IoRing {
    /// Puts an entry into the queue, and returns its number. None if there is no room, or the ring
    /// is given up.
    pub(super) fn push(&self, entry: &squeue::Entry, key: u64) -> Option<QueuePosition> {
        let mut submitted = self.submission.lock();
        if self.is_given_up() {
            return None;
        }
        // SAFETY: the lock keeps other threads from this end of the ring.
        let mut queue = unsafe { self.ring.submission_shared() };
        // SAFETY: the data that it points to stays, as `run` demands.
        unsafe { queue.push(entry) }.ok()?;
        let position = QueuePosition {
            number: submitted.count,
            epoch: submitted.epoch,
        };
        submitted.keys[(position.number % u64::from(ENTRIES)) as usize] = key;
        submitted.count += 1;
        Some(position)
    }

    /// The queue as it is now.
    pub(super) fn look(&self) -> QueueSnapshot {
        let submitted = self.submission.lock();
        // SAFETY: the lock keeps other threads from this end of the ring.
        let queue = unsafe { self.ring.submission_shared() };
        QueueSnapshot {
            taken: submitted.count - queue.len() as u64,
            count: submitted.count,
            epoch: submitted.epoch,
            is_open: !self.is_given_up(),
            is_given_back: submitted.is_given_back,
            keeps_back: queue.cq_overflow(),
        }
    }
}
