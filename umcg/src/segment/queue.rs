//! Operations under an object's inner lock: on its queues, and on the contents that the waiters in
//! them want.
//!
//! Any process may have written the data that is read here. So each number is checked before it is
//! used, and each loop takes an element out at each turn.

use super::error::Fault;
use super::object::{COUNT, FIRST, LockedObject, MessageRing, SENDERS, SegmentObjectKind};
use super::shared::{WAITING, WaitRecord, claimed, claimed_at};
use crate::rt::sync::Ordering::*;

/// The outcome of an attempt to be served at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entered {
    /// The wait was served, here or elsewhere.
    Served,
    /// The record stands in the queue.
    Queued,
}

impl<'a> LockedObject<'a> {
    fn record(&self, number: u32) -> Result<WaitRecord<'a>, Fault> {
        self.object.shared.record(number)
    }

    /// The record of a link; none if the link is empty.
    fn linked(&self, link: u32) -> Result<Option<WaitRecord<'a>>, Fault> {
        link.checked_sub(1)
            .map(|number| self.record(number))
            .transpose()
    }

    /// Whether the record claims to stand in this queue.
    fn stands(&self, record: WaitRecord<'_>, queue: u32) -> bool {
        let is_here = record.object().load(Relaxed) == self.object.number + 1
            && record.queue().load(Relaxed) == queue;
        is_here && record.is_queued().load(Relaxed) == 1
    }

    /// The number of the first in the queue.
    pub(super) fn first(&self, queue: u32) -> Result<Option<u32>, Fault> {
        let link = self.object.first(queue).load(Relaxed);
        match self.linked(link)? {
            Some(record) if !self.stands(record, queue) || record.before().load(Relaxed) != 0 => {
                Err(Fault::Corrupt)
            }
            record => Ok(record.map(|_| link - 1)),
        }
    }

    /// How many records stand in the queue, for people.
    pub(super) fn count(&self, queue: u32) -> Result<usize, Fault> {
        let mut link = self.object.first(queue).load(Relaxed);
        for count in 0..=self.object.shared.layout.records {
            let Some(record) = self.linked(link)? else {
                return Ok(count as usize);
            };
            link = record.next().load(Relaxed);
        }
        Err(Fault::Corrupt)
    }

    /// Puts the record, which names this object and this queue, at the end.
    fn push(&mut self, queue: u32, number: u32) -> Result<(), Fault> {
        let record = self.record(number)?;
        let last = self.object.last(queue).load(Relaxed);
        match self.linked(last)? {
            Some(last) if !self.stands(last, queue) || last.next().load(Relaxed) != 0 => {
                return Err(Fault::Corrupt);
            }
            Some(last) => last.next().store(number + 1, Relaxed),
            None => self.object.first(queue).store(number + 1, Relaxed),
        }
        record.next().store(0, Relaxed);
        record.before().store(last, Relaxed);
        record.is_queued().store(1, Relaxed);
        self.object.last(queue).store(number + 1, Relaxed);
        Ok(())
    }

    /// Takes the record out of the queue in which it stands.
    fn remove(&mut self, queue: u32, number: u32) -> Result<(), Fault> {
        let record = self.record(number)?;
        let (next, before) = (record.next().load(Relaxed), record.before().load(Relaxed));
        let link = number + 1;
        let after = match self.linked(next)? {
            Some(next) => next.before(),
            None => self.object.last(queue),
        };
        let ahead = match self.linked(before)? {
            Some(before) => before.next(),
            None => self.object.first(queue),
        };
        if !self.stands(record, queue) || after.load(Relaxed) != link || ahead.load(Relaxed) != link
        {
            return Err(Fault::Corrupt);
        }
        after.store(before, Relaxed);
        ahead.store(next, Relaxed);
        record.is_queued().store(0, Relaxed);
        Ok(())
    }

    /// Whether the object has `want` for the first waiter in this queue.
    pub(super) fn has(&self, queue: u32, want: u32) -> Result<bool, Fault> {
        match self.object.kind {
            SegmentObjectKind::Semaphore => Ok(self.word & COUNT >= u64::from(want)),
            SegmentObjectKind::Auto | SegmentObjectKind::Manual => Ok(self.word & COUNT != 0),
            SegmentObjectKind::Tube(ring) => {
                let (messages, slots) = self.unpromised(ring)?;
                Ok(if queue == FIRST {
                    messages > 0
                } else {
                    slots > 0
                })
            }
        }
    }

    /// How many messages and free slots are not promised.
    fn unpromised(&self, ring: MessageRing) -> Result<(u32, u32), Fault> {
        let object = self.object;
        let len = object.len().load(Relaxed);
        let head = object.head().load(Relaxed);
        let slots = ring
            .capacity
            .checked_sub(len)
            .and_then(|free| free.checked_sub(object.promised(SENDERS).load(Relaxed)));
        let messages = len.checked_sub(object.promised(FIRST).load(Relaxed));
        messages
            .zip(slots)
            .filter(|_| head < ring.capacity)
            .ok_or(Fault::Corrupt)
    }

    /// Takes `want` for a waiter. Call it after `has`.
    pub(super) fn take(&mut self, queue: u32, want: u32) {
        match self.object.kind {
            SegmentObjectKind::Semaphore => self.word -= u64::from(want),
            SegmentObjectKind::Auto => self.word &= !COUNT,
            SegmentObjectKind::Manual => {}
            SegmentObjectKind::Tube(_) => self.promise(queue, 1),
        }
    }

    /// Changes the number promised. Each check verifies that it is possible.
    pub(super) fn promise(&mut self, queue: u32, change: u32) {
        let promised = self.object.promised(queue);
        promised.store(promised.load(Relaxed).wrapping_add(change), Relaxed);
    }

    /// Undoes a `take`.
    fn untake(&mut self, queue: u32, want: u32) {
        match self.object.kind {
            // An amount that does not fit any more is lost, as it would be if it were released now.
            SegmentObjectKind::Semaphore => {
                self.word = self.word & !COUNT | COUNT.min((self.word & COUNT) + u64::from(want))
            }
            SegmentObjectKind::Auto => self.word = self.word & !COUNT | 1,
            SegmentObjectKind::Manual => {}
            SegmentObjectKind::Tube(_) => self.promise(queue, u32::MAX),
        }
    }

    /// Whether waiters will be given only the wakeups that are saved already.
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.object.kind, SegmentObjectKind::Tube(_))
            && self.object.closed().load(Relaxed) != 0
    }

    /// The offer to a waiter at the front: true if it can have what it wants, false if nothing will
    /// come.
    fn offer(&self, queue: u32, want: u32) -> Result<Option<bool>, Fault> {
        // No party sends into a closed tube.
        let is_given = self.has(queue, want)? && !(queue == SENDERS && self.is_closed());
        Ok(if is_given {
            Some(true)
        } else {
            self.is_closed().then_some(false)
        })
    }

    /// Claims the waiters at the front of the queue that can be served.
    pub(super) fn serve(&mut self, queue: u32) -> Result<(), Fault> {
        for _ in 0..=self.object.shared.layout.records {
            let Some(first) = self.first(queue)? else {
                return Ok(());
            };
            let record = self.record(first)?;
            let want = record.want().load(Relaxed);
            let Some(is_given) = self.offer(queue, want)? else {
                return Ok(());
            };
            self.remove(queue, first)?;
            if self.claim(record, is_given)? {
                self.woken.push(record.leader().load(Relaxed));
                if is_given {
                    self.take(queue, want);
                }
            }
        }
        Err(Fault::Corrupt)
    }

    /// False if its wait has ended, or was served elsewhere.
    fn claim(&self, record: WaitRecord<'_>, is_given: bool) -> Result<bool, Fault> {
        let leader = self.record(record.leader().load(Relaxed))?;
        let claimed = claimed(record.number().load(Relaxed), is_given);
        // ORDERING(seg-claim.1): Release, pairs with seg-claim.2: a claimed waiter sees everything
        // done before.
        Ok(leader
            .state()
            .compare_exchange(WAITING, claimed, Release, Relaxed)
            .is_ok())
    }

    /// Serves the caller's record at once, or puts it into its queue.
    pub(super) fn enter(&mut self, number: u32, queue: u32, want: u32) -> Result<Entered, Fault> {
        let record = self.record(number)?;
        if self.first(queue)?.is_none() {
            if let Some(is_given) = self.offer(queue, want)? {
                if self.claim(record, is_given)? && is_given {
                    self.take(queue, want);
                }
                return Ok(Entered::Served);
            }
        }
        self.push(queue, number)?;
        Ok(Entered::Queued)
    }

    /// Takes a record whose wait has ended out of its queue. If it was given something that it has
    /// not taken, that goes to the next.
    pub(super) fn leave(&mut self, number: u32) -> Result<(), Fault> {
        let record = self.record(number)?;
        if record.object().load(Relaxed) != self.object.number + 1 {
            return Ok(());
        }
        let queue = record.queue().load(Relaxed);
        if queue > SENDERS {
            return Err(Fault::Corrupt);
        }
        if record.is_queued().load(Relaxed) != 0 {
            self.remove(queue, number)?;
        }
        let state = self
            .record(record.leader().load(Relaxed))?
            .state()
            .load(Relaxed);
        record.object().store(0, Relaxed);
        if claimed_at(state) == Some((record.number().load(Relaxed), true)) {
            self.untake(queue, record.want().load(Relaxed));
        }
        // The record may also have stood before one that wants less.
        self.serve(queue)
    }
}
