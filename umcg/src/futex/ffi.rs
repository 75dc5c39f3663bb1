//! The parts that only the C interface needs: deadlines as numbers, words that are addresses only,
//! and the kernel's EFAULT as an answer.

use super::table::Requeued;
use super::{Wait, WaitSet, set, shared, word};
use crate::rt::sync::AtomicU32;
use rustix::io::Errno;

pub use super::many::FutexEnd;

/// [`wait_multiple`](super::wait_multiple) until `deadline`, in nanoseconds of CLOCK_MONOTONIC;
/// `u64::MAX` for never. May unwind, as that may.
#[inline]
pub fn wait_multiple(words: &[Wait<'_>], deadline: u64) -> FutexEnd {
    set::wait_for_any(words, deadline)
}

/// [`WaitSet::wait`] likewise.
#[inline]
pub fn wait_set(set: &mut WaitSet<'_>, deadline: u64) -> FutexEnd {
    set.wait_for_any(deadline)
}

/// [`wake`](super::wake) of the word at this address, which is not looked at.
#[inline]
pub fn wake(address: usize, count: usize) -> usize {
    word::wake_at(address, count)
}

/// [`shared::wake`].
///
/// # Errors
/// The kernel's.
pub fn wake_shared(word: &AtomicU32, count: usize) -> Result<usize, Errno> {
    shared::wake_in_kernel(word, count)
}

/// [`shared::requeue`]; [`shared::cmp_requeue`] where a value is expected.
///
/// # Errors
/// The kernel's: EAGAIN where the word has another value.
pub fn requeue_shared(
    from: (&AtomicU32, Option<u32>),
    to: &AtomicU32,
    wake: usize,
    others: usize,
) -> Result<Requeued, Errno> {
    shared::requeue_in_kernel(from, to, wake, others)
}
