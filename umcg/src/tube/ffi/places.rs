//! Messages in place, by their addresses: the counterpart of [`guards`](super::super::guards) for
//! C, which has no guards.
//!
//! A large message lies in the tube's store, as with guards. A small one, and a large one of a tube
//! that has no store, lies in memory of its own.
//!
//! The tube knows which places are in use, and for which purpose ([`PlacesInUse`]): C may name any
//! address, or one twice.

use super::{ALIGN, TransferError, Tube};
use crate::rt::sync::HoldLock;
use crate::rt::wait;
use crate::tube::layout::Layout;
use std::alloc;
use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ptr::{NonNull, with_exposed_provenance_mut};

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// Nothing can be sent or received, or not now.
    Refused(TransferError),
    /// There is no memory for one.
    NoMemory,
}

impl From<TransferError> for NoPlace {
    fn from(why: TransferError) -> NoPlace {
        NoPlace::Refused(why)
    }
}

/// The purpose for which a place is in use.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// To be filled: until `commit` or `unreserve`.
    Sending,
    /// To be read: until `recv_done`.
    Receiving,
}

/// The addresses of the places that are in use.
pub(super) struct PlacesInUse(HoldLock<BTreeMap<usize, Use>>);

impl PlacesInUse {
    pub(super) const fn new() -> PlacesInUse {
        PlacesInUse(HoldLock::new(BTreeMap::new()))
    }

    fn begin(&self, at: *mut u8, used: Use) -> *mut u8 {
        self.0.lock().insert(at.expose_provenance(), used);
        at
    }

    /// Ends the use of the place at this address. None if it is not in use for this purpose.
    fn end(&self, at: usize, used: Use) -> Option<*mut u8> {
        let mut places = self.0.lock();
        if places.get(&at) != Some(&used) {
            return None;
        }
        places.remove(&at);
        Some(with_exposed_provenance_mut(at))
    }
}

/// Why a message was not sent from its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotSent {
    /// The tube was closed. The place is used up.
    Closed,
    /// There is no such place, or not any more.
    NoPlace,
}

/// Memory for one message.
struct MessageMemory {
    at: NonNull<u8>,
    layout: alloc::Layout,
}

impl MessageMemory {
    fn layout(tube: &Tube) -> Option<alloc::Layout> {
        // A message without bytes has an address, too.
        alloc::Layout::from_size_align(tube.size().max(1), ALIGN).ok()
    }

    fn new(tube: &Tube) -> Result<MessageMemory, NoPlace> {
        let layout = MessageMemory::layout(tube).ok_or(NoPlace::NoMemory)?;
        // SAFETY: not of size 0.
        let at = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or(NoPlace::NoMemory)?;
        Ok(MessageMemory { at, layout })
    }

    fn into_raw(self) -> *mut u8 {
        ManuallyDrop::new(self).at.as_ptr()
    }

    /// # Safety
    /// It came from `into_raw` of one for this tube, once.
    unsafe fn from_raw(tube: &Tube, at: *mut u8) -> Option<MessageMemory> {
        Some(MessageMemory {
            at: NonNull::new(at)?,
            layout: MessageMemory::layout(tube)?,
        })
    }
}

impl Drop for MessageMemory {
    fn drop(&mut self) {
        // SAFETY: allocated so.
        unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}

impl Tube {
    /// Takes room for a message; waits until `deadline` in nanoseconds at most, or as long as it
    /// takes. Returns where it is to be written, before [`commit`](Tube::commit). A point of
    /// cancellation if it has to wait. Switches.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn reserve(&self, deadline: Option<u64>) -> Result<*mut u8, NoPlace> {
        self.reserve_by(|| self.0.reserve(deadline.unwrap_or(u64::MAX)))
    }

    /// The same if that can be done at once.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn try_reserve(&self) -> Result<*mut u8, NoPlace> {
        self.reserve_by(|| self.0.try_reserve())
    }

    fn reserve_by(
        &self,
        reserve: impl FnOnce() -> Result<usize, TransferError>,
    ) -> Result<*mut u8, NoPlace> {
        let own = if self.0.layout.is_large() {
            None
        } else {
            Some(MessageMemory::new(self)?)
        };
        let slot = reserve()?;
        Ok(self.1.begin(
            own.map_or_else(|| self.0.at(slot), MessageMemory::into_raw),
            Use::Sending,
        ))
    }

    /// Sends the message. Does not wait. The place is used up.
    ///
    /// # Errors
    /// [`NotSent`].
    ///
    /// # Safety
    /// If the place came from `reserve`, there is a message.
    pub unsafe fn commit(&self, at: usize) -> Result<(), NotSent> {
        let at = self.1.end(at, Use::Sending).ok_or(NotSent::NoPlace)?;
        // SAFETY: it was in use until now. Taken back before the message is sent: after that the
        // tube may be gone.
        let (slot, _own) = unsafe { self.take_back(at) };
        let sent = wait::undisturbed(|served| match slot {
            Some(slot) => self.0.commit(slot, served),
            // SAFETY: passed on.
            None => unsafe { self.0.commit_from(at, served) },
        });
        if sent {
            return Ok(());
        }
        wait::undisturbed(|served| self.0.release(slot.unwrap_or(0), served));
        Err(NotSent::Closed)
    }

    /// Sends nothing, and gives the room back. False if there is no such place, or not any more.
    pub fn unreserve(&self, at: usize) -> bool {
        let Some(at) = self.1.end(at, Use::Sending) else {
            return false;
        };
        // SAFETY: it was in use until now.
        let (slot, _own) = unsafe { self.take_back(at) };
        wait::undisturbed(|served| self.0.release(slot.unwrap_or(0), served));
        true
    }

    /// The place's number, or its own memory.
    ///
    /// # Safety
    /// It came from this tube, and is used up by this.
    unsafe fn take_back(&self, at: *mut u8) -> (Option<usize>, Option<MessageMemory>) {
        match self.slot(at) {
            // SAFETY: passed on.
            None => (None, unsafe { MessageMemory::from_raw(self, at) }),
            slot => (slot, None),
        }
    }

    /// Receives a message where it lies; waits until `deadline` in nanoseconds at most, or as long
    /// as it takes. A point of cancellation if it has to wait. Switches.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn recv_ref(&self, deadline: Option<u64>) -> Result<*mut u8, NoPlace> {
        let deadline = deadline.unwrap_or(u64::MAX);
        if self.has_places() {
            return Ok(self
                .1
                .begin(self.0.at(self.0.receive_slot(deadline)?), Use::Receiving));
        }
        let own = MessageMemory::new(self)?;
        // SAFETY: a place for one.
        unsafe { self.0.receive_until(own.at.as_ptr(), deadline) }?;
        Ok(self.1.begin(own.into_raw(), Use::Receiving))
    }

    /// The same if that can be done at once.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn try_recv_ref(&self) -> Result<*mut u8, NoPlace> {
        if self.has_places() {
            return Ok(self
                .1
                .begin(self.0.at(self.0.try_receive_slot()?), Use::Receiving));
        }
        let own = MessageMemory::new(self)?;
        // SAFETY: a place for one.
        unsafe { self.0.try_receive(own.at.as_ptr()) }?;
        Ok(self.1.begin(own.into_raw(), Use::Receiving))
    }

    /// The message has been read: its place is free again. False if there is no such place, or not
    /// any more.
    pub fn recv_done(&self, at: usize) -> bool {
        let Some(at) = self.1.end(at, Use::Receiving) else {
            return false;
        };
        // SAFETY: it was in use until now.
        let (slot, _own) = unsafe { self.take_back(at) };
        if let Some(slot) = slot {
            wait::undisturbed(|served| self.0.release(slot, served));
        }
        true
    }

    /// Whether messages in place lie in the store.
    fn has_places(&self) -> bool {
        self.0.layout.is_large() && self.capacity() > 0
    }

    /// The number of the place in the store, if messages have one.
    fn slot(&self, at: *const u8) -> Option<usize> {
        if !self.has_places() {
            return None;
        }
        let bytes = at.addr().wrapping_sub(self.0.at(0).addr());
        Some(bytes / self.size()).filter(|slot| bytes % self.size() == 0 && *slot < self.capacity())
    }
}
