//! The messages of a tube: copied in and out under its inner lock, a double word at a time, as
//! another process may write anything there.

use super::error::Fault;
use super::object::{FIRST, LockedObject, MessageRing, SENDERS};
use crate::rt::sync::{AtomicU64, Ordering::*};

/// A message that goes in or comes out.
pub(super) enum Message<'a> {
    In(&'a [u8]),
    Out(&'a mut [u8]),
}

impl Message<'_> {
    /// The queue of the parties that move messages this way.
    pub(super) fn queue(&self) -> u32 {
        match self {
            Message::In(_) => SENDERS,
            Message::Out(_) => FIRST,
        }
    }
}

/// The outcome of an attempt to move a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    Done,
    NotNow,
    Closed,
}

impl LockedObject<'_> {
    /// Moves the message at once, if that is possible without overtaking a waiter.
    pub(super) fn try_move(
        &mut self,
        ring: MessageRing,
        message: &mut Message<'_>,
    ) -> Result<Moved, Fault> {
        let queue = message.queue();
        if queue == SENDERS && self.is_closed() {
            return Ok(Moved::Closed);
        }
        if self.first(queue)?.is_none() && self.has(queue, 1)? {
            self.move_now(ring, message)?;
            return Ok(Moved::Done);
        }
        Ok(if self.is_closed() {
            Moved::Closed
        } else {
            Moved::NotNow
        })
    }

    /// Moves the message for a caller that was promised room, or a message.
    pub(super) fn move_as_promised(
        &mut self,
        ring: MessageRing,
        message: &mut Message<'_>,
    ) -> Result<(), Fault> {
        let queue = message.queue();
        if self.object.promised(queue).load(Relaxed) == 0 {
            return Err(Fault::Corrupt);
        }
        self.promise(queue, u32::MAX);
        // From here on it is free for any party, including the caller.
        if !self.has(queue, 1)? {
            return Err(Fault::Corrupt);
        }
        self.move_now(ring, message)
    }

    /// Call it after `has`.
    fn move_now(&mut self, ring: MessageRing, message: &mut Message<'_>) -> Result<(), Fault> {
        let (head, len) = (self.object.head(), self.object.len());
        let (at, count) = (head.load(Relaxed), len.load(Relaxed));
        // Checked again, as both were read again.
        if at >= ring.capacity || count > ring.capacity {
            return Err(Fault::Corrupt);
        }
        match message {
            Message::In(_) if count == ring.capacity => Err(Fault::Corrupt),
            Message::Out(_) if count == 0 => Err(Fault::Corrupt),
            Message::In(bytes) => {
                let slot = (u64::from(at) + u64::from(count)) % u64::from(ring.capacity);
                self.write(ring, slot as usize, bytes);
                len.store(count + 1, Relaxed);
                self.serve(FIRST)
            }
            Message::Out(bytes) => {
                self.read(ring, at as usize, bytes);
                head.store((at + 1) % ring.capacity, Relaxed);
                len.store(count - 1, Relaxed);
                self.serve(SENDERS)
            }
        }
    }

    fn write(&self, ring: MessageRing, slot: usize, bytes: &[u8]) {
        for (place, chunk) in self.words(ring, slot).iter().zip(bytes.chunks(8)) {
            // The last part may be shorter.
            let word = <[u8; 8]>::try_from(chunk).unwrap_or_else(|_| {
                let mut word = [0; 8];
                word[..chunk.len()].copy_from_slice(chunk);
                word
            });
            place.store(u64::from_ne_bytes(word), Relaxed);
        }
    }

    fn read(&self, ring: MessageRing, slot: usize, bytes: &mut [u8]) {
        for (place, chunk) in self.words(ring, slot).iter().zip(bytes.chunks_mut(8)) {
            let word = place.load(Relaxed).to_ne_bytes();
            match <&mut [u8; 8]>::try_from(&mut *chunk) {
                Ok(chunk) => *chunk = word,
                Err(_) => chunk.copy_from_slice(&word[..chunk.len()]),
            }
        }
    }

    /// The place of the message in this slot.
    fn words(&self, ring: MessageRing, slot: usize) -> &[AtomicU64] {
        let stride = ring.stride();
        self.object
            .shared
            .memory
            .u64s(ring.at + slot * stride, stride / 8)
    }
}
