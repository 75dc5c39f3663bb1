//! Messages in place, by their addresses: what [`guards`](super::super::guards) are where there are none.
//!
//! A large message lies in the tube's store, as there. A small one, and a large one of a tube that has no store, lies in memory of its own.

use super::{ALIGN, Refused, Tube};
use crate::rt::wait;
use crate::tube::layout::Layout;
use std::alloc;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Why there is no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPlace {
    /// Nothing can be sent or received, or not now.
    Refused(Refused),
    /// There is no memory for one.
    NoMemory,
}

impl From<Refused> for NoPlace {
    fn from(why: Refused) -> NoPlace {
        NoPlace::Refused(why)
    }
}

/// Memory for one message.
struct Own {
    at: NonNull<u8>,
    layout: alloc::Layout,
}

impl Own {
    fn layout(tube: &Tube) -> Option<alloc::Layout> {
        // One without bytes has an address, too.
        alloc::Layout::from_size_align(tube.size().max(1), ALIGN).ok()
    }

    fn new(tube: &Tube) -> Result<Own, NoPlace> {
        let layout = Own::layout(tube).ok_or(NoPlace::NoMemory)?;
        // SAFETY: not of size 0.
        let at = NonNull::new(unsafe { alloc::alloc(layout) }).ok_or(NoPlace::NoMemory)?;
        Ok(Own { at, layout })
    }

    fn into_raw(self) -> *mut u8 {
        ManuallyDrop::new(self).at.as_ptr()
    }

    /// # Safety
    /// It came from `into_raw` of one for this tube, once.
    unsafe fn from_raw(tube: &Tube, at: *mut u8) -> Option<Own> {
        Some(Own { at: NonNull::new(at)?, layout: Own::layout(tube)? })
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // SAFETY: allocated so.
        unsafe { alloc::dealloc(self.at.as_ptr(), self.layout) };
    }
}

impl Tube {
    /// Takes room for a message; waits until `deadline` in nanoseconds at most, or as long as it takes. Returns where it is to be written, before [`commit`](Tube::commit). A point of cancellation if it has to wait. Switches.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn reserve(&self, deadline: Option<u64>) -> Result<*mut u8, NoPlace> {
        self.reserve_by(|| self.0.reserve(deadline.unwrap_or(u64::MAX)))
    }

    /// The same if nobody has to wait for that.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn try_reserve(&self) -> Result<*mut u8, NoPlace> {
        self.reserve_by(|| self.0.try_reserve())
    }

    fn reserve_by(&self, reserve: impl FnOnce() -> Result<usize, Refused>) -> Result<*mut u8, NoPlace> {
        let own = if self.0.layout.is_large() { None } else { Some(Own::new(self)?) };
        let slot = reserve()?;
        Ok(own.map_or_else(|| self.0.at(slot), Own::into_raw))
    }

    /// Sends the message. Does not wait. The place is used up in any case.
    ///
    /// # Errors
    /// [`Refused::Closed`].
    ///
    /// # Safety
    /// The place came from `reserve`, and is used up by this; there is a message.
    pub unsafe fn commit(&self, at: *mut u8) -> Result<(), Refused> {
        // SAFETY: passed on. Before it is sent: after that the tube may be gone.
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
        Err(Refused::Closed)
    }

    /// Sends nothing, and gives the room back.
    ///
    /// # Safety
    /// The place came from `reserve`, and is used up by this.
    pub unsafe fn unreserve(&self, at: *mut u8) {
        // SAFETY: passed on.
        let (slot, _own) = unsafe { self.take_back(at) };
        wait::undisturbed(|served| self.0.release(slot.unwrap_or(0), served));
    }

    /// The place's number, or its own memory.
    ///
    /// # Safety
    /// It came from this tube, and is used up by this.
    unsafe fn take_back(&self, at: *mut u8) -> (Option<usize>, Option<Own>) {
        match self.slot(at) {
            // SAFETY: passed on.
            None => (None, unsafe { Own::from_raw(self, at) }),
            slot => (slot, None),
        }
    }

    /// Receives a message where it lies; waits until `deadline` in nanoseconds at most, or as long as it takes. A point of cancellation if it has to wait. Switches.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn recv_ref(&self, deadline: Option<u64>) -> Result<*mut u8, NoPlace> {
        let deadline = deadline.unwrap_or(u64::MAX);
        if self.has_places() {
            return Ok(self.0.at(self.0.receive_slot(deadline)?));
        }
        let own = Own::new(self)?;
        // SAFETY: a place for one.
        unsafe { self.0.receive_until(own.at.as_ptr(), deadline) }?;
        Ok(own.into_raw())
    }

    /// The same if nobody has to wait for that.
    ///
    /// # Errors
    /// [`NoPlace`].
    pub fn try_recv_ref(&self) -> Result<*mut u8, NoPlace> {
        if self.has_places() {
            return Ok(self.0.at(self.0.try_receive_slot()?));
        }
        let own = Own::new(self)?;
        // SAFETY: a place for one.
        unsafe { self.0.try_receive(own.at.as_ptr()) }?;
        Ok(own.into_raw())
    }

    /// The message has been read: its place is free again.
    ///
    /// # Safety
    /// The place came from `recv_ref`, and is used up by this.
    pub unsafe fn recv_done(&self, at: *mut u8) {
        // SAFETY: passed on.
        let (slot, _own) = unsafe { self.take_back(at) };
        if let Some(slot) = slot {
            wait::undisturbed(|served| self.0.release(slot, served));
        }
    }

    /// Whether this can be the address of a message in place.
    pub fn may_be_place(&self, at: *const u8) -> bool {
        !at.is_null() && (!self.has_places() || self.slot(at).is_some())
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
