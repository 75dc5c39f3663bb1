//! What is done about those that died: docs/protocols/segment.md, "Bury" and "Who looks".

use super::directory;
use super::error::Fault;
use super::layout::PATROLLED_AT;
use super::shared::{GONE, IDLE, Party, Shared, WAITING};
use crate::rt::sync::Ordering::*;
use crate::rt::time;

/// Between two patrols, and two looks of a waiter that is its process's only one; in nanoseconds.
const INTERVAL: u64 = 100_000_000;
/// Between two looks of any waiter.
const LONGEST: u64 = 1_000_000_000;

impl Shared {
    /// How long a waiter may sleep before it looks again.
    pub(super) fn interval(&self, party: &Party) -> u64 {
        INTERVAL
            .saturating_mul(party.waiting.load(Relaxed).max(1).into())
            .min(LONGEST)
    }

    /// Looks after all others, if nobody has of late.
    pub(super) fn patrol(&self, party: &Party) {
        let patrolled = self.memory.u64(PATROLLED_AT);
        let (last, now) = (patrolled.load(Relaxed), time::now());
        // A time that is yet to come is no reason to wait for it.
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

    /// Looks whether this party, that does not give a lock back, is alive.
    pub(super) fn look_after(&self, holder: u32) {
        if let Ok(party) = self.party() {
            if holder < self.layout.parties {
                self.bury_if_dead(party, holder);
            }
        }
    }

    fn bury_if_dead(&self, party: &Party, other: u32) {
        // One's own locks say nothing to oneself: two threads would bury at once.
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

    /// Ends what a dead party has begun. By who has its byte locked, and takes inner locks in the
    /// name of `holder`. False when that is to be tried again.
    pub(super) fn bury(&self, dead: u32, holder: u32) -> bool {
        let objects = || directory::objects(self);
        objects().for_each(|object| object.condemn_if_held_by(dead));
        let theirs = || {
            self.records()
                .filter(|(_, record)| record.owner().load(Relaxed) == dead + 1)
        };
        for (_, record) in theirs() {
            // ORDERING(seg-claim.2): Acquire, pairs with seg-claim.1: from here on nobody claims
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
