//! Sending and receiving as futures, for any executor.
//!
//! A future does not stand in the tube's queues, whose waiters stay where they are until they are served; it may be dropped at any time, and need not be polled soon. So it is
//! *called*: its waker stands in a list beside the tube, and when there is a message for it, or room, the first of the list is taken out and woken, and tries.
//!
//! - F1: a future sends and receives in `poll` only, and returns from there what it has received. So one that is dropped has sent nothing and taken nothing, and there is nothing to give back.
//! - F2: as long as the list of receivers is not empty TAKERS is in the tube's word, and as long as that of senders is not, GIVERS. That closes the short way for those who bring what they wait
//!   for; all others look after their operation whether somebody is to be called ([`Shared::call_futures`]). The bit is set before the future looks for the last time: so either the future sees the
//!   message, or who sends it sees the bit.
//! - F3: a call is not lost. Who was called and is dropped, or has received and leaves more, or was called when it did not need that any more, calls the next.
//! - F4: who was called and comes too late stands before all others in the list.
//!
//! So futures are served in their order as far as nobody who is there just then is faster: not in the strong order of those that wait in queues. And two futures cannot
//! meet where there is no buffer between them.

use super::core::{GIVERS, TAKERS};
use super::ends::{Receiver, Sender, Shared};
use super::error::{RecvError, SendError, TrySendError};
use super::waiting::Refused;
use crate::rt::wait;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// For what a future waits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wish {
    Message,
    Room,
}

impl Wish {
    fn bit(self) -> u64 {
        match self {
            Wish::Message => TAKERS,
            Wish::Room => GIVERS,
        }
    }
}

/// The futures that wait to be called, by their numbers.
#[derive(Default)]
pub(super) struct Lists {
    takers: VecDeque<(u64, Waker)>,
    givers: VecDeque<(u64, Waker)>,
    last: u64,
}

impl Lists {
    fn of(&mut self, wish: Wish) -> &mut VecDeque<(u64, Waker)> {
        match wish {
            Wish::Message => &mut self.takers,
            Wish::Room => &mut self.givers,
        }
    }
}

impl<T> Shared<T> {
    /// After an operation that may have brought a message, or room.
    #[inline(always)]
    pub(super) fn call_futures(&self) {
        if !self.has_none(TAKERS | GIVERS) {
            self.call_slow();
        }
    }

    #[cold]
    fn call_slow(&self) {
        for wish in [Wish::Message, Wish::Room] {
            while let Some(waker) = self.next_to_call(wish) {
                waker.wake();
                // One for one message; but the end is for all.
                if !self.is_closed() {
                    break;
                }
            }
        }
    }

    fn next_to_call(&self, wish: Wish) -> Option<Waker> {
        let mut lists = self.lists.lock();
        let is_in_vain = match wish {
            Wish::Message => self.has_nothing(),
            Wish::Room => self.has_no_room(),
        };
        let called = if is_in_vain { None } else { lists.of(wish).pop_front() };
        self.note_futures(&mut lists, wish);
        called.map(|(_, waker)| waker)
    }

    /// Has the bit say whether the list is empty.
    fn note_futures(&self, lists: &mut Lists, wish: Wish) {
        let is_empty = lists.of(wish).is_empty();
        if is_empty != self.has_none(wish.bit()) {
            wait::undisturbed(|_| self.set_bit(wish.bit(), !is_empty));
        }
    }
}

/// The place of a future in its list.
struct Turn {
    wish: Wish,
    /// 0 if it is in no list, and has not been called.
    number: u64,
}

impl Turn {
    /// Stands in the list, with this waker: at its end; or in front, if it was called.
    fn stand<T>(&mut self, shared: &Shared<T>, waker: &Waker) {
        let mut new = waker.clone();
        let mut lists = shared.lists.lock();
        let number = self.number;
        if let Some((_, old)) = lists.of(self.wish).iter_mut().find(|(other, _)| *other == number) {
            mem::swap(old, &mut new);
        } else if number != 0 {
            lists.of(self.wish).push_front((number, new));
            return shared.note_futures(&mut lists, self.wish);
        } else {
            lists.last += 1;
            self.number = lists.last;
            lists.of(self.wish).push_back((self.number, new));
            return shared.note_futures(&mut lists, self.wish);
        }
        drop(lists);
        // Whatever the old one does when it is dropped, not under the lock.
        drop(new);
    }

    /// It is over. Who was called passes that on (F3).
    fn leave<T>(&mut self, shared: &Shared<T>) {
        let number = mem::take(&mut self.number);
        if number == 0 {
            return;
        }
        let mut lists = shared.lists.lock();
        let list = lists.of(self.wish);
        let at = list.iter().position(|(other, _)| *other == number);
        let waker = at.and_then(|at| list.remove(at));
        shared.note_futures(&mut lists, self.wish);
        drop(lists);
        if waker.is_none() {
            shared.call_futures();
        }
    }
}

/// Sends a message, when it is polled. By [`Sender::send_async`]. Dropped before it was ready it has sent nothing, and drops the message.
#[must_use = "futures do nothing unless they are polled"]
pub struct SendFuture<'a, T> {
    sender: &'a Sender<T>,
    message: Option<T>,
    turn: Turn,
}

/// Receives a message, when it is polled. By [`Receiver::recv_async`]. Dropped before it was ready it has taken nothing. When it was ready it may be polled again, for the next message.
#[must_use = "futures do nothing unless they are polled"]
pub struct RecvFuture<'a, T> {
    receiver: &'a Receiver<T>,
    turn: Turn,
}

impl<T> Unpin for SendFuture<'_, T> {}

impl<T> Sender<T> {
    /// Sends a message, as a future for any executor; see also [`block_on`](crate::block_on). Those that wait by [`send`](Sender::send) come first, and who is there when there is room may be
    /// faster; among futures who waits longest is called first.
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
    ///
    /// # Panics
    /// In a tube of capacity 0, where a message goes from frame to frame only.
    pub fn send_async(&self, message: T) -> SendFuture<'_, T> {
        assert!(self.capacity() > 0, "send_async: a tube of capacity 0 has no room");
        SendFuture { sender: self, message: Some(message), turn: Turn { wish: Wish::Room, number: 0 } }
    }
}

impl<T> Receiver<T> {
    /// Receives a message, as a future for any executor; see also [`block_on`](crate::block_on). Those that wait by [`recv`](Receiver::recv) come first, and who is there when a message comes
    /// may be faster; among futures who waits longest is called first.
    ///
    /// # Errors
    /// Of the future: [`RecvError`]: the tube is closed, and empty.
    ///
    /// # Panics
    /// In a tube of capacity 0, where a message goes from frame to frame only.
    pub fn recv_async(&self) -> RecvFuture<'_, T> {
        assert!(self.capacity() > 0, "recv_async: a tube of capacity 0 has no room");
        RecvFuture { receiver: self, turn: Turn { wish: Wish::Message, number: 0 } }
    }
}

impl<T> SendFuture<'_, T> {
    /// The message; none if it was sent.
    pub fn into_inner(mut self) -> Option<T> {
        self.message.take()
    }

    /// None if there is no room.
    fn try_now(&mut self) -> Option<Result<(), SendError<T>>> {
        let Some(message) = self.message.take() else { panic!("send_async: polled after it was ready") };
        match self.sender.try_send(message) {
            Ok(()) => Some(Ok(())),
            Err(TrySendError::Disconnected(message)) => Some(Err(SendError(message))),
            Err(TrySendError::Full(message)) => {
                self.message = Some(message);
                None
            }
        }
    }
}

impl<T> RecvFuture<'_, T> {
    /// Polls for the next message, as often as one likes: as a stream.
    ///
    /// # Errors
    /// [`RecvError`]: the tube is closed, and empty.
    pub fn poll_recv(&mut self, context: &mut Context<'_>) -> Poll<Result<T, RecvError>> {
        let shared = &*self.receiver.shared;
        let mut received = shared.try_recv();
        if matches!(received, Err(Refused::Late)) {
            self.turn.stand(shared, context.waker());
            received = shared.try_recv();
        }
        if matches!(received, Err(Refused::Late)) {
            return Poll::Pending;
        }
        self.turn.leave(shared);
        Poll::Ready(received.map_err(|_| RecvError))
    }
}

impl<T> Future for SendFuture<'_, T> {
    type Output = Result<(), SendError<T>>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let shared = &*this.sender.shared;
        let mut sent = this.try_now();
        if sent.is_none() {
            this.turn.stand(shared, context.waker());
            sent = this.try_now();
        }
        let Some(sent) = sent else { return Poll::Pending };
        this.turn.leave(shared);
        Poll::Ready(sent)
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
        self.turn.leave(&self.sender.shared);
    }
}

impl<T> Drop for RecvFuture<'_, T> {
    fn drop(&mut self) {
        self.turn.leave(&self.receiver.shared);
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
