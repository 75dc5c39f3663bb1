//! Counts of the guests' waits, wake-ups and ways, for `umcg run --stats`.
//!
//! A guest counts in its own state, by a load and a store. The counts of threads that have ended
//! stay with their states, which are reused and never freed.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The kinds of counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum CountKind {
    /// Waits for private words.
    Wait,
    /// Wake-ups of private words.
    Wake,
    /// Sleeps and yields in user mode.
    Pause,
    /// Calls that were tried in place, and done.
    InPlace,
    /// Ways home, for a call or a signal.
    Home,
    /// Threads that were made.
    Thread,
}

/// How many kinds there are.
pub(super) const KINDS: usize = 6;

/// The counts of one guest.
#[derive(Debug, Default)]
pub(super) struct Counts([AtomicU64; KINDS]);

impl Counts {
    /// Counts one more, and returns how many there were. Called by the guest itself.
    #[inline(always)]
    pub(super) fn count(&self, counted: CountKind) -> u64 {
        let count = &self.0[counted as usize];
        let before = count.load(Relaxed);
        count.store(before + 1, Relaxed);
        before
    }

    /// The counts as they are just now.
    pub(super) fn load(&self) -> [u64; KINDS] {
        self.0.each_ref().map(|count| count.load(Relaxed))
    }
}
