//! Messages that come back: received by a future, and dropped with it before it was polled. They come before all others.

use super::core::{Core, Locked, RECEIVERS};
use super::layout::Layout;
use crate::rt::wait::ClaimedList;

impl<L: Layout> Core<L> {
    /// Puts a message back that was received by its address: to the first who waits, or into the ring. The lock if there is no room for it: then a message is there that is to be the first of those that
    /// wait to be sent, which may be another one by then.
    ///
    /// # Safety
    /// As [`Layout::copy`]. The messages are small, or there is no ring.
    pub(super) unsafe fn put_back<'a>(
        &'a self,
        mut locked: Locked<'a, L>,
        message: *mut u8,
        served: &mut ClaimedList,
    ) -> Result<(), Locked<'a, L>> {
        let receiver = if locked.word & RECEIVERS != 0 { locked.claim_receiver() } else { None };
        if let Some(receiver) = receiver {
            // SAFETY: passed on.
            unsafe { self.hand_over(locked, message, &receiver) };
            served.push(receiver);
            return Ok(());
        }
        // SAFETY: passed on.
        if !unsafe { locked.push_front(message) } {
            return Err(locked);
        }
        locked.unlock();
        Ok(())
    }

    /// Puts a message back with the place in which it was received: to the first who waits, or into the ring.
    pub(super) fn put_back_slot(&self, locked: Locked<'_, L>, slot: usize, served: &mut ClaimedList) {
        self.commit_locked(locked, slot, Locked::push_slot_front, served);
    }
}
