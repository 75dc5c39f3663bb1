//! Waiting at a tube: alone, or beside other things.

use super::core::ring::{CLOSED, RECEIVERS, SENDERS};
use super::core::{Core, LockedCore, NO_MORE, SERVED, TRY, WANTS_SLOT, message_of};
use super::layout::Layout;
use super::patience;
use crate::rt::wait::{self, ClaimedList, Place, Queued, SelectQueue};

const SENDING: &&str = &"send";
const RECEIVING: &&str = &"receive";

/// Why nothing was sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferError {
    /// The tube is closed; and empty, for a receive.
    Closed,
    /// The caller would have to wait; or, with a deadline, to wait longer than that.
    WouldBlock,
}

/// The outcome that a served waiter's note says; without a note its deadline has passed.
#[inline(always)]
fn outcome(note: Option<usize>) -> Result<usize, TransferError> {
    match note {
        None => Err(TransferError::WouldBlock),
        Some(NO_MORE) => Err(TransferError::Closed),
        Some(note) => Ok(note),
    }
}

/// The tube as a queue to wait in with a message.
#[repr(transparent)]
pub(crate) struct Sending<L: Layout>(Core<L>);

/// The tube as a queue to wait in for a message.
#[repr(transparent)]
pub(crate) struct Receiving<L: Layout>(Core<L>);

impl<L: Layout> Core<L> {
    #[inline(always)]
    pub(crate) fn sending(&self) -> &Sending<L> {
        // SAFETY: transparent.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    #[inline(always)]
    pub(crate) fn receiving(&self) -> &Receiving<L> {
        // SAFETY: transparent.
        unsafe { &*std::ptr::from_ref(self).cast() }
    }

    /// Sends; waits until `deadline` at most. A point of cancellation if it has to wait, and
    /// nothing was sent then.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(never)]
    pub(crate) unsafe fn send(&self, from: *const u8) -> Result<(), TransferError> {
        // Most often a receiver waits: then without the frame that a wait takes.
        // SAFETY: passed on.
        if !self.has_none(RECEIVERS) && unsafe { self.send_to_first(from) } {
            return Ok(());
        }
        // SAFETY: passed on.
        unsafe { self.send_slow(from) }
    }

    /// Sends to the first receiver that waits. False if there is none.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    unsafe fn send_to_first(&self, from: *const u8) -> bool {
        wait::hand_over(|| {
            let mut locked = self.lock();
            let receiver = if locked.word & CLOSED == 0 {
                locked.claim_receiver()
            } else {
                None
            };
            match &receiver {
                // SAFETY: passed on.
                Some(receiver) => unsafe { self.hand_over(locked, from, receiver) },
                None => locked.unlock(),
            }
            receiver
        })
    }

    /// # Safety
    /// As [`Layout::copy`].
    #[inline(never)]
    unsafe fn send_slow(&self, from: *const u8) -> Result<(), TransferError> {
        if !self.has_no_room() {
            // SAFETY: passed on.
            let sent = unsafe { self.try_send(from) };
            if sent != Err(TransferError::WouldBlock) {
                return sent;
            }
        }
        patience::look_while(|| self.has_no_room(), || self.has_none(SENDERS));
        // SAFETY: passed on.
        unsafe { self.send_or_wait(from, u64::MAX) }
    }

    /// The same, until `deadline` at most.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(never)]
    pub(crate) unsafe fn send_until(
        &self,
        from: *const u8,
        deadline: u64,
    ) -> Result<(), TransferError> {
        // SAFETY: passed on.
        unsafe { self.send_or_wait(from, deadline) }
    }

    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    unsafe fn send_or_wait(&self, from: *const u8, deadline: u64) -> Result<(), TransferError> {
        let note = wait::one(self.sending(), SENDING, deadline, |single, served| {
            // SAFETY: passed on.
            match unsafe { self.give(from, served) } {
                Ok(note) => Some(note),
                Err(locked) => {
                    // SAFETY: the waiter leaves the queue before the place ends.
                    unsafe { locked.enter_senders(single.place(from.expose_provenance())) };
                    None
                }
            }
        });
        outcome(note).map(drop)
    }

    /// Sends if that can be done at once.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(never)]
    pub(crate) unsafe fn try_send(&self, from: *const u8) -> Result<(), TransferError> {
        if self.has_no_room() {
            return Err(TransferError::WouldBlock);
        }
        let note = wait::undisturbed(|served| {
            // SAFETY: passed on.
            unsafe { self.give(from, served) }
                .map_err(LockedCore::unlock)
                .ok()
        });
        outcome(note).map(drop)
    }

    /// Receives; waits until `deadline` at most. A point of cancellation if it has to wait, and
    /// nothing was received then.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(never)]
    pub(crate) unsafe fn receive(&self, into: *mut u8) -> Result<(), TransferError> {
        patience::look_while(|| self.has_nothing(), || self.has_none(RECEIVERS));
        // SAFETY: passed on.
        unsafe { self.receive_or_wait(into, u64::MAX) }
    }

    /// The same, until `deadline` at most.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(never)]
    pub(crate) unsafe fn receive_until(
        &self,
        into: *mut u8,
        deadline: u64,
    ) -> Result<(), TransferError> {
        // SAFETY: passed on.
        unsafe { self.receive_or_wait(into, deadline) }
    }

    /// # Safety
    /// As [`Layout::copy`].
    #[inline(always)]
    unsafe fn receive_or_wait(&self, into: *mut u8, deadline: u64) -> Result<(), TransferError> {
        let note = wait::one(self.receiving(), RECEIVING, deadline, |single, served| {
            // SAFETY: passed on.
            match unsafe { self.take(into, served) } {
                Ok(note) => Some(note),
                Err(locked) => {
                    // SAFETY: as in `send`.
                    unsafe { locked.enter_receivers(single.place(into.expose_provenance())) };
                    None
                }
            }
        });
        outcome(note).map(drop)
    }

    /// Receives if that can be done at once.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    #[inline(never)]
    pub(crate) unsafe fn try_receive(&self, into: *mut u8) -> Result<(), TransferError> {
        if self.has_nothing() {
            return Err(TransferError::WouldBlock);
        }
        let note = wait::undisturbed(|served| {
            // SAFETY: passed on.
            unsafe { self.take(into, served) }
                .map_err(LockedCore::unlock)
                .ok()
        });
        outcome(note).map(drop)
    }

    /// Takes a free place to fill; waits until `deadline` at most. As [`Core::send`].
    #[inline(never)]
    pub(crate) fn reserve(&self, deadline: u64) -> Result<usize, TransferError> {
        let note = wait::one(self.sending(), SENDING, deadline, |single, _| {
            match self.hold() {
                Ok(note) => Some(note),
                Err(locked) => {
                    // SAFETY: as in `send`.
                    unsafe { locked.enter_senders(single.place(WANTS_SLOT)) };
                    None
                }
            }
        });
        outcome(note).map(|note| note - 1)
    }

    /// Takes a free place to fill, if there is one.
    pub(crate) fn try_reserve(&self) -> Result<usize, TransferError> {
        outcome(wait::undisturbed(|_| {
            self.hold().map_err(LockedCore::unlock).ok()
        }))
        .map(|note| note - 1)
    }

    /// Takes the place of the first message, which is large, to read it; waits until `deadline` at
    /// most. As [`Core::receive`].
    #[inline(never)]
    pub(crate) fn receive_slot(&self, deadline: u64) -> Result<usize, TransferError> {
        let note = wait::one(
            self.receiving(),
            RECEIVING,
            deadline,
            |single, _| match self.take_slot() {
                Ok(note) => Some(note),
                Err(locked) => {
                    // SAFETY: as in `send`.
                    unsafe { locked.enter_receivers(single.place(WANTS_SLOT)) };
                    None
                }
            },
        );
        outcome(note).map(|note| note - 1)
    }

    /// Takes the place of the first message, if there is one.
    pub(crate) fn try_receive_slot(&self) -> Result<usize, TransferError> {
        outcome(wait::undisturbed(|_| {
            self.take_slot().map_err(LockedCore::unlock).ok()
        }))
        .map(|note| note - 1)
    }
}

impl<L: Layout> LockedCore<'_, L> {
    /// # Safety
    /// As [`wait::Places::push`].
    #[inline(always)]
    pub(super) unsafe fn enter_senders(mut self, place: &Place) {
        // SAFETY: passed on.
        unsafe { self.core.senders.push(place, false) };
        self.word |= SENDERS;
        self.unlock();
    }

    /// Enters before all others, with a message that was sent already.
    ///
    /// # Safety
    /// As [`wait::Places::push`].
    pub(super) unsafe fn enter_in_front(mut self, place: &Place) {
        // SAFETY: passed on.
        unsafe { self.core.senders.push(place, true) };
        self.word |= SENDERS;
        self.unlock();
    }

    /// # Safety
    /// As [`wait::Places::push`].
    #[inline(always)]
    pub(super) unsafe fn enter_receivers(mut self, place: &Place) {
        // SAFETY: passed on.
        unsafe { self.core.receivers.push(place, false) };
        self.word |= RECEIVERS;
        self.unlock();
    }

    /// Sets the note of the place, and unlocks.
    fn answer(self, place: &Place, note: usize) {
        place.note.set(note);
        self.unlock();
    }
}

// SAFETY: the queue is touched under the lock in the word only.
unsafe impl<L: Layout> Queued for Sending<L> {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        let mut locked = self.0.lock();
        let has_left = self.0.senders.remove(place);
        locked.note_senders();
        locked.unlock();
        has_left
    }
}

// SAFETY: as above.
unsafe impl<L: Layout> Queued for Receiving<L> {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        let mut locked = self.0.lock();
        let has_left = self.0.receivers.remove(place);
        locked.note_receivers();
        locked.unlock();
        has_left
    }
}

// SAFETY: as above. The notes are addresses of messages, by the contract of `Layout::copy`.
unsafe impl<L: Layout> SelectQueue for Sending<L> {
    fn serve_now(&self, note: usize) -> Option<usize> {
        let from = std::ptr::with_exposed_provenance(note);
        // SAFETY: by the contract.
        match unsafe { self.0.try_send(from) } {
            Ok(()) => Some(SERVED),
            Err(TransferError::Closed) => Some(NO_MORE),
            Err(TransferError::WouldBlock) => None,
        }
    }

    fn enter_or_claim(
        &self,
        place: &Place,
        claim: &mut dyn FnMut() -> bool,
        served: &mut ClaimedList,
    ) {
        let core = &self.0;
        let from = std::ptr::with_exposed_provenance(place.note.get());
        let mut locked = core.lock();
        let has_room = locked.has_room();
        // Not the caller itself, which may stand there by another place.
        let may_be_for = |other: &Place| {
            !other.is_of_same_wait(place) && (has_room || other.note.get() != WANTS_SLOT)
        };
        let is_closed = locked.word & CLOSED != 0;
        if !is_closed && !has_room && core.receivers.find(may_be_for).is_none() {
            // SAFETY: the waiter leaves the queue before the place ends.
            return unsafe { locked.enter_senders(place) };
        }
        if !claim() {
            return locked.unlock();
        }
        if is_closed {
            return locked.answer(place, NO_MORE);
        }
        let receiver = core.receivers.claim_where(may_be_for);
        locked.note_receivers();
        if let Some(receiver) = receiver {
            place.note.set(SERVED);
            // SAFETY: by the contract.
            unsafe { core.hand_over(locked, from, &receiver) };
            served.push(receiver);
        } else if !has_room {
            // The receivers that were there were served elsewhere just now.
            locked.answer(place, TRY);
        } else if core.layout.is_large() {
            // SAFETY: by the contract.
            place
                .note
                .set(unsafe { core.give_by_slot(locked, from, served) });
        } else {
            // SAFETY: by the contract.
            unsafe { locked.push(from) };
            locked.answer(place, SERVED);
        }
    }
}

// SAFETY: as above.
unsafe impl<L: Layout> SelectQueue for Receiving<L> {
    fn serve_now(&self, note: usize) -> Option<usize> {
        let into = std::ptr::with_exposed_provenance_mut(note);
        // SAFETY: by the contract.
        match unsafe { self.0.try_receive(into) } {
            Ok(()) => Some(SERVED),
            Err(TransferError::Closed) => Some(NO_MORE),
            Err(TransferError::WouldBlock) => None,
        }
    }

    fn enter_or_claim(
        &self,
        place: &Place,
        claim: &mut dyn FnMut() -> bool,
        served: &mut ClaimedList,
    ) {
        let core = &self.0;
        let into = std::ptr::with_exposed_provenance_mut(place.note.get());
        let mut locked = core.lock();
        let may_be_from =
            |other: &Place| !other.is_of_same_wait(place) && other.note.get() != WANTS_SLOT;
        let has_message = locked.len() > 0;
        let is_closed = locked.word & CLOSED != 0;
        if !has_message && !is_closed && core.senders.find(may_be_from).is_none() {
            // SAFETY: the waiter leaves the queue before the place ends.
            return unsafe { locked.enter_receivers(place) };
        }
        if !claim() {
            return locked.unlock();
        }
        if has_message {
            place.note.set(SERVED);
            // SAFETY: by the contract.
            return unsafe { core.take_first(locked, into, served) };
        }
        let sender = core.senders.claim_where(may_be_from);
        locked.note_senders();
        let Some(sender) = sender else {
            return locked.answer(place, if is_closed { NO_MORE } else { TRY });
        };
        locked.unlock();
        // SAFETY: by the contract; the sender does not go on before it is resumed.
        unsafe { core.copy(message_of(&sender), into) };
        sender.place().note.set(SERVED);
        place.note.set(SERVED);
        served.push(sender);
    }
}
