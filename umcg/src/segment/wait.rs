//! A wait for one or several objects: docs/protocols/segment.md, "The state of a wait".

use super::error::Fault;
use super::kernel;
use super::object::SegmentObject;
use super::queue::Entered;
use super::shared::{GONE, IDLE, OpenSegment, Party, WAITING, claimed_at};
use crate::rt::sync::{Ordering::*, spin};
use crate::rt::time;
use crate::select::order;

/// The place where a party wants to wait, and for how much.
#[derive(Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) object: SegmentObject<'a>,
    pub(super) queue: u32,
    pub(super) want: u32,
}

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WishOutcome {
    /// It was given what it wanted at the place with this index, and must take it.
    Given(usize),
    /// Nothing will come at the place with this index.
    Closed(usize),
    /// The deadline passed first.
    TimedOut,
}

/// A wait with its records. Dropping it takes them out of their queues. Anything that was given and
/// not taken goes to the next waiter.
pub(super) struct SegmentWait<'a> {
    shared: &'a OpenSegment,
    party: &'a Party,
    wishes: &'a [Wish<'a>],
    /// One for each wish; the first is the leader.
    records: Vec<u32>,
}

impl<'a> SegmentWait<'a> {
    /// Waits until one of the wishes is fulfilled. They are tried in order, beginning with `first`.
    /// A point of cancellation if it has to wait. Switches.
    pub(super) fn wait(
        shared: &'a OpenSegment,
        wishes: &'a [Wish<'a>],
        first: usize,
        deadline: u64,
    ) -> Result<(SegmentWait<'a>, WishOutcome), Fault> {
        let party = shared.party()?;
        let mut wait = SegmentWait {
            shared,
            party,
            wishes,
            records: Vec::with_capacity(wishes.len()),
        };
        wait.begin()?;
        for at in order::in_line(first, wishes.len()) {
            let Wish {
                object,
                queue,
                want,
            } = wishes[at];
            let number = wait.records[at];
            if object.locked(|locked| locked.enter(number, queue, want))? == Entered::Served {
                break;
            }
            if wait.state() != WAITING {
                break;
            }
        }
        let end = wait.sleep(deadline)?;
        Ok((wait, end))
    }

    /// Takes records, and writes the wishes into them.
    fn begin(&mut self) -> Result<(), Fault> {
        let shared = self.shared;
        for wish in self.wishes {
            let number = shared.take_record(self.party)?;
            let at = self.records.len();
            self.records.push(number);
            let record = shared.record(number)?;
            record.leader().store(self.records[0], Relaxed);
            record.number().store(at as u32, Relaxed);
            record.queue().store(wish.queue, Relaxed);
            record.want().store(wish.want, Relaxed);
            record.is_queued().store(0, Relaxed);
            record.object().store(wish.object.number + 1, Relaxed);
        }
        shared
            .record(self.records[0])?
            .state()
            .store(WAITING, Relaxed);
        Ok(())
    }

    fn state(&self) -> u32 {
        // Its numbers came from `take_record`, so there is always a record.
        let leader = self.shared.record(self.records[0]);
        // ORDERING(seg-claim.2): Acquire, pairs with seg-claim.1.
        leader.map_or(GONE, |record| record.state().load(Acquire))
    }

    fn sleep(&self, deadline: u64) -> Result<WishOutcome, Fault> {
        if self.look_for_a_while() {
            return self.outcome();
        }
        let _counted = CountedWaiter::new(self.party);
        let leader = self.shared.record(self.records[0])?;
        let mut has_slept = false;
        loop {
            if self.state() != WAITING {
                return self.outcome();
            }
            if let Some(fault) = self.wishes.iter().find_map(|wish| wish.object.fault()) {
                return Err(fault);
            }
            let now = time::now();
            if now >= deadline {
                return if self.revoke() {
                    self.timed_out(has_slept)
                } else {
                    self.outcome()
                };
            }
            self.shared.patrol(self.party);
            let until = deadline.min(now.saturating_add(self.shared.interval(self.party)));
            kernel::sleep(leader.state(), WAITING, until);
            has_slept = true;
        }
    }

    /// If its deadline had passed when it came, it lets others run all the same, as within one
    /// process: a worker that asks again and again would starve them. Meanwhile it blocks no other
    /// waiter.
    fn timed_out(&self, has_slept: bool) -> Result<WishOutcome, Fault> {
        if !has_slept {
            self.leave();
            kernel::give_way();
        }
        Ok(WishOutcome::TimedOut)
    }

    /// Whether the wait has ended.
    fn look_for_a_while(&self) -> bool {
        (0..=kernel::looks()).any(|_| {
            spin();
            self.state() != WAITING
        })
    }

    /// Ends the wait, if it was not served.
    fn revoke(&self) -> bool {
        let leader = self.shared.record(self.records[0]);
        // ORDERING(seg-claim.2): as above.
        leader.is_ok_and(|leader| {
            leader
                .state()
                .compare_exchange(WAITING, GONE, Acquire, Acquire)
                .is_ok()
        })
    }

    /// The outcome that was written for a claimed waiter.
    fn outcome(&self) -> Result<WishOutcome, Fault> {
        match claimed_at(self.state()) {
            Some((at, is_given)) if (at as usize) < self.wishes.len() => Ok(if is_given {
                WishOutcome::Given(at as usize)
            } else {
                WishOutcome::Closed(at as usize)
            }),
            _ => Err(Fault::Corrupt),
        }
    }

    /// Takes what was given at the place with this index. That cannot be undone. For a tube, call
    /// it under the lock.
    pub(super) fn taken(&self, at: usize) {
        if let Ok(record) = self.shared.record(self.records[at]) {
            record.object().store(0, Relaxed);
        }
    }

    /// Takes the records of an ended wait out of their queues.
    fn leave(&self) {
        for (number, wish) in self.records.iter().zip(self.wishes) {
            let Ok(record) = self.shared.record(*number) else {
                continue;
            };
            if record.object().load(Relaxed) != 0 {
                // If the object is dead or corrupt, the record may stay.
                let _ = wish.object.locked(|locked| locked.leave(*number));
                record.object().store(0, Relaxed);
            }
        }
    }
}

impl Drop for SegmentWait<'_> {
    fn drop(&mut self) {
        // If the party belongs to the process before a fork, others bury it, if need be.
        if self.party.liveness.is_inherited() {
            return;
        }
        if !self.records.is_empty() {
            self.revoke();
        }
        self.leave();
        for number in &self.records {
            if let Ok(record) = self.shared.record(*number) {
                record.state().store(IDLE, Relaxed);
                self.shared.give_record(self.party, *number);
            }
        }
    }
}

/// Counts the caller as a waiter.
struct CountedWaiter<'a>(&'a Party);

impl CountedWaiter<'_> {
    fn new(party: &Party) -> CountedWaiter<'_> {
        party.waiting.fetch_add(1, Relaxed);
        CountedWaiter(party)
    }
}

impl Drop for CountedWaiter<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Relaxed);
    }
}
