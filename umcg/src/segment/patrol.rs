//! Dead parties: docs/protocols/segment.md, "Bury" and "The search for deaths".

use super::directory;
use super::error::Fault;
use super::layout::PATROLLED_AT;
use super::shared::{GONE, IDLE, OpenSegment, Party, WAITING};
use crate::rt::sync::Ordering::*;
use crate::rt::time;

/// Nanoseconds between two patrols, and between two checks of a waiter that is the only one of its
/// process.
const INTERVAL: u64 = 100_000_000;
/// Nanoseconds between two checks of any waiter.
const LONGEST: u64 = 1_000_000_000;

impl OpenSegment {
    /// How long a waiter may sleep before it checks again.
    pub(super) fn interval(&self, party: &Party) -> u64 {
        INTERVAL
            .saturating_mul(party.waiting.load(Relaxed).max(1).into())
            .min(LONGEST)
    }

    /// Checks all other parties, if no party has done so lately.
    pub(super) fn patrol(&self, party: &Party) {
        let patrolled = self.memory.u64(PATROLLED_AT);
        let (last, now) = (patrolled.load(Relaxed), time::now());
        // A time in the future is no reason to wait for it.
        let is_due = last > now || now - last >= INTERVAL;
        if is_due
            && patrolled
                .compare_exchange(last, now, Relaxed, Relaxed)
                .is_ok()
        {
            for other in 0..self.layout.parties {
                if self.mark(other).load(Relaxed) != 0 {
                    self.bury_if_dead(party, other);
                }
            }
        }
    }

    /// Checks whether a party that does not give a lock back is alive.
    pub(super) fn look_after(&self, holder: u32) {
        if let Ok(party) = self.party() {
            if holder < self.layout.parties {
                self.bury_if_dead(party, holder);
            }
        }
    }

    fn bury_if_dead(&self, party: &Party, other: u32) {
        // A process cannot test its own locks: two threads would bury at once.
        // ORDERING(seg-busy.1): Acquire, pairs with seg-busy.2.
        if other == party.number || party.is_busy.swap(true, Acquire) {
            return;
        }
        if party.liveness.try_lock(other) {
            if self.bury(other, party.holder()) {
                self.mark(other).store(0, Relaxed);
            }
            party.liveness.unlock(other);
        }
        // ORDERING(seg-busy.2): Release, pairs with seg-busy.1.
        party.is_busy.store(false, Release);
    }

    /// Ends the operations of a dead party. The caller has that party's byte locked, and takes
    /// inner locks in the name of `holder`. False if it must be tried again.
    pub(super) fn bury(&self, dead: u32, holder: u32) -> bool {
        let objects = || directory::objects(self);
        objects().for_each(|object| object.condemn_if_held_by(dead));
        let theirs = || {
            self.records()
                .filter(|(_, record)| record.owner().load(Relaxed) == dead + 1)
        };
        for (_, record) in theirs() {
            // ORDERING(seg-claim.2): Acquire, pairs with seg-claim.1: from here on no party claims
            // it.
            let _ = record
                .state()
                .compare_exchange(WAITING, GONE, Acquire, Acquire);
        }
        for (number, record) in theirs() {
            let Some(object) = record.object().load(Relaxed).checked_sub(1) else {
                continue;
            };
            let Some(object) = directory::object(self, object) else {
                continue;
            };
            if object.locked_briefly(holder, |locked| locked.leave(number)) == Err(Fault::Full) {
                return false;
            }
        }
        for (_, record) in theirs() {
            record.object().store(0, Relaxed);
            record.state().store(IDLE, Relaxed);
            // ORDERING(seg-record.1): Release, pairs with seg-record.2.
            record.owner().store(0, Release);
        }
        true
    }
}
