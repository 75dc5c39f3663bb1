//! Waiters that are in no frame, and whose owner is called when they were served: a future's, which
//! is polled when its executor likes and may be dropped at any time.
//!
//! - C1: the waiter stands in one queue at a time, with an object whose [`Queued::called`] runs
//!   when it was served. It is claimed under the queue's lock, as any other (W1).
//! - C2: no task knows of it. Only its owner revokes it, by taking it out of the queue under the
//!   lock. If it is not there any more, it was claimed, and its owner will be called.
//! - C3: the memory of waiter, place and object stays until it was revoked or called. That memory
//!   is not in a frame, because an owner may be forgotten.
//!
//! `called` runs where waiters are resumed: not under a lock. It must neither wait nor switch, nor
//! run code of the program.

use super::{Place, Queued, Waiter, WaiterKind};
use crate::rt::task::Handle;

impl Waiter {
    /// A waiter whose owner is called.
    pub(crate) fn to_be_called() -> Waiter {
        let waiter = Waiter::new(Handle::current().task(), false, u64::MAX, true);
        waiter.kind.set(WaiterKind::Called);
        waiter
    }

    /// Prepares the waiter to stand at this place, in a single queue.
    ///
    /// # Safety
    /// All three stay where they are for as long as C3 says.
    pub(crate) unsafe fn stand<Q: Queued>(&self, object: *const Q, place: &Place, note: usize) {
        let object: *const (dyn Queued + '_) = object;
        // SAFETY: only the lifetime in the type changes.
        let object: *const (dyn Queued + 'static) = unsafe { std::mem::transmute(object) };
        place.begin(self, 0, note);
        self.single.set(Some((object, place)));
    }

    /// From here on it has no owner: the message that it stands there with is to be taken, whatever
    /// becomes of the queue.
    pub(crate) fn disown(&self) {
        self.kind.set(WaiterKind::Ownerless);
    }

    pub(super) fn call(&self) {
        if let Some((object, _)) = self.single.get() {
            // SAFETY: it stays until it was called (C3).
            unsafe { &*object }.called();
        }
    }
}

impl Place {
    /// Whether the owner of the waiter is called. The caller holds the queue's lock.
    pub(crate) fn is_called(&self) -> bool {
        self.waiter().kind.get() == WaiterKind::Called
    }

    /// Whether the waiter here has no owner. Likewise.
    pub(crate) fn is_ownerless(&self) -> bool {
        self.waiter().kind.get() == WaiterKind::Ownerless
    }

    /// The object of a waiter that is called. The caller holds the lock of the queue in which it
    /// stands.
    pub(crate) fn object(&self) -> Option<*const dyn Queued> {
        Some(self.waiter().single.get()?.0)
    }

    fn waiter(&self) -> &Waiter {
        // SAFETY: as in `claim`.
        unsafe { &*self.waiter.get() }
    }
}
