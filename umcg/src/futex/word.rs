//! Waiting for one word.

use super::table;
use super::table::{ALL, Requeued, Stand, address};
use crate::error::texts;
use crate::rt::sync::{AtomicU32, Ordering::Relaxed};
use crate::rt::timed;
use crate::rt::wait::{self, ClaimedList, Place, Queued, Single};

const REASON: &&str = &"futex";

/// Returned in place of a place's note, which is never so small.
const CHANGED: usize = 1;

/// The word had another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changed;

/// Why the caller was not woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The word had another value.
    Changed,
    /// The time has passed.
    TimedOut,
}

texts! {
    Changed {
        Changed => "the word had another value",
    }
    WaitError {
        WaitError::Changed => &Changed,
        WaitError::TimedOut => "the time has passed",
    }
}

/// Waits until somebody wakes the word, if it has this value. A point of cancellation if it has to
/// wait; a wait that is cancelled has taken no wake-up. Switches.
///
/// # Errors
/// [`Changed`].
#[inline]
pub fn wait(word: &AtomicU32, expected: u32) -> Result<(), Changed> {
    // Without a deadline there is no other error.
    wait_until(word, expected, u64::MAX).map_err(|_| Changed)
}

timed! {
    "wait";
    /// # Errors
    /// [`WaitError`].
    pub fn wait_deadline, wait_timeout(word: &AtomicU32, expected: u32) -> Result<(), WaitError>;
    |deadline| wait_until(word, expected, deadline)
}

/// [`wait_deadline`] in nanoseconds.
#[inline]
pub(crate) fn wait_until(word: &AtomicU32, expected: u32, deadline: u64) -> Result<(), WaitError> {
    if wait::look_first(|| (word.load(Relaxed) != expected).then_some(())).is_some() {
        return Err(WaitError::Changed);
    }
    let stand = Stand::alone(address(word), ALL);
    let enter = |single: &mut Single<'_>, _: &mut ClaimedList| {
        let is_expected = || word.load(Relaxed) == expected;
        // SAFETY: the waiter leaves the table before its frame ends.
        let entered = unsafe { table().enter_if(is_expected, &stand, |note| single.place(note)) };
        (!entered).then_some(CHANGED)
    };
    match wait::one(&stand, REASON, deadline, enter) {
        None => Err(WaitError::TimedOut),
        Some(CHANGED) => Err(WaitError::Changed),
        Some(_) => Ok(()),
    }
}

/// Wakes up to `count` waiters of the word, in their order. Returns how many. Does not switch.
#[inline]
pub fn wake(word: &AtomicU32, count: usize) -> usize {
    wake_at(address(word), count)
}

/// The same for the word at this address, which is not looked at.
#[inline]
pub(crate) fn wake_at(address: usize, count: usize) -> usize {
    if table().is_idle(address) {
        return 0;
    }
    wait::undisturbed(|served| table().wake(address, count, ALL, served))
}

/// Wakes up to `wake` waiters of the word `from`, and moves up to `others` more, which come after
/// them, to the word `to`, behind its waiters. A waiter for many words
/// ([`wait_multiple`](super::wait_multiple)) is woken instead of moved, because the other word is
/// not one of its own. Does not switch.
pub fn requeue(from: &AtomicU32, to: &AtomicU32, wake: usize, others: usize) -> Requeued {
    // Without a value to compare it is never refused.
    requeue_if(from, to, || true, (wake, others)).unwrap_or_default()
}

/// Like [`requeue`], if the word `from` has this value: no waiter comes or goes between the look
/// and the act.
///
/// # Errors
/// [`Changed`]: nothing was done.
pub fn cmp_requeue(
    from: &AtomicU32,
    expected: u32,
    to: &AtomicU32,
    wake: usize,
    others: usize,
) -> Result<Requeued, Changed> {
    let is_expected = || from.load(Relaxed) == expected;
    requeue_if(from, to, is_expected, (wake, others)).ok_or(Changed)
}

fn requeue_if(
    from: &AtomicU32,
    to: &AtomicU32,
    is_expected: impl FnOnce() -> bool,
    counts: (usize, usize),
) -> Option<Requeued> {
    let words = (address(from), address(to));
    wait::undisturbed(|served| table().requeue(words, is_expected, counts, served))
}

// SAFETY: `leave` takes the lock of the bucket that the place is in.
unsafe impl Queued for Stand {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        table().leave(self, place)
    }

    fn hands_over(&self) -> bool {
        false
    }
}
