//! altsems: a wakeup from exactly one of many semaphores.

use super::gate::NO_MORE;
use super::semaphore::{AcquireError, Closed, Semaphore, TryAcquireError};
use crate::rt::timed;
use crate::rt::wait::{SelectQueue, second_look};
use crate::select::engine;
use crate::select::list::with_list;
use crate::select::order::{self, KeptOrder, LookOrder};

const REASON: &&str = &"altsems";

/// Takes a wakeup from one of the semaphores, which may be in the list more than once, and returns
/// its index; waits until there is one. The others are not changed. Fair: none of those that have
/// wakeups is preferred. A point of cancellation if it has to wait. Switches.
///
/// # Errors
/// [`Closed`]: one of the semaphores is closed, and was chosen.
///
/// # Panics
/// When the list is empty: it would wait for ever.
pub fn acquire_any(semaphores: &[&Semaphore]) -> Result<usize, Closed> {
    // Without a deadline there is no other error.
    any(semaphores, u64::MAX).map_err(|_| Closed)
}

timed! {
    "acquire_any";
    /// # Errors
    /// [`AcquireError`].
    ///
    /// # Panics
    /// As [`acquire_any`].
    pub fn acquire_any_deadline, acquire_any_timeout(semaphores: &[&Semaphore])
        -> Result<usize, AcquireError>;
    |deadline| any(semaphores, deadline)
}

/// Like [`acquire_any`], if there is a wakeup in one of them; an error if there was a moment at
/// which none had one. Never waits.
///
/// # Errors
/// [`TryAcquireError`]; `Closed` only if none of the others has a wakeup.
pub fn try_acquire_any(semaphores: &[&Semaphore]) -> Result<usize, TryAcquireError> {
    let order = fair(semaphores);
    let tried = scan(semaphores, order);
    if tried != Err(TryAcquireError::Empty) || semaphores.len() <= 1 {
        return tried;
    }
    with_list(
        semaphores.len(),
        member(semaphores),
        |list| match engine::look(list, order.first()) {
            None => Err(TryAcquireError::Empty),
            Some(_) if list.served() == NO_MORE => Err(TryAcquireError::Closed),
            Some(index) => Ok(index),
        },
    )
}

#[inline]
fn key(semaphores: &[&Semaphore], index: usize) -> usize {
    (&raw const *semaphores[index]).addr()
}

/// None is preferred, over many looks at this list.
#[inline]
pub(super) fn fair(semaphores: &[&Semaphore]) -> LookOrder<'static> {
    let (len, key) = (semaphores.len(), |index| key(semaphores, index));
    LookOrder::fair(order::list_of(len, key), len, key)
}

/// Tries one after the other.
#[inline(always)]
pub(super) fn scan(
    semaphores: &[&Semaphore],
    order: LookOrder<'_>,
) -> Result<usize, TryAcquireError> {
    let mut error = TryAcquireError::Empty;
    let found = order.find(|index| match semaphores[index].try_among_others() {
        Ok(()) => true,
        Err(why) => {
            if why == TryAcquireError::Closed {
                error = why;
            }
            false
        }
    });
    let index = found.ok_or(error)?;
    order.took(index, |index| key(semaphores, index));
    Ok(index)
}

pub(crate) fn any(semaphores: &[&Semaphore], deadline: u64) -> Result<usize, AcquireError> {
    assert!(!semaphores.is_empty(), "acquire_any: an empty list");
    let order = fair(semaphores);
    match scan(semaphores, order) {
        Ok(index) => Ok(index),
        Err(TryAcquireError::Closed) => Err(AcquireError::Closed),
        Err(TryAcquireError::Empty) => wait(semaphores, order.kept(), deadline),
    }
}

/// For a caller that has tried all of them in this order.
#[inline(never)]
fn wait(
    semaphores: &[&Semaphore],
    order: KeptOrder<'_>,
    deadline: u64,
) -> Result<usize, AcquireError> {
    let look = || scan(semaphores, order.order(semaphores.len())).ok();
    if let Some(index) = second_look(deadline, look) {
        return Ok(index);
    }
    with_list(
        semaphores.len(),
        member(semaphores),
        |list| match engine::wait(list, order.first(), REASON, deadline) {
            None => Err(AcquireError::TimedOut),
            Some(_) if list.served() == NO_MORE => Err(AcquireError::Closed),
            Some(index) => Ok(index),
        },
    )
}

/// The queue of each, and its note: one wakeup is wanted.
fn member<'a>(semaphores: &'a [&Semaphore]) -> impl Fn(usize) -> (&'a dyn SelectQueue, usize) {
    |index| (semaphores[index].gate(), 1)
}
