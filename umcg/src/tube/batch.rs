//! Many messages at once: under one lock, as many as there is room for, or as many as there are.

use super::core::ring::{CLOSED, RECEIVERS, SENDERS};
use super::core::{Core, SERVED, message_of};
use super::ends::{Receiver, Sender};
use super::error::{
    RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
use super::layout::{Layout, Typed};
use super::waiting::TransferError;
use crate::rt::timed;
use crate::rt::wait;
use crate::rt::wait::ClaimedList;
use std::collections::VecDeque;
use std::mem;

/// The most messages that are copied under one lock.
const MOST: usize = 32;
/// The most bytes that are copied under one lock, except for a single message.
const BYTES: usize = 8192;

impl<L: Layout> Core<L> {
    fn most_at_once(&self) -> usize {
        (BYTES / self.layout.size().max(1)).clamp(1, MOST)
    }

    /// Sends the first of so many small messages, as many as can be sent without waiting.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    pub(super) unsafe fn give_some(
        &self,
        from: *const u8,
        count: usize,
        served: &mut ClaimedList,
    ) -> Result<usize, TransferError> {
        let mut locked = self.lock();
        if locked.word & CLOSED != 0 {
            locked.unlock();
            return Err(TransferError::Closed);
        }
        let mut given = 0;
        while given < count.min(self.most_at_once()) {
            let from = from.wrapping_add(given * self.layout.size());
            let receiver = if locked.word & RECEIVERS != 0 {
                locked.claim_receiver()
            } else {
                None
            };
            if let Some(receiver) = receiver {
                // SAFETY: passed on; the receiver said where, and does not go on before it is
                // resumed.
                unsafe {
                    self.copy(
                        from,
                        std::ptr::with_exposed_provenance_mut(receiver.place().note.get()),
                    )
                };
                receiver.place().note.set(SERVED);
                served.push(receiver);
            } else if locked.has_room() {
                // SAFETY: passed on; there is room.
                unsafe { locked.push(from) };
            } else {
                break;
            }
            given += 1;
        }
        locked.unlock();
        Ok(given)
    }

    /// Receives up to so many small messages, as many as are there.
    ///
    /// # Safety
    /// As [`Layout::copy`].
    pub(super) unsafe fn take_some(
        &self,
        into: *mut u8,
        count: usize,
        served: &mut ClaimedList,
    ) -> Result<usize, TransferError> {
        let mut locked = self.lock();
        let mut taken = 0;
        while taken < count.min(self.most_at_once()) {
            let into = into.wrapping_add(taken * self.layout.size());
            if locked.len() > 0 {
                // SAFETY: passed on; there is a message.
                unsafe { locked.pop(into) };
                if let Some(sender) = locked.refill() {
                    served.push(sender);
                }
            } else {
                let sender = if locked.word & SENDERS != 0 {
                    locked.claim_message()
                } else {
                    None
                };
                let Some(sender) = sender else { break };
                // SAFETY: passed on; the sender said where, and does not go on before it is
                // resumed.
                unsafe { self.copy(message_of(&sender), into) };
                sender.place().note.set(SERVED);
                served.push(sender);
            }
            taken += 1;
        }
        let is_over = taken == 0 && locked.word & CLOSED != 0;
        locked.unlock();
        if is_over {
            Err(TransferError::Closed)
        } else {
            Ok(taken)
        }
    }
}

impl<T> Sender<T> {
    /// Sends all messages of `batch` in their order, and takes them out of it; waits until there is
    /// room. Messages of other senders may come between. Otherwise as [`Sender::send`]. If it is
    /// cancelled, the message with which it was waiting is dropped, and those behind it stay in
    /// `batch`.
    ///
    /// # Errors
    /// [`SendError`]: the tube is closed. The messages that were not sent are in `batch`.
    pub fn send_batch(&self, batch: &mut VecDeque<T>) -> Result<(), SendError<()>> {
        self.send_batch_until(batch, u64::MAX)
            .map_err(|_| SendError(()))
    }

    /// Sends the first messages of `batch`, as many as there is room for, or receivers wait for.
    /// Never waits. Returns how many.
    ///
    /// # Errors
    /// [`TrySendError`]: none was sent, though there are some.
    pub fn try_send_batch(&self, batch: &mut VecDeque<T>) -> Result<usize, TrySendError<()>> {
        let before = batch.len();
        match self.send_some(batch) {
            Err(why) if batch.len() == before => Err(TrySendError::new(why, ())),
            _ if batch.len() == before && before > 0 => Err(TrySendError::Full(())),
            _ => Ok(before - batch.len()),
        }
    }

    timed! {
        "Sender::send_batch";
        /// # Errors
        /// [`SendTimeoutError`]. The messages that were not sent are in `batch`.
        pub fn send_batch_deadline, send_batch_timeout(&self, batch: &mut VecDeque<T>)
            -> Result<(), SendTimeoutError<()>>;
        |deadline| self.send_batch_until(batch, deadline)
            .map_err(|why| SendTimeoutError::new(why, ()))
    }

    fn send_batch_until(
        &self,
        batch: &mut VecDeque<T>,
        deadline: u64,
    ) -> Result<(), TransferError> {
        loop {
            self.send_some(batch)?;
            let Some(first) = batch.pop_front() else {
                return Ok(());
            };
            if let Err(error) = self.send_until(first, deadline) {
                let why = if error.is_timeout() {
                    TransferError::WouldBlock
                } else {
                    TransferError::Closed
                };
                batch.push_front(error.into_inner());
                return Err(why);
            }
        }
    }

    /// Sends as many as can be sent without waiting.
    fn send_some(&self, batch: &mut VecDeque<T>) -> Result<(), TransferError> {
        while !batch.is_empty() {
            if Typed::<T>::IS_LARGE {
                let Some(first) = batch.pop_front() else {
                    break;
                };
                if let Err(error) = self.try_send(first) {
                    let why = if error.is_full() {
                        TransferError::WouldBlock
                    } else {
                        TransferError::Closed
                    };
                    batch.push_front(error.into_inner());
                    return if why == TransferError::Closed {
                        Err(why)
                    } else {
                        Ok(())
                    };
                }
                continue;
            }
            let sent = self.tube.operate(|core| {
                let first = batch.as_mut_slices().0;
                let (from, count) = (first.as_mut_ptr(), first.len());
                // SAFETY: so many messages are there, and those that were sent are forgotten.
                let sent = wait::undisturbed(|served| unsafe {
                    core.give_some(from.cast(), count, served)
                })?;
                batch.drain(..sent).for_each(mem::forget);
                Ok(sent)
            })?;
            if sent == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Receives up to `most` messages, as many as are there, and appends them to `messages`; waits
    /// until there is one. Returns how many. Otherwise as [`Receiver::recv`].
    ///
    /// # Errors
    /// [`RecvError`]: the tube is closed, and empty.
    pub fn recv_batch(&self, messages: &mut Vec<T>, most: usize) -> Result<usize, RecvError> {
        self.recv_batch_until(messages, most, u64::MAX)
            .map_err(|_| RecvError)
    }

    /// Like [`Receiver::recv_batch`], if there is a message. Never waits.
    ///
    /// # Errors
    /// [`TryRecvError`].
    pub fn try_recv_batch(
        &self,
        messages: &mut Vec<T>,
        most: usize,
    ) -> Result<usize, TryRecvError> {
        match self.recv_some(messages, most) {
            Ok(0) if most > 0 => Err(TryRecvError::Empty),
            Ok(count) => Ok(count),
            Err(why) => Err(why.into()),
        }
    }

    timed! {
        "Receiver::recv_batch";
        /// # Errors
        /// [`RecvTimeoutError`].
        pub fn recv_batch_deadline, recv_batch_timeout(&self, messages: &mut Vec<T>, most: usize)
            -> Result<usize, RecvTimeoutError>;
        |deadline| Ok(self.recv_batch_until(messages, most, deadline)?)
    }

    fn recv_batch_until(
        &self,
        messages: &mut Vec<T>,
        most: usize,
        deadline: u64,
    ) -> Result<usize, TransferError> {
        let count = self.recv_some(messages, most)?;
        if count > 0 || most == 0 {
            return Ok(count);
        }
        messages.push(self.tube.recv_until(deadline)?);
        // If it is closed just now, the next call says so.
        Ok(1 + self.recv_some(messages, most - 1).unwrap_or(0))
    }

    /// As many as are there.
    fn recv_some(&self, messages: &mut Vec<T>, most: usize) -> Result<usize, TransferError> {
        let before = messages.len();
        while messages.len() - before < most {
            let wanted = most - (messages.len() - before);
            if Typed::<T>::IS_LARGE {
                match self.tube.try_recv() {
                    Ok(message) => messages.push(message),
                    Err(TransferError::Closed) if messages.len() == before => {
                        return Err(TransferError::Closed);
                    }
                    Err(_) => break,
                }
                continue;
            }
            let wanted = wanted.min(MOST);
            messages.reserve(wanted);
            let taken = self.tube.operate(|core| {
                let into = messages.spare_capacity_mut().as_mut_ptr();
                // SAFETY: places for so many.
                let taken = wait::undisturbed(|served| unsafe {
                    core.take_some(into.cast(), wanted, served)
                })?;
                // SAFETY: so many were received.
                unsafe { messages.set_len(messages.len() + taken) };
                Ok(taken)
            });
            match taken {
                Ok(taken) if taken > 0 => {}
                Err(TransferError::Closed) if messages.len() == before => {
                    return Err(TransferError::Closed);
                }
                _ => break,
            }
        }
        Ok(messages.len() - before)
    }
}
