//! The request to take a worker that is [stuck](super::stuck) off its server.
//!
//! One thread, the looker, makes requests, and settles those of which nothing came. The handler of
//! the tick takes them, on the kernel thread that the worker is stuck on.
//!
//! - *A helper is noted before the turn.* So the handler that takes the request finds it.
//! - *A helper that is noted has one owner*: the party that clears the note. That is the handler
//!   while the turn lasts, and the looker when it is over. The handler clears it only once nothing
//!   can keep the worker from leaving.
//!
//! Model: `umcg-core/tests/model/taken_off`.

use crate::base::sync::{AtomicBool, AtomicU64};
use std::sync::atomic::Ordering::Relaxed;

/// No request.
const NONE: u64 = u64::MAX;

pub(super) struct StuckRequest {
    /// The turn in which the worker is stuck, or [`NONE`].
    turn: AtomicU64,
    /// A helper is reserved for that worker.
    has_helper: AtomicBool,
}

impl StuckRequest {
    pub(super) const fn new() -> StuckRequest {
        StuckRequest {
            turn: AtomicU64::new(NONE),
            has_helper: AtomicBool::new(false),
        }
    }

    /// The looker asks for the worker of this turn.
    pub(super) fn ask(&self, turn: u64) {
        self.turn.store(turn, Relaxed);
    }

    /// Whether the worker of this turn is to be taken off. True once. The handler's.
    pub(super) fn take(&self, turn: u64) -> bool {
        self.turn.load(Relaxed) == turn && {
            self.turn.store(NONE, Relaxed);
            true
        }
    }

    /// Whether the handler will take the request no more, as its turn is over: now it is this one,
    /// in which a worker `runs` or not. False while the handler carries the request out. The
    /// looker's.
    pub(super) fn is_over(&self, turn: u64, runs: bool) -> bool {
        let asked = self.turn.load(Relaxed);
        asked != NONE && (asked != turn || !runs)
    }

    pub(super) fn has_helper(&self) -> bool {
        self.has_helper.load(Relaxed)
    }

    /// The looker has reserved a helper.
    pub(super) fn add_helper(&self) {
        self.has_helper.store(true, Relaxed);
    }

    /// Takes the helper, if there is one.
    pub(super) fn take_helper(&self) -> bool {
        self.has_helper.swap(false, Relaxed)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_over_with_its_turn() {
        let request = StuckRequest::new();
        assert!(!request.is_over(0, false));
        request.ask(7);
        assert!(!request.is_over(7, true));
        assert!(request.is_over(7, false) && request.is_over(8, true));
        // The handler has it.
        assert!(!request.take(8) && request.take(7) && !request.take(7));
        assert!(!request.is_over(7, true) && !request.is_over(8, false));
    }
}
