//! The servers that sleep and that search, and how one is woken. The protocol is described in
//! `idle`.

use super::active::FEW;
use super::poller::Poller;
use crate::rt::base::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, full_fence,
};
use rustix::thread::futex::{self, Flags};

pub(crate) const AWAKE: u32 = 0;
/// About to sleep, or asleep on the word.
pub(crate) const ON_FUTEX: u32 = 1;
/// About to sleep, or asleep, in the driver.
pub(crate) const IN_DRIVER: u32 = 2;
/// About to sleep, or asleep on the word, and inactive: only what is for this server wakes it.
pub(crate) const RESTING: u32 = 3;

/// Beside so many servers under way a thread wakes no more. Models have few servers.
const ENOUGH: i32 = if MODELLED { 1 } else { 4 };
const MODELLED: bool = cfg!(shuttle);

/// A word on a cache line of its own.
#[repr(align(128))]
struct SleepWord(AtomicU32);

/// Which servers sleep, and how many search.
pub(crate) struct Sleepers {
    /// How each server sleeps.
    words: Box<[SleepWord]>,
    /// How many sleep, and would run whatever is ready: all but those that rest.
    asleep: AtomicUsize,
    pub(crate) searching: AtomicU32,
    /// How many were woken, and have not looked for work yet. Below 0 for a moment where a server
    /// counts itself out before the thread that woke it has counted it in.
    under_way: AtomicU32,
    /// There are so many servers that those that were woken wake the others.
    are_many: bool,
    /// A server sleeps in the driver, or is about to.
    pub(crate) in_driver: AtomicBool,
    /// How often a server was woken: for `umcg doctor` and tests.
    pub(crate) wakes: AtomicU64,
}

impl Sleepers {
    pub(crate) fn new(servers: usize) -> Sleepers {
        Sleepers {
            words: (0..servers)
                .map(|_| SleepWord(AtomicU32::new(AWAKE)))
                .collect(),
            asleep: AtomicUsize::new(0),
            searching: AtomicU32::new(0),
            under_way: AtomicU32::new(0),
            are_many: MODELLED || servers > FEW,
            in_driver: AtomicBool::new(false),
            wakes: AtomicU64::new(0),
        }
    }

    /// The word that says how this server sleeps.
    #[inline]
    pub(crate) fn word(&self, index: usize) -> &AtomicU32 {
        &self.words[index].0
    }

    /// Whether this server sleeps, or is about to.
    pub(crate) fn is_asleep(&self, index: usize) -> bool {
        self.word(index).load(Relaxed) != AWAKE
    }

    /// Whether all servers sleep, or are about to.
    pub(crate) fn are_all_asleep(&self) -> bool {
        (0..self.words.len()).all(|index| self.is_asleep(index))
    }

    /// This server is about to sleep, in a way other than [`AWAKE`].
    pub(crate) fn fall_asleep(&self, index: usize, how: u32) {
        self.word(index).store(how, Relaxed);
        if how != RESTING {
            self.asleep.fetch_add(1, Relaxed);
        }
    }

    /// This server, which slept in this way, is awake. Another thread may have written that
    /// already. The server looks for work after this.
    pub(crate) fn wake_up(&self, index: usize, how: u32) {
        if matches!(self.word(index).swap(AWAKE, Relaxed), ON_FUTEX | IN_DRIVER) {
            self.asleep.fetch_sub(1, Relaxed);
        } else if how != RESTING {
            self.under_way.fetch_sub(1, Relaxed);
            // ORDERING(under-way.2): SeqCst, pairs with under-way.1. It is a fence: the loads that
            // follow are relaxed, and an operation would not order them.
            full_fence();
        }
    }

    /// Whether the caller, which has put a worker into a queue, has to wake a server.
    #[inline]
    pub(crate) fn is_one_needed(&self) -> bool {
        !self.nobody_is_needed() && !self.are_enough_under_way()
    }

    /// Whether so many servers are about to look for work that they wake the others (S6).
    fn are_enough_under_way(&self) -> bool {
        self.are_many && self.count_under_way() >= ENOUGH && {
            // ORDERING(under-way.1): SeqCst, pairs with under-way.2: a server that is woken and
            // counts itself out later sees the worker.
            full_fence();
            self.count_under_way() >= ENOUGH
        }
    }

    fn count_under_way(&self) -> i32 {
        self.under_way.load(Relaxed) as i32
    }

    /// How many others a server wakes that was woken, if there is work.
    pub(crate) fn to_wake(&self) -> usize {
        if self.are_many { 2 } else { 1 }
    }

    /// True if no active server sleeps, or one is looking for work already.
    #[inline(always)]
    pub(crate) fn nobody_is_needed(&self) -> bool {
        self.asleep.load(Relaxed) == 0 || (self.searching.load(Relaxed) != 0 && self.is_searched())
    }

    /// Whether a server searches that will see the worker that the caller has put into a queue.
    #[cold]
    fn is_searched(&self) -> bool {
        // ORDERING(searching.1): SeqCst, pairs with searching.2: a searcher that has found another
        // worker looks once more.
        full_fence();
        self.searching.load(Relaxed) != 0
    }

    pub(crate) fn end_search(&self) -> bool {
        let last = self.searching.fetch_sub(1, Relaxed) == 1;
        // ORDERING(searching.2): SeqCst, pairs with searching.1. It is a fence: the loads that
        // follow are relaxed, and an operation would not order them.
        full_fence();
        last
    }

    /// How many active servers sleep.
    pub(crate) fn asleep(&self) -> usize {
        self.asleep.load(Relaxed)
    }

    /// Wakes one active server. Prefers one that sleeps on a futex.
    #[cold]
    pub(crate) fn wake_one(&self, driver: &dyn Poller) {
        let wake = |fits: fn(u32) -> bool| {
            (0..self.words.len())
                .any(|index| fits(self.word(index).load(Relaxed)) && self.rouse(driver, index))
        };
        // The second try takes any sleeper: one may have moved from the driver to its word
        // meanwhile.
        let _ = wake(|how| how == ON_FUTEX) || wake(|how| matches!(how, ON_FUTEX | IN_DRIVER));
    }

    /// Wakes this server, if it sleeps.
    #[cold]
    pub(crate) fn wake(&self, driver: &dyn Poller, index: usize) {
        if self.is_asleep(index) {
            self.rouse(driver, index);
        }
    }

    /// Makes one of the sleeping servers sleep in the driver.
    pub(crate) fn cover_driver(&self, driver: &dyn Poller) {
        if !self.in_driver.load(Relaxed) {
            self.wake_one(driver);
        }
    }

    pub(crate) fn wake_all(&self, driver: &dyn Poller) {
        (0..self.words.len()).for_each(|index| {
            self.rouse(driver, index);
        });
    }

    fn rouse(&self, driver: &dyn Poller, index: usize) -> bool {
        let word = self.word(index);
        let how = word.swap(AWAKE, Relaxed);
        if how == AWAKE {
            return false;
        }
        // Subtract before waking it: it may be about to sleep again at once.
        if how != RESTING {
            self.asleep.fetch_sub(1, Relaxed);
            self.under_way.fetch_add(1, Relaxed);
        }
        self.wakes.fetch_add(1, Relaxed);
        if how == IN_DRIVER {
            driver.wake();
        } else {
            let _ = futex::wake(word, Flags::PRIVATE, 1);
        }
        true
    }
}
