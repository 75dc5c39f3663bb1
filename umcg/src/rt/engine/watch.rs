//! The word of a runtime's watch: the watch sleeps on it, and other threads wake it.

use super::lack::Lack;
use super::poller::Poller;
use crate::rt::base::clock;
use rustix::thread::futex::{self, Flags};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;
use umcg_core::asymmetric;

/// The watch looks at the servers from time to time.
const AWAKE: u32 = 0;
/// The watch sleeps until it is roused.
const ASLEEP: u32 = 1;
const OVER: u32 = 2;
/// The watch is to look at once.
const HURRIED: u32 = 3;

pub(crate) struct Watch {
    word: AtomicU32,
    pub(crate) preemption: Option<u64>,
    /// The lack of helpers when the runtime was made.
    lack: Lack,
}

impl Watch {
    pub(crate) fn new(preemption: Option<Duration>) -> Watch {
        let preemption =
            preemption.map(|interval| u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
        Watch {
            word: AtomicU32::new(AWAKE),
            preemption,
            lack: Lack::new(),
        }
    }

    /// The lack of helpers, before the watch looks for the first time.
    pub(crate) fn lack(&self) -> Lack {
        self.lack
    }

    /// The interval of preemption in nanoseconds; 0 for none.
    pub(crate) fn preemption(&self) -> u64 {
        self.preemption.unwrap_or(0)
    }

    /// The calling server sleeps no longer, so the watch must stay awake.
    #[inline]
    pub(crate) fn stay_awake(&self) {
        asymmetric::light();
        if self.word.load(Relaxed) == ASLEEP {
            self.rouse();
        }
    }

    #[cold]
    fn rouse(&self) {
        if self
            .word
            .compare_exchange(ASLEEP, AWAKE, Relaxed, Relaxed)
            .is_ok()
        {
            let _ = futex::wake(&self.word, Flags::PRIVATE, 1);
        }
    }

    /// Makes the watch look at once. Call it where a worker is to preempt itself: it cannot do so
    /// inside the library.
    #[cold]
    pub(crate) fn look_now(&self, driver: &dyn Poller) {
        // ORDERING(hurried.1): Release, pairs with hurried.2: the watch sees which worker is to be
        // preempted.
        let _ = self
            .word
            .fetch_update(Release, Relaxed, |word| (word != OVER).then_some(HURRIED));
        let _ = futex::wake(&self.word, Flags::PRIVATE, 1);
        if driver.has_sources() {
            driver.wake(); // the watch may be polling it
        }
    }

    /// The watch begins to look. A thread that hurries it from now on makes it look again.
    pub(crate) fn begin(&self) {
        // ORDERING(hurried.2): Acquire, pairs with hurried.1.
        let _ = self.word.compare_exchange(HURRIED, AWAKE, Acquire, Relaxed);
    }

    pub(crate) fn end(&self) {
        self.word.store(OVER, Relaxed);
        let _ = futex::wake(&self.word, Flags::PRIVATE, 1);
    }

    /// Whether the watch is to look at once, or to end.
    pub(crate) fn is_called(&self) -> bool {
        self.word.load(Relaxed) != AWAKE
    }

    pub(crate) fn is_over(&self) -> bool {
        self.word.load(Relaxed) == OVER
    }

    /// Sleeps for `nanoseconds`, or until the end.
    pub(crate) fn sleep(&self, nanoseconds: u64) {
        self.sleep_while(AWAKE, clock::now() + nanoseconds);
    }

    /// If all servers still sleep: sleeps until it is roused, or until `deadline`.
    pub(crate) fn sleep_while_all(&self, are_asleep: impl FnOnce() -> bool, deadline: u64) {
        if self
            .word
            .compare_exchange(AWAKE, ASLEEP, Relaxed, Relaxed)
            .is_err()
        {
            return;
        }
        asymmetric::heavy();
        if are_asleep() {
            self.sleep_while(ASLEEP, deadline);
        }
        let _ = self.word.compare_exchange(ASLEEP, AWAKE, Relaxed, Relaxed);
    }

    fn sleep_while(&self, word: u32, deadline: u64) {
        let _ = futex::wait_bitset(
            &self.word,
            Flags::PRIVATE,
            word,
            clock::timespec(deadline).as_ref(),
            NonZeroU32::MAX,
        );
    }
}
