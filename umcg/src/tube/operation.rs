//! Sending and receiving as operations: beside others, in `select`.

use super::core::{NO_MORE, SERVED, TRY};
use super::ends::{Receiver, Sender, TubeState};
use super::error::{RecvError, SendError};
use crate::rt::wait::{ClaimedList, Place, Queued, SelectQueue};
use crate::select::operation::{Operation, OperationParts};
use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::mem::MaybeUninit;

/// The state of a transfer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TransferState {
    /// Nothing was done. To send: there is a message.
    Waiting,
    /// Sent, or received.
    Done,
    /// The tube is closed.
    Closed,
    /// The message was taken back, or out.
    Over,
}

/// One send or receive, with all that its wait needs.
struct Transfer<'a, T> {
    tube: &'a TubeState<T>,
    place: Place,
    state: Cell<TransferState>,
    message: UnsafeCell<MaybeUninit<T>>,
}

impl<'a, T> Transfer<'a, T> {
    fn new(tube: &'a TubeState<T>, message: MaybeUninit<T>) -> Transfer<'a, T> {
        Transfer {
            tube,
            place: Place::new(),
            state: Cell::new(TransferState::Waiting),
            message: UnsafeCell::new(message),
        }
    }

    /// The message's address, as long as the operation stays where it is: it is borrowed while it
    /// waits.
    fn address(&self) -> usize {
        self.message.get().expose_provenance()
    }

    fn finish(&self, note: usize) -> bool {
        self.tube.operate(|_| {
            match note {
                TRY => return false,
                NO_MORE => self.state.set(TransferState::Closed),
                _ => self.state.set(TransferState::Done),
            }
            true
        })
    }

    fn has_message_to_send(&self) -> bool {
        matches!(
            self.state.get(),
            TransferState::Waiting | TransferState::Closed
        )
    }

    /// # Safety
    /// There is a message, and it is used once.
    unsafe fn take(&mut self) -> T {
        // SAFETY: passed on.
        unsafe { self.message.get_mut().assume_init_read() }
    }
}

/// Sends a message, when it is selected. Made by [`Sender::sending`].
pub struct Sending<'a, T>(Transfer<'a, T>);

/// Receives a message, when it is selected. Made by [`Receiver::receiving`].
pub struct Receiving<'a, T>(Transfer<'a, T>);

impl<T> Sender<T> {
    /// Sending this message, beside other operations. It is sent only if the operation is selected;
    /// otherwise [`Sending::into_inner`] returns it.
    ///
    /// ```
    /// let (sender, receiver) = umcg::tube::tube(1);
    /// let (other, _receiver) = umcg::tube::tube(0);
    /// umcg::select! {
    ///     sent = sender.sending("hello") => sent.unwrap(),
    ///     sent = other.sending("nobody is there") => sent.unwrap(),
    /// }
    /// assert_eq!(receiver.recv(), Ok("hello"));
    /// ```
    pub fn sending(&self, message: T) -> Sending<'_, T> {
        Sending(Transfer::new(&self.tube, MaybeUninit::new(message)))
    }
}

impl<T> Receiver<T> {
    /// Receiving a message, beside other operations. If a message was received and not asked for,
    /// the next wait for this operation receives it at once; or it is dropped with the operation.
    pub fn receiving(&self) -> Receiving<'_, T> {
        Receiving(Transfer::new(&self.tube, MaybeUninit::uninit()))
    }
}

impl<T> Sending<'_, T> {
    fn assert_message(&self) {
        assert!(
            self.0.has_message_to_send(),
            "select: the message to send was sent already"
        );
    }

    /// The message; none if it was sent.
    pub fn into_inner(mut self) -> Option<T> {
        self.take_back()
    }

    /// The next message to send. Returns the one before, if that was not sent.
    pub fn replace(&mut self, message: T) -> Option<T> {
        let before = self.take_back();
        self.0.message.get_mut().write(message);
        self.0.state.set(TransferState::Waiting);
        before
    }

    fn take_back(&mut self) -> Option<T> {
        let before = self.0.state.replace(TransferState::Over);
        // SAFETY: in these states the message is here, and `Over` says that it is not any more.
        matches!(before, TransferState::Waiting | TransferState::Closed)
            .then(|| unsafe { self.0.take() })
    }
}

impl<T> OperationParts for Sending<'_, T> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.0.place
    }

    fn note(&self) -> usize {
        self.0.address()
    }

    /// Checked before any place stands in a queue (U2 of `rt::last`).
    fn prepare(&self) -> u64 {
        self.assert_message();
        u64::MAX
    }

    fn finish(&self, note: usize) -> bool {
        self.0.finish(note)
    }
}

// SAFETY: it is the tube's.
unsafe impl<T> Queued for Sending<'_, T> {
    fn leave(&self, place: &Place, served: &mut ClaimedList) -> bool {
        self.0.tube.core.sending().leave(place, served)
    }
}

// SAFETY: it is the tube's.
unsafe impl<T> SelectQueue for Sending<'_, T> {
    fn serve_now(&self, note: usize) -> Option<usize> {
        self.assert_message();
        self.0.tube.core.sending().serve_now(note)
    }

    fn enter_or_claim(
        &self,
        place: &Place,
        claim: &mut dyn FnMut() -> bool,
        served: &mut ClaimedList,
    ) {
        self.0
            .tube
            .core
            .sending()
            .enter_or_claim(place, claim, served);
    }
}

impl<T> Operation for Sending<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn outcome(&mut self) -> Self::Output {
        match self.0.state.replace(TransferState::Over) {
            TransferState::Done => Ok(()),
            // SAFETY: it was not sent, and is here; `Over` says that it is not any more.
            TransferState::Closed => Err(SendError(unsafe { self.0.take() })),
            before => {
                self.0.state.set(before);
                panic!("the operation was not selected");
            }
        }
    }
}

impl<T> Drop for Sending<'_, T> {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

impl<T> OperationParts for Receiving<'_, T> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.0.place
    }

    fn note(&self) -> usize {
        self.0.address()
    }

    fn finish(&self, note: usize) -> bool {
        self.0.finish(note)
    }
}

// SAFETY: it is the tube's.
unsafe impl<T> Queued for Receiving<'_, T> {
    fn leave(&self, place: &Place, served: &mut ClaimedList) -> bool {
        self.0.tube.core.receiving().leave(place, served)
    }
}

// SAFETY: it is the tube's.
unsafe impl<T> SelectQueue for Receiving<'_, T> {
    fn serve_now(&self, note: usize) -> Option<usize> {
        if self.0.state.get() == TransferState::Done {
            // Received before, and not taken out.
            return Some(SERVED);
        }
        self.0.tube.core.receiving().serve_now(note)
    }

    fn enter_or_claim(
        &self,
        place: &Place,
        claim: &mut dyn FnMut() -> bool,
        served: &mut ClaimedList,
    ) {
        if self.0.state.get() == TransferState::Done {
            if claim() {
                place.note.set(SERVED);
            }
            return;
        }
        self.0
            .tube
            .core
            .receiving()
            .enter_or_claim(place, claim, served);
    }
}

impl<T> Operation for Receiving<'_, T> {
    type Output = Result<T, RecvError>;

    fn outcome(&mut self) -> Self::Output {
        match self.0.state.replace(TransferState::Waiting) {
            // SAFETY: it was received; the state says that it is not here any more.
            TransferState::Done => Ok(unsafe { self.0.take() }),
            TransferState::Closed => Err(RecvError),
            TransferState::Waiting | TransferState::Over => {
                panic!("the operation was not selected")
            }
        }
    }
}

impl<T> Drop for Receiving<'_, T> {
    fn drop(&mut self) {
        if self.0.state.get() == TransferState::Done {
            // SAFETY: as in `outcome`.
            drop(unsafe { self.0.take() });
        }
    }
}

impl<T> fmt::Debug for Sending<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sending").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Receiving<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receiving").finish_non_exhaustive()
    }
}
