//! A segment as one process has it: the memory, and the data that makes the process a party.

use super::error::{Fault, OpenError};
use super::kernel;
use super::layout::SegmentLayout;
use super::liveness::Liveness;
use super::memory::Memory;
use crate::rt::sync::{AtomicBool, AtomicU32, AtomicU64, HoldLock, Ordering::*};
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::time::Duration;

/// States of a wait, besides those that [`claimed`] makes.
pub(super) const IDLE: u32 = 0;
pub(super) const WAITING: u32 = 1;
pub(super) const GONE: u32 = 2;
const CLAIMED: u32 = 4;

/// The state of a wait that was served at its place with this number: it was given something, or
/// was told that nothing will come any more.
pub(super) fn claimed(number: u32, is_given: bool) -> u32 {
    CLAIMED
        .wrapping_add(number.wrapping_mul(2))
        .wrapping_add(is_given.into())
}

/// The number, and whether something was given. None if the state is another.
pub(super) fn claimed_at(state: u32) -> Option<(u32, bool)> {
    (state >= CLAIMED).then(|| ((state - CLAIMED) / 2, state % 2 == 1))
}

/// The byte that a process locks to make an object: behind those of all parties.
pub(super) const DIRECTORY: u32 = 1 << 20;

/// How many records that it gave back a party remembers, to look for a free one there first.
const KNOWN: usize = 32;

/// How long an inner lock may be held by default.
const PATIENCE: Duration = Duration::from_secs(5);

/// The data that all handles of one opening share.
pub(super) struct OpenSegment {
    pub(super) memory: Memory,
    pub(super) layout: SegmentLayout,
    /// Replaced in a child after `fork`. The old value is not freed then.
    party: AtomicPtr<Party>,
    /// In nanoseconds.
    pub(super) patience: AtomicU64,
}

/// This process, as others know it.
pub(super) struct Party {
    pub(super) number: u32,
    pub(super) liveness: Liveness,
    /// Records that the party has given back; others may have taken them since. It looks here
    /// first.
    given: HoldLock<Vec<u32>>,
    /// One of its threads is burying a party, or making an object.
    pub(super) is_busy: AtomicBool,
    /// How many of its threads and workers wait.
    pub(super) waiting: std::sync::atomic::AtomicU32,
}

impl Party {
    /// The party as holder, as stored in the words of objects.
    pub(super) fn holder(&self) -> u32 {
        self.number + 1
    }
}

impl OpenSegment {
    pub(super) fn new(memory: Memory, layout: SegmentLayout) -> Result<OpenSegment, OpenError> {
        let patience = AtomicU64::new(PATIENCE.as_nanos() as u64);
        let shared = OpenSegment {
            memory,
            layout,
            party: AtomicPtr::new(null_mut()),
            patience,
        };
        let party = Box::new(shared.begin()?);
        shared.party.store(Box::into_raw(party), Relaxed);
        Ok(shared)
    }

    /// This process as a party. After a fork it becomes a new one.
    #[inline]
    pub(super) fn party(&self) -> Result<&Party, Fault> {
        // ORDERING(seg-party.1): Acquire, pairs with seg-party.2.
        // SAFETY: not null after `new`, and freed by `drop` only.
        let party = unsafe { &*self.party.load(Acquire) };
        if party.liveness.is_inherited() {
            self.begin_again(party)
        } else {
            Ok(party)
        }
    }

    #[cold]
    fn begin_again(&self, former: &Party) -> Result<&Party, Fault> {
        let own = Box::into_raw(Box::new(self.begin().map_err(|_| Fault::Full)?));
        let former = std::ptr::from_ref(former).cast_mut();
        // ORDERING(seg-party.2): AcqRel, pairs with seg-party.1: it is complete when it is seen.
        match self.party.compare_exchange(former, own, AcqRel, Acquire) {
            // SAFETY: as in `party`.
            Ok(_) => Ok(unsafe { &*own }),
            Err(_) => {
                // SAFETY: no other thread has seen it.
                self.end(*unsafe { Box::from_raw(own) });
                self.party()
            }
        }
    }

    /// Becomes a party with a number of its own.
    fn begin(&self) -> Result<Party, OpenError> {
        let liveness = Liveness::open(&self.memory)?;
        for number in 0..self.layout.parties {
            if !liveness.try_lock(number) {
                continue;
            }
            let mark = self.mark(number);
            // The previous party with this number may have left operations unfinished.
            if mark.load(Relaxed) == 0 || self.bury(number, number + 1) {
                mark.store(1, Relaxed);
                return Ok(Party {
                    number,
                    liveness,
                    given: HoldLock::new(Vec::with_capacity(KNOWN)),
                    is_busy: AtomicBool::new(false),
                    waiting: 0.into(),
                });
            }
            liveness.unlock(number);
        }
        Err(liveness.refusal().map_or(OpenError::Full, OpenError::Io))
    }

    /// Ends being a party, in order.
    fn end(&self, party: Party) {
        if !party.liveness.is_inherited() {
            self.mark(party.number).store(0, Relaxed);
        }
    }

    /// The party's mark: not 0 from when it begins until it has ended in order, or was buried.
    pub(super) fn mark(&self, party: u32) -> &AtomicU32 {
        self.memory.u32(self.layout.party(party))
    }

    /// The record with this number, which may come from the segment.
    pub(super) fn record(&self, number: u32) -> Result<WaitRecord<'_>, Fault> {
        if number >= self.layout.records {
            return Err(Fault::Corrupt);
        }
        Ok(WaitRecord {
            memory: &self.memory,
            at: self.layout.record(number),
        })
    }

    /// All records, with their numbers.
    pub(super) fn records(&self) -> impl Iterator<Item = (u32, WaitRecord<'_>)> {
        (0..self.layout.records).map(|number| {
            (
                number,
                WaitRecord {
                    memory: &self.memory,
                    at: self.layout.record(number),
                },
            )
        })
    }

    /// Takes a free record for the party.
    pub(super) fn take_record(&self, party: &Party) -> Result<u32, Fault> {
        loop {
            let given = party.given.lock().pop();
            match given {
                Some(number) if self.claim_record(party, number) => return Ok(number),
                Some(_) => {}
                None => return self.find_record(party).ok_or(Fault::Full),
            }
        }
    }

    #[cold]
    fn find_record(&self, party: &Party) -> Option<u32> {
        let count = self.layout.records;
        let start = party.number * (count / self.layout.parties);
        (start..count)
            .chain(0..start)
            .find(|number| self.claim_record(party, *number))
    }

    fn claim_record(&self, party: &Party, number: u32) -> bool {
        let record = WaitRecord {
            memory: &self.memory,
            at: self.layout.record(number),
        };
        // ORDERING(seg-record.2): Acquire, pairs with seg-record.1: the last owner's writes come
        // before.
        record
            .owner()
            .compare_exchange(0, party.holder(), Acquire, Relaxed)
            .is_ok()
    }

    /// Gives back a record that is no longer in use. From here on any party may take it.
    pub(super) fn give_record(&self, party: &Party, number: u32) {
        if let Ok(record) = self.record(number) {
            // ORDERING(seg-record.1): Release, pairs with seg-record.2.
            record.owner().store(0, Release);
            let mut given = party.given.lock();
            if given.len() < KNOWN {
                given.push(number);
            }
        }
    }

    /// Wakes the waiter whose leader is this record.
    pub(super) fn wake(&self, leader: u32) {
        if let Ok(record) = self.record(leader) {
            kernel::wake(record.state());
        }
    }
}

impl Drop for OpenSegment {
    fn drop(&mut self) {
        let party = self.party.load(Relaxed);
        if !party.is_null() {
            // SAFETY: made by `Box::into_raw`, and no longer used.
            self.end(*unsafe { Box::from_raw(party) });
        }
    }
}

/// A place of a waiter in a queue.
#[derive(Clone, Copy)]
pub(super) struct WaitRecord<'a> {
    memory: &'a Memory,
    at: usize,
}

impl<'a> WaitRecord<'a> {
    /// The party that the record belongs to, plus 1; 0: none.
    pub(super) fn owner(self) -> &'a AtomicU32 {
        self.memory.u32(self.at)
    }

    /// Of a leader: the state of the wait. The waiter sleeps on it.
    pub(super) fn state(self) -> &'a AtomicU32 {
        self.memory.u32(self.at + 4)
    }

    /// The record that holds the wait's state.
    pub(super) fn leader(self) -> &'a AtomicU32 {
        self.memory.u32(self.at + 8)
    }

    /// Which of the wait's places this record is.
    pub(super) fn number(self) -> &'a AtomicU32 {
        self.memory.u32(self.at + 12)
    }

    /// Its object, plus 1; 0 if the record wants nothing of an object any more.
    pub(super) fn object(self) -> &'a AtomicU32 {
        self.memory.u32(self.at + 16)
    }

    /// Which of the object's queues it is for.
    pub(super) fn queue(self) -> &'a AtomicU32 {
        self.memory.u32(self.at + 20)
    }

    /// Whether it stands in the queue. This and the following fields are used under the lock of the
    /// object.
    pub(super) fn is_queued(self) -> &'a AtomicU32 {
        self.memory.u32(self.at + 24)
    }

    /// Its neighbours, plus 1; 0: none.
    pub(super) fn next(self) -> &'a AtomicU32 {
        self.memory.u32(self.at + 28)
    }

    pub(super) fn before(self) -> &'a AtomicU32 {
        self.memory.u32(self.at + 32)
    }

    /// How much it wants.
    pub(super) fn want(self) -> &'a AtomicU32 {
        self.memory.u32(self.at + 36)
    }
}
