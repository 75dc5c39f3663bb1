//! Why an adopted thread that is away has to come home.
//!
//! Any party adds a reason. The worker looks as it leaves the hook and when it is preempted, and
//! takes all reasons once it is home. One that is added while it is at home is for its next
//! absence, which then ends at once: at home nobody can tell whether it is just leaving.

use crate::base::sync::AtomicU32;
use std::sync::atomic::Ordering::*;

#[derive(Clone, Copy)]
#[repr(u32)]
pub(super) enum HomeReason {
    /// The home has found a signal that the worker lets through: the worker is *called*.
    Signal = 1,
    /// Another thread of the process has sent it a signal. That finds it anyway, but takes its
    /// time. Natively it is pending as soon as the call that sends it has returned: whatever the
    /// sender does next is seen after the handler has run.
    Sent = 2,
    /// Its page faults keep servers. See [`stay`](super::stay).
    Faults = 4,
    /// It is left to the kernel from now on. See [`stay`](super::stay).
    Native = 8,
}

/// Bits of [`HomeReason`].
pub(super) struct Summons(AtomicU32);

impl Summons {
    pub(super) fn new() -> Summons {
        Summons(AtomicU32::new(0))
    }

    /// Whether there is a reason.
    #[inline(always)]
    pub(super) fn is_any(&self) -> bool {
        self.0.load(Relaxed) != 0
    }

    pub(super) fn has(&self, reason: HomeReason) -> bool {
        self.0.load(Relaxed) & reason as u32 != 0
    }

    pub(super) fn add(&self, reason: HomeReason) {
        // ORDERING(summons.1): Release, pairs with summons.2 by way of the word that the caller
        // changes next: if the worker sees that, it sees this.
        self.0.fetch_or(reason as u32, Release);
    }

    /// The worker is home. True if it is to stay there.
    pub(super) fn answer(&self) -> bool {
        // ORDERING(summons.2): Acquire, pairs with summons.1.
        let stays = HomeReason::Faults as u32 | HomeReason::Native as u32;
        self.0.swap(0, Acquire) & stays != 0
    }

    /// The worker is another thread's from now on.
    pub(super) fn forget(&self) {
        self.0.store(0, Relaxed);
    }
}
