//! The names of the library's `rt::sync`, most of them as the checker has them.

pub(crate) use crate::checker::sync::*;

/// A checker that has found something may unwind from anywhere.
pub(crate) struct Firm;

impl Firm {
    pub(crate) fn end(self) {}
}

/// Nobody is preempted here.
pub(crate) struct Hold;

impl Hold {
    pub(crate) fn begin() -> Hold {
        Hold
    }
}
