//! A tube under its lock: the ring, the places that are held, and the waiters to claim.
//!
//! The word is a copy, which the unlock stores. A method that changes a queue or the number of held
//! places keeps the word's bits true (T2, T4).

use super::ring::{HELD, RECEIVERS, SENDERS};
use super::ring::{head, len, tail, with_first, with_last, without_first, without_last};
use super::{Core, NO_MORE, SERVED, WANTS_SLOT, message_of};
use crate::rt::wait::Claimed;
use crate::tube::layout::Layout;
use std::mem::MaybeUninit;

/// The held lock, with the word that the unlock will store.
#[must_use = "it is to be unlocked"]
pub(crate) struct LockedCore<'a, L: Layout> {
    pub(crate) core: &'a Core<L>,
    pub(crate) word: u64,
}

impl<L: Layout> LockedCore<'_, L> {
    #[inline(always)]
    pub(crate) fn unlock(self) {
        self.core.word.unlock(self.word);
    }

    pub(crate) fn closed(self) -> usize {
        self.unlock();
        NO_MORE
    }

    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        len(self.word)
    }

    fn held(&self) -> usize {
        self.core.held.get() as usize
    }

    #[inline(always)]
    pub(crate) fn has_room(&self) -> bool {
        self.len() + self.held() < self.core.capacity()
    }

    /// # Safety
    /// As [`Layout::copy`]; there is room, and messages are small.
    #[inline(always)]
    pub(crate) unsafe fn push(&mut self, from: *const u8) {
        let to = self.core.at(tail(self.word, self.core.capacity()));
        // SAFETY: passed on.
        unsafe { self.core.copy(from, to) };
        self.word = with_last(self.word);
    }

    /// # Safety
    /// As [`Layout::copy`]; there is a message, and messages are small.
    #[inline(always)]
    pub(crate) unsafe fn pop(&mut self, into: *mut u8) {
        let from = self.core.at(head(self.word));
        // SAFETY: passed on.
        unsafe { self.core.copy(from, into) };
        self.word = without_first(self.word, self.core.capacity());
    }

    /// Puts a small message before all others in the ring. If there is no room for it, it changes
    /// places with the last message, which is at `message` afterwards. Returns whether there was
    /// room.
    ///
    /// # Safety
    /// As [`Layout::copy`]; messages are small, or there is no ring.
    #[cold]
    pub(crate) unsafe fn push_front(&mut self, message: *mut u8) -> bool {
        let (has_room, mut from) = (self.has_room(), message);
        if !has_room {
            if self.len() == 0 {
                return false;
            }
            self.word = without_last(self.word);
            from = self.core.at(tail(self.word, self.core.capacity()));
            // SAFETY: passed on; the last message is there. They are swapped as bytes, as their
            // type is unknown.
            unsafe {
                std::ptr::swap_nonoverlapping(
                    message.cast::<MaybeUninit<u8>>(),
                    from.cast(),
                    self.core.layout.size(),
                )
            };
        }
        let first = self.start_earlier();
        let to = self.core.at(first);
        if from != to {
            // SAFETY: passed on; the place is free.
            unsafe { self.core.copy(from, to) };
        }
        has_room
    }

    /// Makes room in the ring for one more message before all others. Returns its place.
    fn start_earlier(&mut self) -> usize {
        self.word = with_first(self.word, self.core.capacity());
        head(self.word)
    }

    /// Puts a place that is held into the ring, for large messages.
    pub(crate) fn push_slot(&mut self, slot: usize) {
        self.core.slots[tail(self.word, self.core.capacity())]
            .order
            .set(slot as u32);
        self.word = with_last(self.word);
        self.set_held(self.held() - 1);
    }

    /// The same, before all others.
    pub(crate) fn push_slot_front(&mut self, slot: usize) {
        let first = self.start_earlier();
        self.core.slots[first].order.set(slot as u32);
        self.set_held(self.held() - 1);
    }

    /// Takes the place with the first message, to hold it.
    pub(crate) fn pop_slot(&mut self) -> usize {
        let slot = self.core.slots[head(self.word)].order.get();
        self.word = without_first(self.word, self.core.capacity());
        self.set_held(self.held() + 1);
        slot as usize
    }

    /// Takes a free place, to hold it. With small messages the place has no number: the ring only
    /// has one less.
    pub(crate) fn take_free(&mut self) -> usize {
        let left = self.core.capacity() - self.len() - self.held() - 1;
        self.set_held(self.held() + 1);
        self.core
            .slots
            .get(left)
            .map_or(0, |slot| slot.free.get() as usize)
    }

    /// Gives a place back that was held.
    pub(crate) fn give_back(&mut self, slot: usize) {
        self.set_held(self.held() - 1);
        let others = self.core.capacity() - self.len() - self.held() - 1;
        if let Some(top) = self.core.slots.get(others) {
            top.free.set(slot as u32);
        }
    }

    fn set_held(&mut self, held: usize) {
        self.core.held.set(held as u32);
        self.word = if held == 0 {
            self.word & !HELD
        } else {
            self.word | HELD
        };
    }

    /// Claims the first receiver that a message can go to now.
    #[inline(always)]
    pub(crate) fn claim_receiver(&mut self) -> Option<Claimed> {
        let claimed = if self.core.layout.is_large() && !self.has_room() {
            self.core
                .receivers
                .claim_where(|place| place.note.get() != WANTS_SLOT)
        } else {
            self.core.receivers.claim_first()
        };
        self.note_receivers();
        claimed
    }

    /// Claims the first receiver, where its message has a place already.
    pub(crate) fn claim_any_receiver(&mut self) -> Option<Claimed> {
        let claimed = self.core.receivers.claim_first();
        self.note_receivers();
        claimed
    }

    #[inline(always)]
    pub(crate) fn note_receivers(&mut self) {
        if self.core.receivers.is_empty() {
            self.word &= !RECEIVERS;
        }
    }

    /// Claims the first waiter for room.
    #[inline(always)]
    pub(crate) fn claim_sender(&mut self) -> Option<Claimed> {
        let claimed = self.core.senders.claim_first();
        self.note_senders();
        claimed
    }

    /// Claims the first sender that has a message already.
    #[inline(always)]
    pub(crate) fn claim_message(&mut self) -> Option<Claimed> {
        let claimed = if self.core.capacity == 0 {
            self.core.senders.claim_first()
        } else {
            self.core
                .senders
                .claim_where(|place| place.note.get() != WANTS_SLOT)
        };
        self.note_senders();
        claimed
    }

    #[inline(always)]
    pub(crate) fn note_senders(&mut self) {
        if self.core.senders.is_empty() {
            self.word &= !SENDERS;
        }
    }

    /// Gives room for one more small message to the first waiter for room. That is to be resumed
    /// after the unlock.
    #[inline(always)]
    pub(crate) fn refill(&mut self) -> Option<Claimed> {
        if self.word & SENDERS == 0 {
            return None;
        }
        let sender = self.claim_sender()?;
        if sender.place().note.get() == WANTS_SLOT {
            let slot = self.take_free();
            sender.place().note.set(slot + 1);
        } else {
            // SAFETY: the sender gave the address of its message, and does not go on before it is
            // resumed; there is room.
            unsafe { self.push(message_of(&sender)) };
            sender.place().note.set(SERVED);
        }
        Some(sender)
    }
}
