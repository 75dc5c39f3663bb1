//! Waiting for the first of many things: semaphores, tubes, locks, events, the ends of workers,
//! times, file descriptors, and objects of the program's own.
//!
//! The things that are waited for are *operations*:
//! [`Semaphore::acquiring`](crate::sync::Semaphore::acquiring), [`at`] and [`after`],
//! [`readable`](crate::io::readable) and [`writable`](crate::io::writable), [`taking`], and so on.
//! Exactly one of them is done, and the others are as if they had never been asked for. Nothing is
//! taken and put back, nothing is lost when the wait is cancelled, and no wake-up goes astray. The
//! macro [`select!`](crate::select!) is for a few that are known when the program is written,
//! [`Select`] for any number, and a [`Set`] for many that are waited for again and again. An
//! operation has all the memory that its wait needs, and can be used again.
//!
//! ```
//! use umcg::sync::Semaphore;
//! use std::time::Duration;
//!
//! let (red, green) = (Semaphore::new(0), Semaphore::new(1));
//! let colour = umcg::select! {
//!     taken = red.acquiring() => { taken.unwrap(); "red" },
//!     taken = green.acquiring() => { taken.unwrap(); "green" },
//!     () = umcg::select::after(Duration::from_secs(1)) => "none",
//! };
//! assert_eq!(colour, "green");
//! ```

mod custom;
pub(crate) mod engine;
pub(crate) mod list;
mod macros;
pub(crate) mod operation;
pub(crate) mod order;
mod set;

pub use custom::{
    Taking, Waitable, Waiters, taking, wait_for, wait_for_deadline, wait_for_timeout,
};
pub use operation::{Operation, Selectable, Timer, after, at};
pub use set::Set;

use crate::rt::time;
use crate::rt::timed;
use crate::rt::wait::{Place, SelectQueue};
use operation::OperationParts;
use order::LookOrder;

const REASON: &&str = &"select";

/// How to wait: for operations by their index.
///
/// ```
/// use umcg::{select::Select, sync::Semaphore};
///
/// let semaphores: Vec<_> = (0..3).map(|index| Semaphore::new(index / 2)).collect();
/// let mut operations: Vec<_> = semaphores.iter().map(Semaphore::acquiring).collect();
/// assert_eq!(Select::new().wait(&mut operations), 2);
/// assert_eq!(Select::new().try_wait(&mut operations), None);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Select {
    is_biased: bool,
    /// Where it is in the source; 0 where that is not known.
    site: usize,
}

impl Select {
    /// Fair: none of those that are ready at once is preferred, over many waits.
    pub const fn new() -> Select {
        Select {
            is_biased: false,
            site: 0,
        }
    }

    /// By the macro: where it stands in the source.
    #[doc(hidden)]
    pub const fn at(mut self, line: u32, column: u32) -> Select {
        self.site = (line as usize) << 12 ^ column as usize;
        self
    }

    /// They are looked at in their order: of those that are ready all the while the first is taken.
    /// (For the first of those that are ready at one moment: [`wait_any`](crate::sync::wait_any).)
    pub const fn biased(mut self) -> Select {
        self.is_biased = true;
        self
    }

    /// Waits until one of the operations is done, and returns its index. A point of cancellation if
    /// it has to wait. Switches.
    ///
    /// # Panics
    /// When there is none: it would wait for ever.
    pub fn wait(self, operations: &mut [impl Selectable]) -> usize {
        assert!(!operations.is_empty(), "select: nothing to wait for");
        // Without a deadline it returns when something is done.
        self.wait_nanos(operations, u64::MAX)
            .unwrap_or_else(|| unreachable!("a wait without a deadline was late"))
    }

    /// Like [`Select::wait`], if one can be done at once; none if there was a moment at which none
    /// could. Never waits. (Descriptors, of which only the kernel knows, are looked at one after
    /// the other.)
    pub fn try_wait(self, operations: &mut [impl Selectable]) -> Option<usize> {
        let set = Operations(operations);
        engine::try_any(&set, self.order(&set)).or_else(|| set.due())
    }

    /// Like [`Select::try_wait`], but they are tried one after the other: for a caller that is
    /// going to wait if none is ready.
    #[doc(hidden)]
    pub fn try_each(self, operations: &mut [impl Selectable]) -> Option<usize> {
        let set = Operations(operations);
        engine::scan(&set, self.order(&set))
    }

    timed! {
        "Select::wait";
        pub fn wait_deadline, wait_timeout(self, operations: &mut [impl Selectable])
            -> Option<usize>;
        |deadline| self.wait_nanos(operations, deadline)
    }

    fn wait_nanos(self, operations: &mut [impl Selectable], deadline: u64) -> Option<usize> {
        let set = Operations(operations);
        engine::any(&set, self.order(&set), REASON, deadline).or_else(|| set.due())
    }

    fn order<S: Selectable>(self, set: &Operations<'_, S>) -> LookOrder<'static> {
        use engine::Alternatives;
        if self.is_biased {
            LookOrder::in_turn(set.len())
        } else if self.site == 0 {
            engine::fair(set)
        } else {
            // The objects are not asked for their keys, which would cost a call of each.
            LookOrder::fair(
                order::name_of(set.0.as_ptr().addr(), self.site),
                set.len(),
                |index| set.key(index),
            )
        }
    }
}

struct Operations<'a, S>(&'a [S]);

impl<S: Selectable> Operations<'_, S> {
    /// The first whose time has come.
    fn due(&self) -> Option<usize> {
        let now = time::now();
        self.0
            .iter()
            .position(|operation| operation.deadline() <= now)
    }
}

impl<S: Selectable> engine::Alternatives for Operations<'_, S> {
    fn len(&self) -> usize {
        self.0.len()
    }

    fn queue(&self, index: usize) -> Option<&dyn SelectQueue> {
        self.0[index].queue()
    }

    fn place(&self, index: usize) -> &Place {
        self.0[index].place()
    }

    fn note(&self, index: usize) -> usize {
        self.0[index].note()
    }

    fn prepare(&self) -> u64 {
        self.0
            .iter()
            .map(OperationParts::prepare)
            .fold(u64::MAX, u64::min)
    }

    fn may_look_again(&self) -> bool {
        self.0
            .iter()
            .all(|operation| operation.deadline() == u64::MAX && !operation.is_elsewhere())
    }

    fn is_elsewhere(&self, index: usize) -> bool {
        self.0[index].is_elsewhere()
    }

    fn finish(&self, index: usize, note: usize) -> bool {
        self.0[index].finish(note)
    }
}
