//! The lack of helper threads: blocking workers count it, and watches report it.

use super::stalls::{PATIENCE, Stall, StallCause, StallPolicy};
use crate::rt::base::clock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::*};
use std::time::Duration;

/// How often a helper has been made beyond the bound, or could not be made. The other two words:
/// how many helpers there were then, and how many workers waited.
static EXCEEDED: AtomicU64 = AtomicU64::new(0);
static HELPERS: AtomicUsize = AtomicUsize::new(0);
static WAITING: AtomicUsize = AtomicUsize::new(0);
/// The time for which no helper came back (`raw::set_helpers`).
const WAITED: Duration = Duration::from_millis(10);

/// Called when a helper was made beyond the bound, or none could be made.
pub(crate) fn note(helpers: usize, workers: usize) {
    HELPERS.store(helpers, Relaxed);
    WAITING.store(workers, Relaxed);
    // ORDERING(exceeded.1): Release, pairs with exceeded.2: the numbers are those of this lack, or
    // of a later one.
    EXCEEDED.fetch_add(1, Release);
}

/// The lack of helpers, as one watch has seen it up to now.
#[derive(Clone, Copy)]
pub(crate) struct Lack {
    exceeded: u64,
    /// When the watch last saw a lack.
    seen: Option<u64>,
}

impl Lack {
    /// A lack that came before the runtime does not concern it. So this is made with the runtime,
    /// and not by the watch's thread, which begins later.
    pub(crate) fn new() -> Lack {
        Lack {
            exceeded: EXCEEDED.load(Relaxed),
            seen: None,
        }
    }

    /// Whether there is a lack that has not been reported.
    fn is_new(&mut self) -> bool {
        // ORDERING(exceeded.2): Acquire, pairs with exceeded.1.
        let exceeded = EXCEEDED.load(Acquire);
        if std::mem::replace(&mut self.exceeded, exceeded) == exceeded {
            return false;
        }
        let now = clock::now();
        let before = self.seen.replace(now);
        before.is_none_or(|before| now - before >= PATIENCE.as_nanos() as u64)
    }

    /// Reports the lack of helpers if it has not been reported.
    pub(crate) fn look(&mut self, runtime: &str, stalls: &StallPolicy) {
        if self.is_new() && stalls.tells_of_helpers() {
            let cause = StallCause::NoHelper {
                helpers: HELPERS.load(Relaxed),
                workers: WAITING.load(Relaxed),
            };
            let (runtime, name) = (runtime.to_owned(), String::new());
            let lasted = if matches!(cause, StallCause::NoHelper { workers: 0, .. }) {
                Duration::ZERO
            } else {
                WAITED
            };
            let stall = Stall {
                runtime,
                server: None,
                worker: None,
                name,
                lasted,
                cause,
            };
            stalls.tell(&stall, "helpers");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_before_the_watch_looks_first_is_its_to_tell() {
        let mut lack = Lack::new();
        note(1, 1);
        assert!(lack.is_new());
    }
}
