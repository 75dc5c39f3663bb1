//! A server's turns: how many it makes before it checks timers and files, and how many it has made.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// How many workers a server runs between two checks of timers and files.
pub(crate) const INTERVAL: u32 = 64;

/// Written by its server only, except where functions say otherwise.
pub(crate) struct Countdown {
    /// Turns until the next check.
    left: AtomicU32,
    /// The turns until then, since the server began.
    planned: AtomicU64,
}

impl Countdown {
    pub(crate) fn new() -> Countdown {
        Countdown {
            left: AtomicU32::new(INTERVAL),
            planned: AtomicU64::new(u64::from(INTERVAL)),
        }
    }

    /// Whether the server is to check now.
    #[inline(always)]
    pub(crate) fn is_over(&self) -> bool {
        self.left.load(Relaxed) == 0
    }

    /// A turn begins.
    #[inline(always)]
    pub(crate) fn count(&self) {
        self.left
            .store(self.left.load(Relaxed).saturating_sub(1), Relaxed);
    }

    /// The server checks, and goes on for an interval.
    pub(crate) fn restart(&self) {
        self.plan(i64::from(INTERVAL));
        self.left.store(INTERVAL, Relaxed);
    }

    /// The server is to check before its next turn.
    pub(crate) fn end(&self) {
        self.plan(-i64::from(self.left.load(Relaxed)));
        self.left.store(0, Relaxed);
    }

    /// The same, called by another thread. It may be lost, and the turns that are left out count as
    /// made.
    pub(crate) fn end_from_outside(&self) {
        self.left.store(0, Relaxed);
    }

    fn plan(&self, turns: i64) {
        let planned = self.planned.load(Relaxed).wrapping_add_signed(turns);
        self.planned.store(planned, Relaxed);
    }

    /// How many turns the server has made, or will have by its next check. Called by any thread.
    pub(crate) fn turns(&self) -> u64 {
        self.planned.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_an_early_check_leaves_out_are_not_counted() {
        let countdown = Countdown::new();
        (0..INTERVAL).for_each(|_| countdown.count());
        assert!(countdown.is_over());
        assert_eq!(countdown.turns(), u64::from(INTERVAL));
        countdown.restart();
        countdown.count();
        countdown.end();
        assert!(countdown.is_over());
        assert_eq!(countdown.turns(), u64::from(INTERVAL) + 1);
        // It is over already.
        countdown.end();
        assert_eq!(countdown.turns(), u64::from(INTERVAL) + 1);
    }
}
