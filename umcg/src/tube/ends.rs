//! The two ends of a tube.

use super::core::{Core, ring::MOST};
use super::error::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
use super::layout::Typed;
use super::node::Calls;
use super::waiting::TransferError;
use crate::rt::last::Last;
use crate::rt::timed;
use crate::rt::wait;
use std::fmt;
use std::iter::FusedIterator;
use std::mem::{self, MaybeUninit};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// A tube, with the numbers of its ends and the futures to call.
///
/// Each operation that may serve a waiter goes by [`operate`](TubeState::operate), which alone
/// calls the futures that were served.
pub(super) struct TubeState<T> {
    /// Used directly by steps that serve no waiter, by looks, and within `operate`.
    pub(super) core: Core<Typed<T>>,
    senders: AtomicUsize,
    receivers: AtomicUsize,
    pub(super) calls: Calls,
}

// SAFETY: messages go from thread to thread, but are not used by two at once; the calls are under
// the core's lock.
unsafe impl<T: Send> Send for TubeState<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for TubeState<T> {}

/// A message that was received, where it lies. It is dropped if something unwinds before it is
/// given away.
struct Incoming<'a, T>(&'a mut MaybeUninit<T>);

impl<T> Drop for Incoming<'_, T> {
    #[cold]
    fn drop(&mut self) {
        // SAFETY: it was received, and was not given away yet.
        unsafe { self.0.assume_init_drop() };
    }
}

impl<T> TubeState<T> {
    pub(super) fn close(&self) {
        self.operate(|core| wait::undisturbed(|served| core.close(served)));
    }

    pub(super) fn try_recv(&self) -> Result<T, TransferError> {
        // SAFETY: a place for one.
        self.recv_by(|core, into| unsafe { core.try_receive(into) })
    }

    pub(super) fn recv_until(&self, deadline: u64) -> Result<T, TransferError> {
        // SAFETY: a place for one.
        self.recv_by(|core, into| unsafe { core.receive_until(into, deadline) })
    }

    /// The message that `receive` writes.
    #[inline(always)]
    fn recv_by(
        &self,
        receive: impl FnOnce(&Core<Typed<T>>, *mut u8) -> Result<(), TransferError>,
    ) -> Result<T, TransferError> {
        let mut message = MaybeUninit::<T>::uninit();
        receive(&self.core, message.as_mut_ptr().cast())?;
        self.call_holding(&mut message);
        // SAFETY: received.
        Ok(unsafe { message.assume_init() })
    }

    /// Calls the futures that were served when this message was received. The message stays where
    /// it is, because moving a large one takes time.
    #[inline(always)]
    fn call_holding(&self, message: &mut MaybeUninit<T>) {
        let incoming = Incoming(message);
        self.operate(|_| ());
        mem::forget(incoming);
    }

    /// Drops all messages that are there, also if a drop panics.
    fn discard(&self) {
        let mut last = Last::new();
        let mut is_empty = false;
        while !is_empty {
            last.run(|| is_empty = self.try_recv().map(drop).is_err());
        }
        last.end(());
    }
}

impl<T> Drop for TubeState<T> {
    fn drop(&mut self) {
        self.discard();
    }
}

/// Makes a tube that has room for `capacity` messages. With a capacity of 0 each message goes
/// straight from a sender to a receiver, and each waits for the other.
///
/// # Panics
/// When there is no memory for so many, or for more than 268,435,455.
pub fn tube<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let core = Core::new(Typed::new(), capacity);
    let core = core
        .unwrap_or_else(|| panic!("tube: no memory for {capacity} messages, or more than {MOST}"));
    let tube = Arc::new(TubeState {
        core,
        senders: AtomicUsize::new(1),
        receivers: AtomicUsize::new(1),
        calls: Calls::default(),
    });
    (Sender { tube: tube.clone() }, Receiver { tube })
}

/// The end of a tube where messages go in. Its clones are ends of the same tube. When the last of
/// them is dropped the tube is closed.
pub struct Sender<T> {
    pub(super) tube: Arc<TubeState<T>>,
}

/// The end of a tube where messages come out. Its clones are ends of the same tube; each message
/// comes out of one. When the last of them is dropped the tube is closed, and its messages are
/// dropped.
pub struct Receiver<T> {
    pub(super) tube: Arc<TubeState<T>>,
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        self.tube.senders.fetch_add(1, Relaxed);
        Sender {
            tube: self.tube.clone(),
        }
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Receiver<T> {
        self.tube.receivers.fetch_add(1, Relaxed);
        Receiver {
            tube: self.tube.clone(),
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        // ORDERING(last-sender.1): AcqRel, pairs with itself: all that was sent comes before the
        // close.
        if self.tube.senders.fetch_sub(1, AcqRel) == 1 {
            self.tube.close();
        }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        // ORDERING(last-receiver.1): AcqRel, pairs with itself: no receive comes later.
        if self.tube.receivers.fetch_sub(1, AcqRel) == 1 {
            let mut last = Last::new();
            last.run(|| self.tube.close());
            // Now, and not with the last sender: a message may itself keep that sender alive.
            last.run(|| self.tube.discard());
            last.end(());
        }
    }
}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}
impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

/// The methods of both ends.
macro_rules! of_both {
    ($end:ident) => {
        impl<T> $end<T> {
            /// Closes the tube: nothing is sent any more, and all waiting senders get their
            /// messages back. The messages in the tube can be received; after that all waiting and
            /// all later receivers get an error. Does not switch.
            pub fn close(&self) {
                self.tube.close();
            }

            /// Whether it was closed, by [`close`](Self::close) or because all senders or all
            /// receivers are gone.
            pub fn is_closed(&self) -> bool {
                self.tube.core.is_closed()
            }

            /// How many messages it has room for.
            pub fn capacity(&self) -> usize {
                self.tube.core.capacity()
            }

            /// How many messages are in it; may be outdated at once.
            pub fn len(&self) -> usize {
                self.tube.core.len()
            }

            /// Whether no message is in it; may be outdated at once.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Whether there is no room in it; may be outdated at once.
            pub fn is_full(&self) -> bool {
                self.tube.core.is_full()
            }

            /// How many senders there are.
            pub fn sender_count(&self) -> usize {
                self.tube.senders.load(Relaxed)
            }

            /// How many receivers there are.
            pub fn receiver_count(&self) -> usize {
                self.tube.receivers.load(Relaxed)
            }

            /// Whether both are ends of the same tube.
            pub fn same_channel(&self, other: &$end<T>) -> bool {
                Arc::ptr_eq(&self.tube, &other.tube)
            }
        }

        impl<T> fmt::Debug for $end<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (receivers, senders) = wait::undisturbed(|_| self.tube.core.waiting());
                f.debug_struct(stringify!($end))
                    .field("capacity", &self.capacity())
                    .field("len", &self.len())
                    .field("is_closed", &self.is_closed())
                    .field("waiting_senders", &senders)
                    .field("waiting_receivers", &receivers)
                    .finish()
            }
        }
    };
}

of_both!(Sender);
of_both!(Receiver);

impl<T> Sender<T> {
    /// Sends a message; waits until there is room, or in a tube of capacity 0 until it is received.
    /// A point of cancellation if it has to wait; a send that is cancelled has sent nothing, and
    /// the message is dropped. Switches.
    ///
    /// # Errors
    /// [`SendError`]: the tube is closed.
    #[inline]
    pub fn send(&self, mut message: T) -> Result<(), SendError<T>> {
        let from = (&raw mut message).cast();
        // SAFETY: a message, which is forgotten once it was sent.
        if unsafe { self.tube.core.push_fast(from) } {
            mem::forget(message);
            return Ok(());
        }
        // SAFETY: as above.
        if unsafe { self.tube.core.send(from) }.is_err() {
            return Err(SendError(message));
        }
        mem::forget(message);
        self.tube.operate(|_| Ok(()))
    }

    /// Sends a message if there is room, or in a tube of capacity 0 if a receiver waits. Never
    /// waits.
    ///
    /// # Errors
    /// [`TrySendError`].
    #[inline]
    pub fn try_send(&self, mut message: T) -> Result<(), TrySendError<T>> {
        let from = (&raw mut message).cast();
        // SAFETY: a message, which is forgotten once it was sent.
        if unsafe { self.tube.core.push_fast(from) } {
            mem::forget(message);
            return Ok(());
        }
        // SAFETY: as above.
        if let Err(why) = unsafe { self.tube.core.try_send(from) } {
            return Err(TrySendError::new(why, message));
        }
        mem::forget(message);
        self.tube.operate(|_| Ok(()))
    }

    timed! {
        "Sender::send";
        /// # Errors
        /// [`SendTimeoutError`].
        pub fn send_deadline, send_timeout(&self, message: T) -> Result<(), SendTimeoutError<T>>;
        |deadline| self.send_until(message, deadline)
    }

    pub(super) fn send_until(
        &self,
        mut message: T,
        deadline: u64,
    ) -> Result<(), SendTimeoutError<T>> {
        // SAFETY: a message, which is forgotten once it was sent.
        if let Err(why) = unsafe {
            self.tube
                .core
                .send_until((&raw mut message).cast(), deadline)
        } {
            return Err(SendTimeoutError::new(why, message));
        }
        mem::forget(message);
        self.tube.operate(|_| Ok(()))
    }
}

impl<T> Receiver<T> {
    /// Receives a message; waits until there is one. A point of cancellation if it has to wait; a
    /// receive that is cancelled has taken nothing. Switches.
    ///
    /// # Errors
    /// [`RecvError`]: the tube is closed, and empty.
    #[inline]
    pub fn recv(&self) -> Result<T, RecvError> {
        let mut message = MaybeUninit::<T>::uninit();
        let into = message.as_mut_ptr().cast();
        // SAFETY: a place for one.
        if !unsafe { self.tube.core.pop_fast(into) } {
            // SAFETY: as above.
            if unsafe { self.tube.core.receive(into) }.is_err() {
                return Err(RecvError);
            }
            self.tube.call_holding(&mut message);
        }
        // SAFETY: received.
        Ok(unsafe { message.assume_init() })
    }

    /// Receives a message if there is one, or in a tube of capacity 0 if a sender waits. Never
    /// waits.
    ///
    /// # Errors
    /// [`TryRecvError`].
    #[inline]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        let mut message = MaybeUninit::<T>::uninit();
        // SAFETY: a place for one.
        if unsafe { self.tube.core.pop_fast(message.as_mut_ptr().cast()) } {
            // SAFETY: received.
            return Ok(unsafe { message.assume_init() });
        }
        Ok(self.tube.try_recv()?)
    }

    timed! {
        "Receiver::recv";
        /// # Errors
        /// [`RecvTimeoutError`].
        pub fn recv_deadline, recv_timeout(&self) -> Result<T, RecvTimeoutError>;
        |deadline| Ok(self.tube.recv_until(deadline)?)
    }

    /// Receives one after the other; ends when the tube is closed and empty. Each step waits as
    /// [`Receiver::recv`].
    pub fn iter(&self) -> Iter<'_, T> {
        Iter(self)
    }

    /// Receives the messages that are there; ends when there is none. Never waits.
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter(self)
    }

    /// Closes the tube, and receives the messages that are left in it. Never waits.
    pub fn drain(&self) -> TryIter<'_, T> {
        self.close();
        self.try_iter()
    }
}

/// By [`Receiver::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a, T>(&'a Receiver<T>);

/// By [`Receiver::try_iter`] and [`Receiver::drain`].
#[derive(Clone, Debug)]
pub struct TryIter<'a, T>(&'a Receiver<T>);

/// By a receiver's `into_iter`.
#[derive(Debug)]
pub struct IntoIter<T>(Receiver<T>);

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> FusedIterator for Iter<'_, T> {}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.try_recv().ok()
    }
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.0.recv().ok()
    }
}

impl<T> FusedIterator for IntoIter<T> {}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter(self)
    }
}
