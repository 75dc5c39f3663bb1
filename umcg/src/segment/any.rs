//! altsems between processes: a wakeup from exactly one of many semaphores.

use super::error::{Fault, TryError, WaitError};
use super::object::FIRST;
use super::semaphore::Semaphore;
use super::wait::{SegmentWait, Wish, WishOutcome};
use crate::rt::timed;
use crate::select::order::{self, LookOrder};
use std::sync::Arc;

/// Takes a wakeup from one of the semaphores and returns its index; waits until there is one. The
/// semaphores must be in the same segment; one may be in the list more than once. The others are
/// left as they are. Fair: none of the semaphores that have wakeups is preferred. A point of
/// cancellation if it has to wait. Switches.
///
/// # Errors
/// [`Fault`]: that of one of the semaphores.
///
/// # Panics
/// If the list is empty: it would wait for ever. If the semaphores do not come from one opening of
/// a segment.
pub fn acquire_any(semaphores: &[&Semaphore]) -> Result<usize, Fault> {
    // Without a deadline there is no other error.
    any(semaphores, u64::MAX).map_err(|error| match error {
        WaitError::Fault(fault) => fault,
        WaitError::TimedOut => Fault::Corrupt,
    })
}

timed! {
    "acquire_any";
    /// # Errors
    /// [`WaitError`].
    ///
    /// # Panics
    /// As [`acquire_any`].
    pub fn acquire_any_deadline, acquire_any_timeout(semaphores: &[&Semaphore])
        -> Result<usize, WaitError>;
    |deadline| any(semaphores, deadline)
}

/// Like [`acquire_any`], if there is a wakeup in one of them. The semaphores are tried one after
/// the other. To try all of them at one moment, call [`acquire_any_deadline`] with a deadline that
/// has passed. Never waits.
///
/// # Errors
/// [`TryError`]; a fault is returned only if none of the others has a wakeup.
pub fn try_acquire_any(semaphores: &[&Semaphore]) -> Result<usize, TryError> {
    let mut error = TryError::Empty;
    let order = fair(semaphores);
    let found = order.find(|index| match semaphores[index].try_acquire() {
        Ok(()) => true,
        Err(TryError::Empty) => false,
        Err(fault) => {
            error = fault;
            false
        }
    });
    let index = found.ok_or(error)?;
    order.took(index, |index| key(semaphores, index));
    Ok(index)
}

/// A handle's address, which identifies it within one process.
fn key(semaphores: &[&Semaphore], index: usize) -> usize {
    (&raw const *semaphores[index]).addr()
}

/// An order that prefers none, over many calls with this list.
fn fair(semaphores: &[&Semaphore]) -> LookOrder<'static> {
    let (len, key) = (semaphores.len(), |index| key(semaphores, index));
    LookOrder::fair(order::list_of(len, key), len, key)
}

fn any(semaphores: &[&Semaphore], deadline: u64) -> Result<usize, WaitError> {
    assert!(!semaphores.is_empty(), "acquire_any: an empty list");
    let shared = &semaphores[0].0.shared;
    let is_one = semaphores
        .iter()
        .all(|semaphore| Arc::ptr_eq(&semaphore.0.shared, shared));
    assert!(is_one, "acquire_any: semaphores of different segments");
    match try_acquire_any(semaphores) {
        Ok(index) => return Ok(index),
        Err(TryError::Fault(fault)) => return Err(fault.into()),
        Err(TryError::Empty) => {}
    }
    let order = fair(semaphores);
    let wishes: Vec<Wish<'_>> = semaphores
        .iter()
        .map(|semaphore| semaphore.0.wish(FIRST, 1))
        .collect();
    let (wait, outcome) = SegmentWait::wait(shared, &wishes, order.first(), deadline)?;
    match outcome {
        WishOutcome::Given(index) => {
            wait.taken(index);
            Ok(index)
        }
        WishOutcome::TimedOut => Err(WaitError::TimedOut),
        WishOutcome::Closed(_) => Err(Fault::Corrupt.into()),
    }
}
