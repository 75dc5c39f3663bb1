//! Tubes between processes.

use super::directory::Wanted;
use super::error::{Fault, NameError, TryTubeError, TubeError, TubeWaitError};
use super::handle::ObjectHandle;
use super::object::{FIRST, MessageRing, SENDERS, SegmentObjectKind};
use super::plain::{AsBytes, Plain};
use super::ring::{Message, Moved};
use super::shared::OpenSegment;
use super::wait::{SegmentWait, WishOutcome};
use crate::rt::sync::Ordering::*;
use crate::rt::timed;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// Messages of one size, as bytes, through a ring in a [`Segment`](super::Segment). Any process
/// sends and receives. First in, first out. The waiter that has waited longest to send or to
/// receive is served first.
///
/// A process that dies loses the message that it has received, and no other. Receivers do not
/// notice that a sender is dead: a tube is closed by [`close`](ByteTube::close) only.
///
/// Clones are the same tube. If no party waits, sending and receiving make no system call. A
/// message is copied twice, under the tube's inner lock. Not for signal handlers.
#[derive(Clone)]
pub struct ByteTube {
    handle: ObjectHandle,
    ring: MessageRing,
}

impl ByteTube {
    pub(super) fn new(
        shared: &Arc<OpenSegment>,
        name: &str,
        size: usize,
        capacity: u32,
    ) -> Result<ByteTube, NameError> {
        let size = u32::try_from(size).map_err(|_| NameError::Size)?;
        let handle = ObjectHandle::new(shared, name, Wanted::Tube(capacity, size))?;
        match handle.kind() {
            SegmentObjectKind::Tube(ring) => Ok(ByteTube { handle, ring }),
            _ => Err(NameError::Mismatch),
        }
    }

    /// Sends a message; waits until there is room. A point of cancellation if it has to wait; a
    /// wait that is cancelled has sent nothing. Switches.
    ///
    /// # Errors
    /// [`TubeError`].
    ///
    /// # Panics
    /// If the message does not have the size of the tube's messages.
    pub fn send(&self, message: &[u8]) -> Result<(), TubeError> {
        self.for_ever(Message::In(message))
    }

    timed! {
        "ByteTube::send";
        /// # Errors
        /// [`TubeWaitError`].
        ///
        /// # Panics
        /// As [`ByteTube::send`].
        pub fn send_deadline, send_timeout(&self, message: &[u8]) -> Result<(), TubeWaitError>;
        |deadline| self.until(Message::In(message), deadline)
    }

    /// Like [`ByteTube::send`], if there is room, and no other party waits for it. Never waits.
    ///
    /// # Errors
    /// [`TryTubeError`].
    ///
    /// # Panics
    /// As [`ByteTube::send`].
    pub fn try_send(&self, message: &[u8]) -> Result<(), TryTubeError> {
        self.at_once(&mut Message::In(message))
    }

    /// Receives the message that was sent first; waits until there is one. A point of cancellation
    /// if it has to wait; a wait that is cancelled has received nothing. Switches.
    ///
    /// # Errors
    /// [`TubeError`].
    ///
    /// # Panics
    /// If `message` does not have the size of the tube's messages.
    pub fn recv(&self, message: &mut [u8]) -> Result<(), TubeError> {
        self.for_ever(Message::Out(message))
    }

    timed! {
        "ByteTube::recv";
        /// # Errors
        /// [`TubeWaitError`].
        ///
        /// # Panics
        /// As [`ByteTube::recv`].
        pub fn recv_deadline, recv_timeout(&self, message: &mut [u8]) -> Result<(), TubeWaitError>;
        |deadline| self.until(Message::Out(message), deadline)
    }

    /// Like [`ByteTube::recv`], if there is a message for the caller. Never waits.
    ///
    /// # Errors
    /// [`TryTubeError`].
    ///
    /// # Panics
    /// As [`ByteTube::recv`].
    pub fn try_recv(&self, message: &mut [u8]) -> Result<(), TryTubeError> {
        self.at_once(&mut Message::Out(message))
    }

    /// Closes the tube. No message is sent any more; messages that were sent can still be received.
    /// All that wait in vain go on. Does not switch.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn close(&self) -> Result<(), Fault> {
        self.handle.object().locked(|locked| {
            locked.object.closed().store(1, Relaxed);
            locked.serve(FIRST)?;
            locked.serve(SENDERS)
        })
    }

    /// Whether the tube is closed.
    pub fn is_closed(&self) -> bool {
        self.handle.object().closed().load(Relaxed) != 0
    }

    /// How many messages there are; may be outdated at once.
    pub fn len(&self) -> usize {
        self.handle
            .object()
            .len()
            .load(Relaxed)
            .min(self.ring.capacity) as usize
    }

    /// Whether there are no messages; may be outdated at once.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many messages the tube can hold.
    pub fn capacity(&self) -> u32 {
        self.ring.capacity
    }

    /// The bytes of a message.
    pub fn message_size(&self) -> usize {
        self.ring.size as usize
    }

    /// How many wait to receive, and how many to send, including dead waiters that have not been
    /// found yet; may be outdated at once.
    ///
    /// # Errors
    /// [`Fault`].
    pub fn waiters(&self) -> Result<(usize, usize), Fault> {
        self.handle
            .object()
            .locked(|locked| Ok((locked.count(FIRST)?, locked.count(SENDERS)?)))
    }

    /// The fault of the tube, if it is dead or corrupt; none while it is in order.
    pub fn fault(&self) -> Option<Fault> {
        self.handle.object().fault()
    }

    fn for_ever(&self, message: Message<'_>) -> Result<(), TubeError> {
        self.until(message, u64::MAX).map_err(|error| match error {
            TubeWaitError::Closed => TubeError::Closed,
            TubeWaitError::Fault(fault) => TubeError::Fault(fault),
            // There is no deadline.
            TubeWaitError::TimedOut => TubeError::Fault(Fault::Corrupt),
        })
    }

    fn at_once(&self, message: &mut Message<'_>) -> Result<(), TryTubeError> {
        self.check(message);
        match self
            .handle
            .object()
            .locked(|locked| locked.try_move(self.ring, message))?
        {
            Moved::Done => Ok(()),
            Moved::NotNow => Err(TryTubeError::NotNow),
            Moved::Closed => Err(TryTubeError::Closed),
        }
    }

    fn until(&self, mut message: Message<'_>, deadline: u64) -> Result<(), TubeWaitError> {
        match self.at_once(&mut message) {
            Ok(()) => Ok(()),
            Err(TryTubeError::Closed) => Err(TubeWaitError::Closed),
            Err(TryTubeError::Fault(fault)) => Err(fault.into()),
            Err(TryTubeError::NotNow) => self.wait(message, deadline),
        }
    }

    #[cold]
    fn wait(&self, mut message: Message<'_>, deadline: u64) -> Result<(), TubeWaitError> {
        let wishes = [self.handle.wish(message.queue(), 1)];
        let (wait, outcome) = SegmentWait::wait(&self.handle.shared, &wishes, 0, deadline)?;
        match outcome {
            WishOutcome::TimedOut => Err(TubeWaitError::TimedOut),
            WishOutcome::Closed(_) => Err(TubeWaitError::Closed),
            WishOutcome::Given(at) => {
                self.handle.object().locked(|locked| {
                    // In one step with the use of the promise.
                    wait.taken(at);
                    locked.move_as_promised(self.ring, &mut message)
                })?;
                Ok(())
            }
        }
    }

    fn check(&self, message: &Message<'_>) {
        let len = match message {
            Message::In(bytes) => bytes.len(),
            Message::Out(bytes) => bytes.len(),
        };
        assert_eq!(len, self.message_size(), "a message of another size");
    }
}

impl fmt::Debug for ByteTube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("ByteTube");
        f.field("len", &self.len())
            .field("capacity", &self.capacity())
            .field("message_size", &self.message_size());
        f.field("closed", &self.is_closed())
            .field("fault", &self.fault())
            .finish_non_exhaustive()
    }
}

/// A [`ByteTube`] whose messages are values of a type. A message is a copy: one that is not sent is
/// still the caller's.
pub struct Tube<T> {
    bytes: ByteTube,
    values: PhantomData<fn(T) -> T>,
}

impl<T: Plain> Tube<T> {
    pub(super) fn new(
        shared: &Arc<OpenSegment>,
        name: &str,
        capacity: u32,
    ) -> Result<Tube<T>, NameError> {
        Ok(Tube {
            bytes: ByteTube::new(shared, name, size_of::<T>(), capacity)?,
            values: PhantomData,
        })
    }

    /// As [`ByteTube::send`].
    ///
    /// # Errors
    /// [`TubeError`].
    pub fn send(&self, message: T) -> Result<(), TubeError> {
        self.bytes.send(message.as_bytes())
    }

    timed! {
        "ByteTube::send";
        /// # Errors
        /// [`TubeWaitError`].
        pub fn send_deadline, send_timeout(&self, message: T) -> Result<(), TubeWaitError>;
        |deadline| self.bytes.until(Message::In(message.as_bytes()), deadline)
    }

    /// As [`ByteTube::try_send`].
    ///
    /// # Errors
    /// [`TryTubeError`].
    pub fn try_send(&self, message: T) -> Result<(), TryTubeError> {
        self.bytes.try_send(message.as_bytes())
    }

    /// As [`ByteTube::recv`].
    ///
    /// # Errors
    /// [`TubeError`].
    pub fn recv(&self) -> Result<T, TubeError> {
        T::filled(|message| self.bytes.recv(message))
    }

    timed! {
        "ByteTube::recv";
        /// # Errors
        /// [`TubeWaitError`].
        pub fn recv_deadline, recv_timeout(&self) -> Result<T, TubeWaitError>;
        |deadline| T::filled(|message| self.bytes.until(Message::Out(message), deadline))
    }

    /// As [`ByteTube::try_recv`].
    ///
    /// # Errors
    /// [`TryTubeError`].
    pub fn try_recv(&self) -> Result<T, TryTubeError> {
        T::filled(|message| self.bytes.try_recv(message))
    }

    /// As [`ByteTube::close`].
    ///
    /// # Errors
    /// [`Fault`].
    pub fn close(&self) -> Result<(), Fault> {
        self.bytes.close()
    }

    /// The same tube for messages as bytes. Use it for the length and other properties.
    pub fn as_bytes(&self) -> &ByteTube {
        &self.bytes
    }
}

impl<T> Clone for Tube<T> {
    fn clone(&self) -> Tube<T> {
        Tube {
            bytes: self.bytes.clone(),
            values: PhantomData,
        }
    }
}

impl<T> fmt::Debug for Tube<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tube").field(&self.bytes).finish()
    }
}
