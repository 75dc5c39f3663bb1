//! The operations that `select` waits for.

use crate::rt::time;
use crate::rt::wait::{Place, SelectQueue};
use std::time::{Duration, Instant};

/// The interface between an operation and the loop under `select`. Programs do not implement it;
/// they implement [`Waitable`](super::Waitable).
pub trait OperationParts {
    /// The queue it waits in; none if only the clock serves it.
    #[doc(hidden)]
    fn queue(&self) -> Option<&dyn SelectQueue>;

    /// Its place there.
    #[doc(hidden)]
    fn place(&self) -> &Place;

    /// The note with which it enters the queue. Does not unwind.
    #[doc(hidden)]
    fn note(&self) -> usize {
        0
    }

    /// It was served. False when that was a hint only.
    #[doc(hidden)]
    fn finish(&self, note: usize) -> bool;

    /// When it is done by itself, in nanoseconds; `u64::MAX` for never.
    #[doc(hidden)]
    fn deadline(&self) -> u64 {
        u64::MAX
    }

    /// Only the kernel knows whether it is ready.
    #[doc(hidden)]
    fn is_elsewhere(&self) -> bool {
        false
    }

    /// Whether its place may stay in the queue when the wait is over, for the next one. The
    /// operation is not moved then, but it may be forgotten.
    #[doc(hidden)]
    fn may_stay(&self) -> bool {
        true
    }

    /// Called before it is waited for, while the caller stands in no queue: checks preconditions.
    /// Returns the deadline.
    #[doc(hidden)]
    fn prepare(&self) -> u64 {
        self.deadline()
    }
}

/// Something that one can [select](super::Select), beside others.
pub trait Selectable: OperationParts {}

impl<P: OperationParts + ?Sized> Selectable for P {}

/// All but `may_stay`, for a reference to an operation.
macro_rules! passed_on {
    () => {
        #[inline]
        fn queue(&self) -> Option<&dyn SelectQueue> {
            (**self).queue()
        }

        #[inline]
        fn place(&self) -> &Place {
            (**self).place()
        }

        #[inline]
        fn note(&self) -> usize {
            (**self).note()
        }

        #[inline]
        fn finish(&self, note: usize) -> bool {
            (**self).finish(note)
        }

        #[inline]
        fn deadline(&self) -> u64 {
            (**self).deadline()
        }

        #[inline]
        fn prepare(&self) -> u64 {
            (**self).prepare()
        }

        #[inline]
        fn is_elsewhere(&self) -> bool {
            (**self).is_elsewhere()
        }
    };
}

impl<P: OperationParts + ?Sized> OperationParts for &mut P {
    passed_on!();

    /// A borrowed operation may be moved when the borrow ends, whatever has become of the set.
    #[inline]
    fn may_stay(&self) -> bool {
        false
    }
}

/// Of several types, in one list or in a [`Set`](super::Set).
impl<P: OperationParts + ?Sized> OperationParts for Box<P> {
    passed_on!();

    #[inline]
    fn may_stay(&self) -> bool {
        (**self).may_stay()
    }
}

/// An operation whose result has a type.
pub trait Operation: Selectable {
    /// The result.
    type Output;

    /// The result, once it was selected.
    ///
    /// # Panics
    /// When it was not.
    fn outcome(&mut self) -> Self::Output;
}

impl<O: Operation + ?Sized> Operation for Box<O> {
    type Output = O::Output;

    #[inline]
    fn outcome(&mut self) -> O::Output {
        (**self).outcome()
    }
}

/// Done at a time. By [`at`] and [`after`].
#[derive(Debug)]
pub struct Timer {
    deadline: u64,
    place: Place,
}

/// Done at this time.
pub fn at(deadline: Instant) -> Timer {
    Timer {
        deadline: time::nanos(deadline),
        place: Place::new(),
    }
}

/// Done so long after this call.
pub fn after(duration: Duration) -> Timer {
    Timer {
        deadline: time::after(duration),
        place: Place::new(),
    }
}

impl OperationParts for Timer {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        None
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn finish(&self, _: usize) -> bool {
        unreachable!("nobody serves a timer")
    }

    fn deadline(&self) -> u64 {
        self.deadline
    }
}

impl Operation for Timer {
    type Output = ();

    fn outcome(&mut self) {}
}
