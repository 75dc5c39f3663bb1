//! Groups of things to be done, and waiting until they are.
//!
//! ```text
//!   63       62    33     32        31   0
//!  | LOCKED | unused | WAITERS | to do |
//! ```
//!
//! It is the word of a [gate](super::gate), which all pass when there is nothing to do. Only the
//! last `done` touches the queue.

use super::gate::{Gate, Policy, SERVED, Until};
use crate::rt::time::Elapsed;
use crate::rt::timed;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

const COUNT: u64 = u32::MAX as u64;
const WAITERS: u64 = 1 << 32;

/// A number of things to be done: [`wait`](WaitGroup::wait) waits until all are.
///
/// Add the things to be done before the first wait. After the wait the group can be used again. Not
/// for signal handlers.
///
/// ```
/// use std::sync::Arc;
/// use umcg::sync::WaitGroup;
///
/// let group = Arc::new(WaitGroup::new());
/// for n in 0..3 {
///     let doing = WaitGroup::enter_arc(&group);
///     umcg::spawn(move || {
///         println!("{n}");
///         drop(doing);
///     });
/// }
/// group.wait();
/// assert_eq!(group.count(), 0);
/// ```
#[repr(C)]
pub struct WaitGroup {
    gate: Gate<AllDone>,
}

struct AllDone;

impl Policy for AllDone {
    const REASON: &'static &'static str = &"wait group";
    const WAITERS: u64 = WAITERS;

    #[inline(always)]
    fn pass(&self, word: u64, _: usize) -> Option<(u64, usize)> {
        (word & COUNT == 0).then_some((word, SERVED))
    }
}

impl WaitGroup {
    /// With nothing to do.
    pub const fn new() -> WaitGroup {
        WaitGroup {
            gate: Gate::new(0, AllDone),
        }
    }

    /// Adds so many things to be done.
    ///
    /// # Panics
    /// When that is more than 4,294,967,295 together.
    pub fn add(&self, more: u32) {
        assert!(self.try_add(more), "WaitGroup::add: too much to do");
    }

    /// False if it is too much.
    pub(super) fn try_add(&self, more: u32) -> bool {
        let step = |word: u64| {
            (word & COUNT)
                .checked_add(u64::from(more))
                .filter(|sum| *sum <= COUNT)
                .map(|_| word + u64::from(more))
        };
        let word = &self.gate.word;
        word.take_while(word.load(), step).is_ok()
    }

    /// One thing is done. If it is the last, all waiters go on; they see everything that was done
    /// before. Does not switch.
    ///
    /// # Panics
    /// When there is nothing to do.
    pub fn done(&self) {
        assert!(self.try_done(), "WaitGroup::done: there is nothing to do");
    }

    /// False if there is nothing to do.
    pub(super) fn try_done(&self) -> bool {
        let step = |word: u64| (word & COUNT > u64::from(word & WAITERS != 0)).then(|| word - 1);
        let word = &self.gate.word;
        match word.give_while(word.load(), step) {
            Ok(_) => true,
            Err(word) => word & COUNT != 0 && self.done_slow(),
        }
    }

    /// Adds one thing, which is done when the value is dropped.
    ///
    /// # Panics
    /// As [`WaitGroup::add`].
    pub fn enter(&self) -> Doing<&WaitGroup> {
        self.add(1);
        Doing(self)
    }

    /// The same, of a group in an `Arc`, which the value keeps.
    ///
    /// # Panics
    /// As [`WaitGroup::add`].
    pub fn enter_arc(group: &Arc<WaitGroup>) -> Doing<Arc<WaitGroup>> {
        group.add(1);
        Doing(group.clone())
    }

    /// How much is to be done; may be outdated at once.
    pub fn count(&self) -> u32 {
        (self.gate.word.load() & COUNT) as u32
    }

    /// Waits until there is nothing to do. A point of cancellation if it has to wait. Switches.
    pub fn wait(&self) {
        // Without a deadline it returns when there is nothing to do.
        let _ = self.wait_until(u64::MAX);
    }

    timed! {
        "WaitGroup::wait";
        /// # Errors
        /// [`Elapsed`].
        pub fn wait_deadline, wait_timeout(&self) -> Result<(), Elapsed>;
        |deadline| self.wait_until(deadline)
    }

    /// [`WaitGroup::wait_deadline`] in nanoseconds.
    pub(crate) fn wait_until(&self, deadline: u64) -> Result<(), Elapsed> {
        if self.is_done() || self.wait_slow(deadline) {
            Ok(())
        } else {
            Err(Elapsed)
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.gate.word.see() & COUNT == 0
    }

    #[cold]
    fn wait_slow(&self, deadline: u64) -> bool {
        self.gate.wait(0, Until::Deadline(deadline)).is_some()
    }

    /// One thing, perhaps the last, is done while there are waiters. False if there is nothing to
    /// do.
    #[cold]
    fn done_slow(&self) -> bool {
        let step = |word: u64| (word & COUNT != 0).then(|| word - 1);
        self.gate.give_locked(&step).is_ok()
    }
}

impl Default for WaitGroup {
    fn default() -> WaitGroup {
        WaitGroup::new()
    }
}

impl fmt::Debug for WaitGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WaitGroup")
            .field("count", &self.count())
            .field("waiters", &self.gate.waiters())
            .finish()
    }
}

/// One thing that is to be done, until it is dropped. By [`WaitGroup::enter`].
#[derive(Debug)]
#[must_use = "dropping it says that it is done"]
pub struct Doing<G: Deref<Target = WaitGroup>>(G);

impl<G: Deref<Target = WaitGroup>> Drop for Doing<G> {
    fn drop(&mut self) {
        self.0.done();
    }
}
