//! Sending and receiving as futures, for any executor.
//!
//! The first poll tries; if there is nothing to do at once the future stands in the tube's queue from then on, as any other who waits ([`standing`](super::standing)).

use super::core::{NO_MORE, SERVED};
use super::ends::{Receiver, Sender};
use super::error::{RecvError, SendError, TryRecvError, TrySendError};
use super::standing::{Turn, is_slot};
use crate::rt::wait;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Sends a message, when it is polled. By [`Sender::send_async`].
///
/// From the first poll that was not ready it waits as [`Sender::send`] does: in its turn its message is taken, and it is woken. Dropped before that, it has sent nothing, and drops the message. One that was
/// forgotten is served nevertheless.
#[must_use = "futures do nothing unless they are polled"]
pub struct SendFuture<'a, T> {
    sender: &'a Sender<T>,
    /// Before it waits.
    message: Option<T>,
    turn: Turn<T>,
}

/// Receives a message, when it is polled. By [`Receiver::recv_async`]. When it was ready it may be polled again, for the next message.
///
/// From the first poll that was not ready it waits as [`Receiver::recv`] does: in its turn it is given a message, which nobody else can take then, and is woken. Dropped before it is polled again, it
/// gives that back, to be received before all others. So one that waits is to be polled when it is woken, or dropped: one that is kept and not polled keeps a message from others, and one that was forgotten
/// takes it along.
#[must_use = "futures do nothing unless they are polled"]
pub struct RecvFuture<'a, T> {
    receiver: &'a Receiver<T>,
    turn: Turn<T>,
}

impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Sender<T> {
    /// Sends a message, as a future for any executor; see also [`block_on`](crate::block_on). It waits in the order of all that wait to send.
    ///
    /// ```
    /// let (sender, receiver) = umcg::tube::tube(1);
    /// let worker = umcg::spawn_future(async move {
    ///     for number in 1..=10 {
    ///         sender.send_async(number).await.unwrap();
    ///     }
    /// });
    /// assert_eq!(receiver.iter().sum::<u32>(), 55);
    /// worker.join().unwrap();
    /// ```
    ///
    /// # Errors
    /// Of the future: [`SendError`]: the tube is closed.
    pub fn send_async(&self, message: T) -> SendFuture<'_, T> {
        SendFuture { sender: self, message: Some(message), turn: Turn::new() }
    }
}

impl<T> Receiver<T> {
    /// Receives a message, as a future for any executor; see also [`block_on`](crate::block_on). It waits in the order of all that wait to receive.
    ///
    /// # Errors
    /// Of the future: [`RecvError`]: the tube is closed, and empty.
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture { receiver: self, turn: Turn::new() }
    }
}

impl<T> SendFuture<'_, T> {
    /// The message; none if it was sent.
    pub fn into_inner(mut self) -> Option<T> {
        self.take_back()
    }

    fn take_back(&mut self) -> Option<T> {
        if !self.turn.is_waiting {
            return self.message.take();
        }
        let is_sent = self.turn.give_up(&self.sender.shared) == Some(SERVED);
        // SAFETY: it stood with the message, which was not taken.
        (!is_sent).then(|| unsafe { self.turn.standing().take() })
    }
}

impl<T> RecvFuture<'_, T> {
    /// Polls for the next message, as often as one likes: as a stream.
    ///
    /// # Errors
    /// [`RecvError`]: the tube is closed, and empty.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        let shared = &*self.receiver.shared;
        let note = if self.turn.is_waiting {
            self.turn.look(shared, context.waker())
        } else {
            match self.receiver.try_recv() {
                Err(TryRecvError::Empty) => self.turn.receive(shared, context.waker()),
                done => return Poll::Ready(done.map_err(|_| RecvError)),
            }
        };
        let Some(note) = note else { return Poll::Pending };
        if note == NO_MORE {
            return Poll::Ready(Err(RecvError));
        }
        if !is_slot(note) {
            // SAFETY: it was received.
            return Poll::Ready(Ok(unsafe { self.turn.standing().take() }));
        }
        // SAFETY: the place is in our hands, with a message that is read once.
        let message = unsafe { shared.at(note - 1).cast::<T>().read() };
        wait::undisturbed(|served| shared.release(note - 1, served));
        shared.call_futures();
        Poll::Ready(Ok(message))
    }
}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let shared = &*this.sender.shared;
        let note = if this.turn.is_waiting {
            this.turn.look(shared, context.waker())
        } else {
            let Some(message) = this.message.take() else { panic!("send_async: polled after it was ready") };
            match this.sender.try_send(message) {
                Ok(()) => Some(SERVED),
                Err(TrySendError::Disconnected(message)) => return Poll::Ready(Err(SendError(message))),
                Err(TrySendError::Full(message)) => this.turn.send(shared, message, context.waker()),
            }
        };
        match note {
            None => Poll::Pending,
            // SAFETY: it stood with the message, which was not taken.
            Some(NO_MORE) => Poll::Ready(Err(SendError(unsafe { this.turn.standing().take() }))),
            Some(_) => Poll::Ready(Ok(())),
        }
    }
}

impl<T> Future for RecvFuture<'_, T> {
    type Output = Result<T, RecvError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_recv(context)
    }
}

impl<T> Drop for SendFuture<'_, T> {
    fn drop(&mut self) {
        drop(self.take_back());
    }
}

impl<T> Drop for RecvFuture<'_, T> {
    fn drop(&mut self) {
        self.turn.give_up(&self.receiver.shared);
    }
}

impl<T> fmt::Debug for SendFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SendFuture").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for RecvFuture<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecvFuture").finish_non_exhaustive()
    }
}
