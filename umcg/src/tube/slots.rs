//! Large messages, and held places of the ring.
//!
//! A large message is not copied under the lock. Its tube's store is a pool of places, and the ring
//! has their numbers. A place is free, or held by a sender that fills it, or in the ring, or held
//! by a receiver that reads it:
//!
//! ```text
//!          take_free                push_slot              pop_slot               give_back
//!   free ------------> held, filled ----------> in the ring ---------> held, read ----------> free
//! ```
//!
//! - L1: only the holder of a place touches it: nothing is overwritten while it is copied. No lock
//!   is held meanwhile.
//! - L2: messages have the order in which they come into the ring, not that in which their places
//!   were taken: no caller waits for a sender that is slow to fill a place.
//! - L3: the message of a sender that waited comes into the ring when a place is free, in the
//!   queue's order, and is copied after that (`is_filled`). A receiver that takes it meanwhile
//!   waits for the copy, which takes no longer than the receiver's own copy will. So the message of
//!   a longer waiting sender is received first here, too.
//! - L4: there is never a free place and a waiter for one at once. A receiver that wants a place to
//!   read (`WANTS_SLOT`: `recv_ref`, and futures) can wait while a sender waits with a message,
//!   because there is no place for them to meet. A receiver that takes a message by copy then
//!   passes it, and takes the sender's.
//!
//! With small messages a held place is only a number (`reserve`): so much less room in the ring.

use super::core::ring::{CLOSED, RECEIVERS, SENDERS};
use super::core::{Core, LockedCore, NO_MORE, SERVED, WANTS_SLOT, message_of};
use super::layout::Layout;
use crate::rt::sync::{Ordering::*, give_way, spin};
use crate::rt::wait::ClaimedList;

/// How often a receiver checks for the end of a copy before it lets other threads run.
const LOOKS: u32 = 100;

impl<L: Layout> Core<L> {
    /// Sends where there is room.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    pub(super) unsafe fn give_by_slot(
        &self,
        mut locked: LockedCore<'_, L>,
        from: *const u8,
        served: &mut ClaimedList,
    ) -> usize {
        let slot = locked.take_free();
        locked.unlock();
        // SAFETY: passed on; the caller holds the place (L1).
        unsafe { self.copy(from, self.at(slot)) };
        if self.commit(slot, served) {
            return SERVED;
        }
        self.release(slot, served);
        NO_MORE
    }

    /// Takes the first message.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    pub(super) unsafe fn take_by_slot(
        &self,
        mut locked: LockedCore<'_, L>,
        into: *mut u8,
        served: &mut ClaimedList,
    ) {
        let slot = locked.pop_slot();
        locked.unlock();
        self.wait_until_filled(slot);
        // SAFETY: passed on; the caller holds the place (L1).
        unsafe { self.copy(self.at(slot), into) };
        self.release(slot, served);
    }

    /// Sends the large message in the place that the caller holds. False if the tube is closed:
    /// then the caller still holds the place.
    pub(crate) fn commit(&self, slot: usize, served: &mut ClaimedList) -> bool {
        let locked = self.lock();
        if locked.word & CLOSED != 0 {
            locked.unlock();
            return false;
        }
        self.commit_locked(locked, slot, LockedCore::push_slot, served);
        true
    }

    /// The same, to the first waiting receiver, or into the ring by `push`.
    pub(super) fn commit_locked<'a>(
        &'a self,
        mut locked: LockedCore<'a, L>,
        slot: usize,
        push: impl FnOnce(&mut LockedCore<'a, L>, usize),
        served: &mut ClaimedList,
    ) {
        let receiver = if locked.word & RECEIVERS != 0 {
            locked.claim_any_receiver()
        } else {
            None
        };
        let Some(receiver) = receiver else {
            push(&mut locked, slot);
            return locked.unlock();
        };
        locked.unlock();
        let note = receiver.place().note.get();
        if note == WANTS_SLOT {
            receiver.place().note.set(slot + 1);
            served.push(receiver);
        } else {
            // SAFETY: the receiver said where, and does not go on before it is resumed; the caller
            // holds the place (L1).
            unsafe { self.copy(self.at(slot), std::ptr::with_exposed_provenance_mut(note)) };
            receiver.place().note.set(SERVED);
            served.push(receiver);
            self.release(slot, served);
        }
    }

    /// Gives back a place that the caller has held. The first waiter for a place gets it.
    pub(crate) fn release(&self, slot: usize, served: &mut ClaimedList) {
        let mut locked = self.lock();
        locked.give_back(slot);
        if !self.layout.is_large() {
            if let Some(sender) = locked.refill() {
                served.push(sender);
            }
            return locked.unlock();
        }
        let sender = if locked.word & SENDERS != 0 {
            locked.claim_sender()
        } else {
            None
        };
        let Some(sender) = sender else {
            return locked.unlock();
        };
        let slot = locked.take_free();
        if sender.place().note.get() == WANTS_SLOT {
            locked.unlock();
            sender.place().note.set(slot + 1);
            return served.push(sender);
        }
        // Only a receiver that reads in a place may wait beside a sender (L4).
        let reader = if locked.word & RECEIVERS != 0 {
            locked.claim_any_receiver()
        } else {
            None
        };
        if reader.is_none() {
            self.slots[slot].is_filled.store(false, Relaxed);
            locked.push_slot(slot);
        }
        locked.unlock();
        // SAFETY: the sender gave the address of its message, and does not go on before it is
        // resumed; no other touches the place before it is filled (L3).
        unsafe { self.copy(message_of(&sender), self.at(slot)) };
        match reader {
            Some(reader) => {
                reader.place().note.set(slot + 1);
                served.push(reader);
            }
            // ORDERING(filled.1): Release, pairs with filled.2: the message is seen.
            None => self.slots[slot].is_filled.store(true, Release),
        }
        sender.place().note.set(SERVED);
        served.push(sender);
    }

    /// Waits for the copy of a message that came into the ring before its place was filled.
    pub(super) fn wait_until_filled(&self, slot: usize) {
        let mut looks = 0;
        // ORDERING(filled.2): Acquire, pairs with filled.1.
        while !self.slots[slot].is_filled.load(Acquire) {
            looks += 1;
            if looks % LOOKS == 0 {
                give_way()
            } else {
                spin()
            }
        }
    }

    /// Takes a free place, to fill it. Returns its number + 1, or `NO_MORE`; or the lock if there
    /// is none.
    pub(super) fn hold(&self) -> Result<usize, LockedCore<'_, L>> {
        let mut locked = self.lock();
        if locked.word & CLOSED != 0 {
            return Ok(locked.closed());
        }
        if !locked.has_room() {
            return Err(locked);
        }
        let slot = locked.take_free();
        locked.unlock();
        Ok(slot + 1)
    }

    /// Takes the place of the first message, which is large, to read it. Returns its number + 1, or
    /// `NO_MORE`; or the lock if there is none.
    pub(super) fn take_slot(&self) -> Result<usize, LockedCore<'_, L>> {
        let mut locked = self.lock();
        if locked.len() > 0 {
            let slot = locked.pop_slot();
            locked.unlock();
            self.wait_until_filled(slot);
            return Ok(slot + 1);
        }
        if locked.word & CLOSED != 0 {
            Ok(locked.closed())
        } else {
            Err(locked)
        }
    }

    /// Sends a small message by the place that the caller holds, which ends that hold. False if the
    /// tube is closed: then the caller still holds the place.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    pub(crate) unsafe fn commit_from(&self, from: *const u8, served: &mut ClaimedList) -> bool {
        let mut locked = self.lock();
        if locked.word & CLOSED != 0 {
            locked.unlock();
            return false;
        }
        locked.give_back(0);
        let receiver = if locked.word & RECEIVERS != 0 {
            locked.claim_receiver()
        } else {
            None
        };
        let Some(receiver) = receiver else {
            // SAFETY: passed on; there is the room that was held.
            unsafe { locked.push_behind_those_put_back(from) };
            locked.unlock();
            return true;
        };
        if let Some(sender) = locked.refill() {
            served.push(sender);
        }
        locked.unlock();
        // SAFETY: passed on; the receiver said where, and does not go on before it is resumed.
        unsafe {
            self.copy(
                from,
                std::ptr::with_exposed_provenance_mut(receiver.place().note.get()),
            )
        };
        receiver.place().note.set(SERVED);
        served.push(receiver);
        true
    }
}
