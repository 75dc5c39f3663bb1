//! Trimming: the memory of stacks that have not been used for a while goes back to the kernel.
//!
//! Of a stack that was used, the last page stays, since it holds the descriptor, which must keep
//! its value for ever. The other pages go. Each second the watch of some runtime counts how many of
//! the free stacks, those of all runtimes, have not been needed since the last count. It trims as
//! many, some at a time. A runtime whose servers all sleep is woken for that once a second, until
//! there is nothing more to trim.
//!
//! The stacks that servers keep for themselves stay with them: some hundred each.

use super::registry;
use crate::rt::base::clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use umcg_core::context::stack;

/// Time between two counts.
const INTERVAL: u64 = 1_000_000_000;
/// Time between two portions while there is something to trim.
const SOON: u64 = 10_000_000;
/// How many stacks are trimmed at a time, which takes a few milliseconds.
const PORTION: usize = 4096;

/// When a watch is to count again. One word serves all watches: each count begins a new interval.
static COUNT_AT: AtomicU64 = AtomicU64::new(0);

/// A watch's part in trimming.
pub(super) struct Trimmer {
    /// How many stacks may be trimmed.
    surplus: usize,
}

impl Trimmer {
    pub(super) fn new() -> Trimmer {
        Trimmer { surplus: 0 }
    }

    /// When the trimmer has something to do; never, if no stack is free.
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

    /// Does a small part of the work.
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

/// Gives the memory of all stacks that no worker has back to the kernel. Returns the number of
/// these stacks. Servers hand over the stacks that they keep, unless they run one worker without
/// end just then. Runtimes also trim by themselves, a second or so after stacks were last needed,
/// but then each server keeps some hundred stacks.
///
/// Can be called from anywhere. Waits for servers, for some milliseconds, without parking.
///
/// ```
/// umcg::spawn(|| ()).join().unwrap();
/// println!("{} stacks", umcg::rt::trim());
/// ```
pub fn trim() -> usize {
    registry::each_runtime(|shared| shared.gather_spares());
    stack::trim(usize::MAX)
}
