//! Sending and receiving as futures, for any executor.
//!
//! The first poll tries. If that cannot be done at once, the future stands in the tube's queue from
//! then on, as any other waiter ([`node`](super::node)).

use super::core::{NO_MORE, SERVED};
use super::ends::{Receiver, Sender, TubeState};
use super::error::{RecvError, SendError, TryRecvError, TrySendError};
use super::node::{FutureWaits, Looked, is_slot};
use crate::rt::last::drop_last;
use crate::rt::wait;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Sends a message, when it is polled. Made by [`Sender::send_async`].
///
/// From the first poll that was not ready it waits as [`Sender::send`] does: in its turn its
/// message is taken, and it is woken. If it is dropped before that, it has sent nothing, and drops
/// the message. A forgotten future is served nevertheless.
#[must_use = "futures do nothing unless they are polled"]
pub struct SendFuture<'a, T> {
    sender: &'a Sender<T>,
    /// The message, before the future waits.
    message: Option<T>,
    waits: FutureWaits<T>,
}

/// Receives a message, when it is polled. Made by [`Receiver::recv_async`]. When it was ready it
/// may be polled again, for the next message.
///
/// From the first poll that was not ready it waits as [`Receiver::recv`] does: in its turn it is
/// given a message, which no other receiver can take then, and is woken. If it is dropped before it
/// is polled again, it gives the message back, to be received before all others. So poll a waiting
/// future when it is woken, or drop it. One that is kept and not polled keeps a message from other
/// receivers; one that is forgotten loses it.
#[must_use = "futures do nothing unless they are polled"]
pub struct RecvFuture<'a, T> {
    receiver: &'a Receiver<T>,
    waits: FutureWaits<T>,
}

impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Sender<T> {
    /// Sends a message, as a future for any executor; see also [`block_on`](crate::block_on). It
    /// waits in the order of all waiting senders.
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
        SendFuture {
            sender: self,
            message: Some(message),
            waits: FutureWaits::new(),
        }
    }
}

impl<T> Receiver<T> {
    /// Receives a message, as a future for any executor; see also [`block_on`](crate::block_on). It
    /// waits in the order of all waiting receivers.
    ///
    /// # Errors
    /// Of the future: [`RecvError`]: the tube is closed, and empty.
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        RecvFuture {
            receiver: self,
            waits: FutureWaits::new(),
        }
    }
}

impl<T> SendFuture<'_, T> {
    /// The message; none if it was sent.
    pub fn into_inner(mut self) -> Option<T> {
        self.take_back()
    }

    fn take_back(&mut self) -> Option<T> {
        let SendFuture {
            sender,
            message,
            waits,
        } = self;
        if !waits.is_waiting {
            return message.take();
        }
        let tube = &*sender.tube;
        let (message, wakers) = tube.operate(|_| {
            let Looked { note, wakers } = waits.give_up(tube);
            // SAFETY: it waited with the message, which was not taken.
            let message = (note != Some(SERVED)).then(|| unsafe { waits.node().take() });
            (message, wakers)
        });
        drop_last(message, wakers)
    }
}

impl<T> RecvFuture<'_, T> {
    /// Polls for the next message, any number of times: as a stream.
    ///
    /// # Errors
    /// [`RecvError`]: the tube is closed, and empty.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        let RecvFuture { receiver, waits } = self;
        let tube = &*receiver.tube;
        if !waits.is_waiting {
            match receiver.try_recv() {
                Err(TryRecvError::Empty) => {}
                done => return Poll::Ready(done.map_err(|_| RecvError)),
            }
        }
        // Before anything is changed, because the clone is the program's code.
        let new = context.waker().clone();
        let (received, wakers) = tube.operate(|_| {
            let looked = if waits.is_waiting {
                waits.look(tube, new)
            } else {
                waits.receive(tube, new)
            };
            (
                looked.note.map(|note| waits.received(tube, note)),
                looked.wakers,
            )
        });
        match drop_last(received, wakers) {
            None => Poll::Pending,
            Some(received) => Poll::Ready(received),
        }
    }
}

impl<T> FutureWaits<T> {
    /// The message that it has received, as this note says; an error if the tube is closed.
    fn received(&self, tube: &TubeState<T>, note: usize) -> Result<T, RecvError> {
        if note == NO_MORE {
            return Err(RecvError);
        }
        if !is_slot(note) {
            // SAFETY: it was received.
            return Ok(unsafe { self.node().take() });
        }
        // SAFETY: the future holds the place, with a message that is read once.
        let message = unsafe { tube.core.at(note - 1).cast::<T>().read() };
        wait::undisturbed(|served| tube.core.release(note - 1, served));
        Ok(message)
    }
}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let SendFuture {
            sender,
            message: kept,
            waits,
        } = self.get_mut();
        let tube = &*sender.tube;
        if !waits.is_waiting {
            let Some(message) = kept.take() else {
                panic!("send_async: polled after it was ready")
            };
            match sender.try_send(message) {
                Ok(()) => return Poll::Ready(Ok(())),
                Err(TrySendError::Disconnected(message)) => {
                    return Poll::Ready(Err(SendError(message)));
                }
                Err(TrySendError::Full(message)) => *kept = Some(message),
            }
        }
        // Before anything is changed, because the clone is the program's code.
        let new = context.waker().clone();
        let (sent, wakers) = tube.operate(|_| {
            let looked = match kept.take() {
                Some(message) => waits.send(tube, message, new),
                None => waits.look(tube, new),
            };
            let sent = looked.note.map(|note| {
                if note == NO_MORE {
                    // SAFETY: it stood with the message, which was not taken.
                    Err(SendError(unsafe { waits.node().take() }))
                } else {
                    Ok(())
                }
            });
            (sent, looked.wakers)
        });
        match drop_last(sent, wakers) {
            None => Poll::Pending,
            Some(sent) => Poll::Ready(sent),
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
        if self.waits.is_waiting {
            let tube = &*self.receiver.tube;
            let wakers = tube.operate(|_| self.waits.give_up(tube).wakers);
            drop_last((), wakers);
        }
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
