//! Memory that goes back to the kernel: that of stacks which nobody has used for a while.
//!
//! Of a stack that was used the last page stays, with the descriptor, which is to stay what it is
//! for ever; the others go. Each second the watch of some runtime counts how many of the free
//! stacks were of no use since the last time, which are those of all runtimes, and trims as many,
//! some at a time. A runtime whose servers all sleep is woken for that once a second, until
//! there is nothing more to trim.
//!
//! What servers keep for themselves stays with them: some hundred stacks each.

use super::registry;
use crate::rt::base::clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use umcg_core::context::stack;

/// Between two counts.
const INTERVAL: u64 = 1_000_000_000;
/// While there is something to trim.
const SOON: u64 = 10_000_000;
/// How many at a time, for a few milliseconds.
const PORTION: usize = 4096;

/// When a watch is to count again. One does for all: each count begins a new interval.
static COUNT_AT: AtomicU64 = AtomicU64::new(0);

/// What the watch knows of it.
pub(super) struct Trimmer {
    /// So many may be trimmed.
    surplus: usize,
}

impl Trimmer {
    pub(super) fn new() -> Trimmer {
        Trimmer { surplus: 0 }
    }

    /// When it has something to do; never, if nothing is free.
    pub(super) fn next(&self) -> u64 {
        if self.surplus > 0 {
            return clock::now() + SOON;
        }
        if stack::may_be_trimmed() {
            COUNT_AT.load(Relaxed)
        } else {
            u64::MAX
        }
    }

    /// Does a little of what is to be done.
    pub(super) fn go_on(&mut self) {
        let (now, at) = (clock::now(), COUNT_AT.load(Relaxed));
        if now >= at
            && COUNT_AT
                .compare_exchange(at, now + INTERVAL, Relaxed, Relaxed)
                .is_ok()
        {
            self.surplus = stack::surplus();
        }
        if self.surplus > 0 {
            let portion = self.surplus.min(PORTION);
            let done = stack::trim(portion);
            self.surplus = if done < portion {
                0
            } else {
                self.surplus - done
            };
        }
    }
}

/// Gives the kernel back the memory of all stacks that no worker has. Returns how many stacks that
/// was. Servers hand over what they keep for themselves, unless they run one worker without end
/// just then. By themselves runtimes do that a second or so after stacks were of use last, but for
/// those some hundred a server.
///
/// Called from anywhere. Waits for servers, for some milliseconds, without parking.
///
/// ```
/// umcg::spawn(|| ()).join().unwrap();
/// println!("{} stacks", umcg::rt::trim());
/// ```
pub fn trim() -> usize {
    registry::each_runtime(|shared| shared.gather_spares());
    stack::trim(usize::MAX)
}
