//! Tubes of messages that have a size and no type. The C interface is built on them; nothing else
//! should use them.
//!
//! A message is so many bytes, at any address. Dropping a [`Tube`] drops no messages.
//!
//! A tube of C's is freed by a caller that knows that it is not used any more, which may be the
//! receiver of its last message. So a sender does not touch the tube once its message can be
//! received. In the core, all steps after the last unlock touch only the frames of waiters.

mod places;

pub use places::{NoPlace, NotSent};

use super::core::{Core, NO_MORE, TRY};
use super::layout::{LARGE, Layout};
pub use super::waiting::TransferError;
use crate::rt::wait::{self, Place, SelectQueue};
use crate::select::operation::{Operation, OperationParts};
use places::PlacesInUse;
use std::alloc;
use std::cell::Cell;
use std::fmt;
use std::mem::MaybeUninit;

/// The alignment of the first message, so that messages whose size is a power of two are aligned.
const ALIGN: usize = 64;

/// So many bytes.
#[derive(Clone, Copy)]
struct Bytes(usize);

// SAFETY: it copies as many bytes as `memory` has for one.
unsafe impl Layout for Bytes {
    fn memory(self, count: usize) -> Option<alloc::Layout> {
        alloc::Layout::from_size_align(self.0.checked_mul(count)?, ALIGN).ok()
    }

    #[inline(always)]
    fn size(self) -> usize {
        self.0
    }

    #[inline(always)]
    fn is_large(self) -> bool {
        self.0 > LARGE
    }

    #[inline(always)]
    unsafe fn copy(self, from: *const u8, to: *mut u8) {
        /// A known number of them, in a few instructions.
        ///
        /// # Safety
        /// As `copy`.
        #[inline(always)]
        unsafe fn exactly<const SIZE: usize>(from: *const u8, to: *mut u8) {
            // SAFETY: passed on.
            unsafe {
                from.cast::<[MaybeUninit<u8>; SIZE]>()
                    .copy_to_nonoverlapping(to.cast(), 1)
            };
        }
        match self.0 {
            // SAFETY: passed on.
            8 => unsafe { exactly::<8>(from, to) },
            // SAFETY: passed on.
            4 => unsafe { exactly::<4>(from, to) },
            // SAFETY: passed on.
            16 => unsafe { exactly::<16>(from, to) },
            // SAFETY: passed on.
            size => unsafe { from.copy_to_nonoverlapping(to, size) },
        }
    }
}

/// A tube for messages of one size.
pub struct Tube(Core<Bytes>, PlacesInUse);

impl Tube {
    /// None if there is no memory for so many, or for more than 268,435,455.
    pub fn new(size: usize, capacity: usize) -> Option<Tube> {
        Core::new(Bytes(size), capacity).map(|core| Tube(core, PlacesInUse::new()))
    }

    /// How large a message is.
    pub fn size(&self) -> usize {
        self.0.layout.size()
    }

    /// How many messages it has room for.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// How many messages are in it; may be outdated at once.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether no message is in it; may be outdated at once.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// As the `close` of both ends.
    pub fn close(&self) {
        wait::undisturbed(|served| self.0.close(served));
    }

    /// Sends a message if that can be done at once.
    ///
    /// # Errors
    /// [`TransferError`].
    ///
    /// # Safety
    /// There is a message at `from`.
    #[inline]
    pub unsafe fn try_send(&self, from: *const u8) -> Result<(), TransferError> {
        // SAFETY: passed on.
        if unsafe { self.0.push_fast(from) } {
            return Ok(());
        }
        // SAFETY: passed on.
        unsafe { self.0.try_send(from) }
    }

    /// Sends a message; waits until `deadline` in nanoseconds at most, or as long as it takes. A
    /// point of cancellation if it has to wait. Switches.
    ///
    /// # Errors
    /// [`TransferError`].
    ///
    /// # Safety
    /// There is a message at `from`.
    pub unsafe fn send(&self, from: *const u8, deadline: Option<u64>) -> Result<(), TransferError> {
        match deadline {
            // SAFETY: passed on.
            None => unsafe { self.0.send(from) },
            // SAFETY: passed on.
            Some(deadline) => unsafe { self.0.send_until(from, deadline) },
        }
    }

    /// Receives a message if that can be done at once.
    ///
    /// # Errors
    /// [`TransferError`].
    ///
    /// # Safety
    /// There is a place for a message at `into`.
    #[inline]
    pub unsafe fn try_recv(&self, into: *mut u8) -> Result<(), TransferError> {
        // SAFETY: passed on.
        if unsafe { self.0.pop_fast(into) } {
            return Ok(());
        }
        // SAFETY: passed on.
        unsafe { self.0.try_receive(into) }
    }

    /// Receives a message; waits until `deadline` in nanoseconds at most, or as long as it takes. A
    /// point of cancellation if it has to wait. Switches.
    ///
    /// # Errors
    /// [`TransferError`].
    ///
    /// # Safety
    /// There is a place for a message at `into`.
    pub unsafe fn recv(&self, into: *mut u8, deadline: Option<u64>) -> Result<(), TransferError> {
        match deadline {
            // SAFETY: passed on.
            None => unsafe { self.0.receive(into) },
            // SAFETY: passed on.
            Some(deadline) => unsafe { self.0.receive_until(into, deadline) },
        }
    }

    /// Sends the first of `count` messages, as many as can be sent without waiting. Returns how
    /// many.
    ///
    /// # Errors
    /// That it is closed, if none was sent.
    ///
    /// # Safety
    /// There are so many messages at `from`.
    pub unsafe fn try_send_many(
        &self,
        from: *const u8,
        count: usize,
    ) -> Result<usize, TransferError> {
        self.many(
            count,
            |done| {
                let from = from.wrapping_add(done * self.size());
                // SAFETY: passed on.
                wait::undisturbed(|served| unsafe { self.0.give_some(from, count - done, served) })
            },
            |done| {
                // SAFETY: passed on.
                unsafe { self.0.try_send(from.wrapping_add(done * self.size())) }
            },
        )
    }

    /// Receives up to `count` messages, as many as are there. Returns how many.
    ///
    /// # Errors
    /// That it is closed, if none was there.
    ///
    /// # Safety
    /// There are places for so many messages at `into`.
    pub unsafe fn try_recv_many(
        &self,
        into: *mut u8,
        count: usize,
    ) -> Result<usize, TransferError> {
        self.many(
            count,
            |done| {
                let into = into.wrapping_add(done * self.size());
                // SAFETY: passed on.
                wait::undisturbed(|served| unsafe { self.0.take_some(into, count - done, served) })
            },
            |done| {
                // SAFETY: passed on.
                unsafe { self.0.try_receive(into.wrapping_add(done * self.size())) }
            },
        )
    }

    /// Small messages by `some`, large ones by `one`, until `count` are done or no more can be.
    fn many(
        &self,
        count: usize,
        some: impl Fn(usize) -> Result<usize, TransferError>,
        one: impl Fn(usize) -> Result<(), TransferError>,
    ) -> Result<usize, TransferError> {
        let mut done = 0;
        while done < count {
            let next = if self.0.layout.is_large() {
                one(done).map(|()| 1)
            } else {
                some(done)
            };
            match next {
                Ok(more) if more > 0 => done += more,
                Err(TransferError::Closed) if done == 0 => return Err(TransferError::Closed),
                _ => break,
            }
        }
        Ok(done)
    }

    /// Sending as an operation, beside others.
    ///
    /// # Safety
    /// There is a message at `from` as long as the operation is used.
    pub unsafe fn sending(&self, from: *const u8) -> Selected<'_> {
        Selected::new(self, TransferKind::Send, from.expose_provenance())
    }

    /// Receiving as an operation, beside others.
    ///
    /// # Safety
    /// There is a place for a message at `into` as long as the operation is used.
    pub unsafe fn receiving(&self, into: *mut u8) -> Selected<'_> {
        Selected::new(self, TransferKind::Receive, into.expose_provenance())
    }
}

#[derive(Clone, Copy)]
enum TransferKind {
    Send,
    Receive,
}

/// Sends or receives a message, when it is selected.
pub struct Selected<'a> {
    tube: &'a Tube,
    kind: TransferKind,
    message: usize,
    place: Place,
    takes_part: Cell<bool>,
    is_closed: Cell<bool>,
}

impl<'a> Selected<'a> {
    fn new(tube: &'a Tube, kind: TransferKind, message: usize) -> Selected<'a> {
        Selected {
            tube,
            kind,
            message,
            place: Place::new(),
            takes_part: Cell::new(true),
            is_closed: Cell::new(false),
        }
    }

    /// Whether it can be selected; at first it can.
    pub fn take_part(&self, takes_part: bool) {
        self.takes_part.set(takes_part);
    }
}

impl OperationParts for Selected<'_> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        match self.kind {
            _ if !self.takes_part.get() => None,
            TransferKind::Send => Some(self.tube.0.sending()),
            TransferKind::Receive => Some(self.tube.0.receiving()),
        }
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn note(&self) -> usize {
        self.message
    }

    fn finish(&self, note: usize) -> bool {
        self.is_closed.set(note == NO_MORE);
        note != TRY
    }
}

impl Operation for Selected<'_> {
    type Output = Result<(), TransferError>;

    /// Called once the operation was selected.
    fn outcome(&mut self) -> Result<(), TransferError> {
        if self.is_closed.get() {
            Err(TransferError::Closed)
        } else {
            Ok(())
        }
    }
}

impl fmt::Debug for Tube {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tube")
            .field("size", &self.size())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Selected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Selected").finish_non_exhaustive()
    }
}
