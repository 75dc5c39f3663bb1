//! Messages that come back: a future received them, and was dropped before it was polled. They come
//! before all others.

use super::core::ring::RECEIVERS;
use super::core::{Core, LockedCore};
use super::layout::Layout;
use crate::rt::wait::{ClaimedList, Place};

impl<L: Layout> Core<L> {
    /// Puts a message back that was received by its address: to the first waiting receiver, or into
    /// the ring. Returns the lock if there is no room for it. Then `message` is to be the first of
    /// those that wait to be sent; it may be another message by then.
    ///
    /// # Safety
    /// As [`Layout::copy`]. The messages are small, or there is no ring.
    pub(super) unsafe fn put_back<'a>(
        &'a self,
        mut locked: LockedCore<'a, L>,
        message: *mut u8,
        served: &mut ClaimedList,
    ) -> Result<(), LockedCore<'a, L>> {
        let receiver = if locked.word & RECEIVERS != 0 {
            locked.claim_receiver()
        } else {
            None
        };
        if let Some(receiver) = receiver {
            // SAFETY: passed on.
            unsafe { self.hand_over(locked, message, &receiver) };
            served.push(receiver);
            return Ok(());
        }
        // SAFETY: passed on.
        if !unsafe { locked.push_front(message) } {
            return Err(locked);
        }
        locked.unlock();
        Ok(())
    }

    /// Puts a message back with the place in which it was received: to the first waiting receiver,
    /// or into the ring.
    pub(super) fn put_back_slot(
        &self,
        locked: LockedCore<'_, L>,
        slot: usize,
        served: &mut ClaimedList,
    ) {
        self.commit_locked(locked, slot, LockedCore::push_slot_front, served);
    }
}

impl<L: Layout> LockedCore<'_, L> {
    /// Puts a small message behind all that are there. Messages that were put back, and for which
    /// there was no room, stand before all waiting senders: they were sent before. So the first of
    /// them gets the room, each one that follows gets the memory of the one before, and this
    /// message gets that of the last.
    ///
    /// # Safety
    /// As [`Layout::copy`]; there is room, and messages are small.
    #[inline(always)]
    pub(super) unsafe fn push_behind_those_put_back(&mut self, from: *const u8) {
        // SAFETY: passed on.
        if !unsafe { self.push_first_put_back(from) } {
            // SAFETY: passed on.
            unsafe { self.push(from) };
        }
    }

    /// False if no message was put back.
    ///
    /// # Safety
    /// As above.
    #[cold]
    unsafe fn push_first_put_back(&mut self, from: *const u8) -> bool {
        let senders = &self.core.senders;
        let mut next = senders.first().filter(|place| place.is_ownerless());
        let Some(mut last) = next.map(message_at) else {
            return false;
        };
        // SAFETY: passed on; a message is there, and belongs to the lock's holder as long as it is
        // in the queue.
        unsafe { self.push(last) };
        while let Some(place) = next
            .and_then(|place| senders.after(place))
            .filter(|place| place.is_ownerless())
        {
            // SAFETY: likewise; the message in `last` was copied away.
            unsafe { self.core.copy(message_at(place), last) };
            last = message_at(place);
            next = Some(place);
        }
        // SAFETY: likewise.
        unsafe { self.core.copy(from, last) };
        true
    }
}

/// The address of a message without an owner.
fn message_at(place: &Place) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(place.note.get())
}
