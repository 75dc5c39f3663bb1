//! A tube without its types: the word, the ring, the two queues, and the steps of a message.
//!
//! | module | holds |
//! |---|---|
//! | `ring` | the word: its bits, and where the ring begins and ends |
//! | `locked` | the tube under its lock: the ring, held places, claims |
//!
//! - T1: the word is state and lock at once ([`word`](crate::rt::word)). So a message costs one
//!   locked instruction to send and one to receive. The word says where the message goes before
//!   that instruction.
//! - T2: RECEIVERS and SENDERS say that the queue of that name is not empty. A later caller finds
//!   them, and stands behind, or serves the first: no waiter is overtaken.
//! - T3: a sender with a message and a receiver that takes one never stand in the queues at once;
//!   nor does a sender while there is room, nor a receiver while there is a message. So a send has
//!   one step: to the first receiver, or into the ring, or into the queue. A receive has two: it
//!   takes the first message, and then moves that of the first sender into the place that is free
//!   now.
//! - T4: HELD says that some places of the ring are neither free nor have messages
//!   ([`slots`](super::slots), `reserve`). The fast paths are closed then.
//! - T5: CLOSED: nothing is sent any more, and no sender waits. Messages that are there can be
//!   received. No receiver waits when the tube is empty.
//! - T6: CALLS says that [futures](super::node) were served, which are to be called. A dropped
//!   future may leave a message without an owner in the queue of senders. That message stays there
//!   when the tube is closed.
//! - T7: a message goes straight from the sender to the receiver if either waits: from frame to
//!   frame, after the unlock. That is safe because a claimed waiter does not go on before it is
//!   resumed.
//!
//! A tube of capacity 0 has no ring, and all messages go so. The exceptions from T3 are waiters
//! that want a place of the ring ([`WANTS_SLOT`]), to fill or to read it: they wait for the place
//! as well.
//!
//! In a place's note: before it is served, the address of the message, or of where it is to go.
//!
//! docs/protocols/tube.md has the argument at length, and the designs that were not chosen.

use super::layout::Layout;
use super::patience;
use crate::rt::sync::{AtomicBool, Hold};
use crate::rt::wait::{Claimed, ClaimedList, Places};
use crate::rt::word::{LOCKED, Word};
use ring::{CLOSED, HELD, MOST, RECEIVERS, SENDERS, head, len, tail, without_first};
use std::alloc;
use std::cell::Cell;
use std::ptr::NonNull;

mod locked;
pub(super) mod ring;

pub(super) use locked::LockedCore;

/// In the note of a place: it was served.
pub(crate) const SERVED: usize = 0;
/// Closed, and nothing was done.
pub(crate) const NO_MORE: usize = usize::MAX - 1;
/// Nothing was done, and the waiter is to look again.
pub(crate) const TRY: usize = usize::MAX - 2;
/// In the note of a waiter: it waits for a place of the ring. It is served with the number of the
/// place, plus 1.
pub(super) const WANTS_SLOT: usize = usize::MAX;

/// See the head of the module.
#[repr(C, align(64))]
pub(crate) struct Core<L: Layout> {
    word: Word,
    pub(super) receivers: Places,
    pub(super) senders: Places,
    capacity: u32,
    /// How many places of the ring are held. Under the lock.
    held: Cell<u32>,
    store: NonNull<u8>,
    pub(super) layout: L,
    pub(super) slots: Box<[StoreSlot]>,
}

/// The record that a tube of large messages keeps for each place of its store. See `slots`.
pub(super) struct StoreSlot {
    /// The ring: which place the message is in. Under the lock.
    pub(super) order: Cell<u32>,
    /// The places that are free, as a stack. Under the lock.
    pub(super) free: Cell<u32>,
    /// The message is in its place. False for a while if it is in the ring already.
    pub(super) is_filled: AtomicBool,
}

// SAFETY: all but the word is touched under the lock in it, or is a place that was given to one
// holder under the lock.
unsafe impl<L: Layout> Send for Core<L> {}
// SAFETY: as above.
unsafe impl<L: Layout> Sync for Core<L> {}

impl<L: Layout> Core<L> {
    /// None if there is no memory for it, or too much is asked for.
    pub(crate) fn new(layout: L, capacity: usize) -> Option<Core<L>> {
        if capacity > MOST {
            return None;
        }
        let memory = layout.memory(capacity)?;
        let store = if memory.size() == 0 {
            NonNull::new(std::ptr::without_provenance_mut(memory.align()))?
        } else {
            // SAFETY: not of size 0.
            NonNull::new(unsafe { alloc::alloc(memory) })?
        };
        let slot = |number: u32| StoreSlot {
            order: Cell::new(0),
            free: Cell::new(number),
            is_filled: AtomicBool::new(true),
        };
        let slots = if layout.is_large() {
            (0..capacity as u32).map(slot).collect()
        } else {
            Box::default()
        };
        Some(Core {
            word: Word::new(0),
            receivers: Places::new(),
            senders: Places::new(),
            capacity: capacity as u32,
            held: Cell::new(0),
            store,
            layout,
            slots,
        })
    }

    /// The address of the place with this number.
    #[inline(always)]
    pub(crate) fn at(&self, number: usize) -> *mut u8 {
        self.store
            .as_ptr()
            .wrapping_add(number * self.layout.size())
    }

    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    pub(super) unsafe fn copy(&self, from: *const u8, to: *mut u8) {
        // SAFETY: passed on.
        unsafe { self.layout.copy(from, to) };
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// How many messages there are.
    pub(crate) fn len(&self) -> usize {
        len(self.word.load())
    }

    /// Whether there is no room.
    pub(crate) fn is_full(&self) -> bool {
        let word = self.word.load();
        word & SENDERS != 0 || len(word) == self.capacity()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.word.see() & CLOSED != 0
    }

    /// The numbers of places in the queues: receivers and senders.
    pub(crate) fn waiting(&self) -> (usize, usize) {
        let locked = self.lock();
        let counts = (self.receivers.len(), self.senders.len());
        locked.unlock();
        counts
    }

    /// Whether a receiver would have to wait; may be outdated at once.
    #[inline(always)]
    pub(super) fn has_nothing(&self) -> bool {
        let word = self.word.load();
        len(word) == 0 && word & (SENDERS | CLOSED) == 0
    }

    /// Whether a sender would have to wait; may be outdated at once.
    #[inline(always)]
    pub(super) fn has_no_room(&self) -> bool {
        let word = self.word.load();
        (len(word) == self.capacity() || word & SENDERS != 0) && word & (RECEIVERS | CLOSED) == 0
    }

    /// Whether none of these bits is set; may be outdated at once.
    #[inline(always)]
    pub(super) fn has_none(&self, waiting: u64) -> bool {
        self.word.load() & waiting == 0
    }

    /// Puts a message into the ring. False when that could not be done in one step.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    pub(crate) unsafe fn push_fast(&self, from: *const u8) -> bool {
        if self.layout.is_large() {
            return false;
        }
        let word = self.word.load();
        if word & (LOCKED | RECEIVERS | CLOSED | HELD) != 0 || len(word) == self.capacity() {
            return false;
        }
        let to = self.at(tail(word, self.capacity()));
        let _hold = Hold::begin();
        if !self.word.lock_from(word) {
            return false;
        }
        // SAFETY: passed on; the place is free.
        unsafe { self.copy(from, to) };
        self.word.unlock(ring::with_last(word));
        true
    }

    /// Takes a message from the ring. False when that could not be done in one step.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    pub(crate) unsafe fn pop_fast(&self, into: *mut u8) -> bool {
        if self.layout.is_large() {
            return false;
        }
        let word = self.word.load();
        if word & (LOCKED | SENDERS | HELD) != 0 || len(word) == 0 {
            return false;
        }
        let from = self.at(head(word));
        let _hold = Hold::begin();
        if !self.word.lock_from(word) {
            return false;
        }
        // SAFETY: passed on; a message is there.
        unsafe { self.copy(from, into) };
        self.word.unlock(without_first(word, self.capacity()));
        true
    }

    /// The caller is not preempted.
    #[inline(always)]
    pub(super) fn lock(&self) -> LockedCore<'_, L> {
        LockedCore {
            core: self,
            word: self.word.lock_or(patience::back_off),
        }
    }

    /// Closes the tube: nothing is sent any more. All waiters are told.
    pub(crate) fn close(&self, served: &mut ClaimedList) {
        let mut locked = self.lock();
        for queue in [&self.receivers, &self.senders] {
            while let Some(claimed) = queue.claim_where(|place| !place.is_ownerless()) {
                claimed.place().note.set(NO_MORE);
                served.push(claimed);
            }
        }
        locked.word |= CLOSED;
        locked.note_receivers();
        locked.note_senders();
        locked.unlock();
    }

    /// Sends if that can be done at once, and returns the note that a waiter would have. Otherwise
    /// returns the lock.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    pub(super) unsafe fn give(
        &self,
        from: *const u8,
        served: &mut ClaimedList,
    ) -> Result<usize, LockedCore<'_, L>> {
        let mut locked = self.lock();
        if locked.word & CLOSED != 0 {
            return Ok(locked.closed());
        }
        if locked.word & RECEIVERS != 0 {
            if let Some(receiver) = locked.claim_receiver() {
                // SAFETY: passed on.
                unsafe { self.hand_over(locked, from, &receiver) };
                served.push(receiver);
                return Ok(SERVED);
            }
        }
        if !locked.has_room() {
            return Err(locked);
        }
        if self.layout.is_large() {
            // SAFETY: passed on.
            return Ok(unsafe { self.give_by_slot(locked, from, served) });
        }
        // SAFETY: passed on; there is room.
        unsafe { locked.push(from) };
        locked.unlock();
        Ok(SERVED)
    }

    /// Gives the caller's message to a receiver that waited. The receiver is to be resumed
    /// afterwards.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    pub(super) unsafe fn hand_over(
        &self,
        mut locked: LockedCore<'_, L>,
        from: *const u8,
        receiver: &Claimed,
    ) {
        let note = receiver.place().note.get();
        if note == WANTS_SLOT {
            let slot = locked.take_free();
            locked.unlock();
            // SAFETY: passed on; the caller holds the place.
            unsafe { self.copy(from, self.at(slot)) };
            receiver.place().note.set(slot + 1);
        } else {
            locked.unlock();
            // SAFETY: passed on; the receiver gave the address, and does not go on before it is
            // resumed.
            unsafe { self.copy(from, std::ptr::with_exposed_provenance_mut(note)) };
            receiver.place().note.set(SERVED);
        }
    }

    /// Receives if that can be done at once, and returns the note that a waiter would have.
    /// Otherwise returns the lock.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    pub(super) unsafe fn take(
        &self,
        into: *mut u8,
        served: &mut ClaimedList,
    ) -> Result<usize, LockedCore<'_, L>> {
        let mut locked = self.lock();
        if locked.len() > 0 {
            // SAFETY: passed on.
            unsafe { self.take_first(locked, into, served) };
            return Ok(SERVED);
        }
        if locked.word & SENDERS != 0 {
            if let Some(sender) = locked.claim_message() {
                locked.unlock();
                // SAFETY: passed on; the sender gave the address, and does not go on before it is
                // resumed.
                unsafe { self.copy(message_of(&sender), into) };
                sender.place().note.set(SERVED);
                served.push(sender);
                return Ok(SERVED);
            }
        }
        if locked.word & CLOSED != 0 {
            Ok(locked.closed())
        } else {
            Err(locked)
        }
    }

    /// Takes the first message of the ring, where there is one. The first waiter for room gets the
    /// room.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    pub(super) unsafe fn take_first(
        &self,
        mut locked: LockedCore<'_, L>,
        into: *mut u8,
        served: &mut ClaimedList,
    ) {
        if self.layout.is_large() {
            // SAFETY: passed on.
            return unsafe { self.take_by_slot(locked, into, served) };
        }
        // SAFETY: passed on; there is a message.
        unsafe { locked.pop(into) };
        if let Some(sender) = locked.refill() {
            served.push(sender);
        }
        locked.unlock();
    }
}

impl<L: Layout> Drop for Core<L> {
    /// The owner has dropped the messages before.
    fn drop(&mut self) {
        debug_assert!(
            self.receivers.has_no_waiter() && self.senders.has_no_waiter(),
            "a tube is dropped while somebody waits for it"
        );
        if let Some(memory) = self
            .layout
            .memory(self.capacity())
            .filter(|memory| memory.size() > 0)
        {
            // SAFETY: `new` allocated it so.
            unsafe { alloc::dealloc(self.store.as_ptr(), memory) };
        }
    }
}

/// The address of a waiting sender's message.
pub(super) fn message_of(sender: &Claimed) -> *const u8 {
    std::ptr::with_exposed_provenance(sender.place().note.get())
}
