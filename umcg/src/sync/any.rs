//! altsems: a wakeup from exactly one of many semaphores.
//!
//! First all are tried, from a start that moves on each time; then the caller stands in the queues of all, with one claim, and the first that serves it wins; then
//! it leaves the others. No lock is held across two of them.

use super::semaphore::{AcquireError, Closed, NO_MORE, Semaphore, TRY, TryAcquireError};
use crate::rt::server::Local;
use crate::rt::time;
use crate::rt::wait::{self, End, Place, Queued, Waiter};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

const REASON: &&str = &"altsems";

/// So many places need no memory but the stack.
const FEW: usize = 8;

/// Takes a wakeup from one of the semaphores, which may be in the list more than once, and returns its index; waits until there is one. The others are left as they
/// are. Fair: none of those that have wakeups is preferred. A point of cancellation if it has to wait. Switches.
///
/// # Errors
/// [`Closed`]: the semaphore that it came to was closed.
///
/// # Panics
/// When the list is empty: it would wait for ever.
pub fn acquire_any(semaphores: &[&Semaphore]) -> Result<usize, Closed> {
    // Without a deadline there is no other error.
    any(semaphores, u64::MAX).map_err(|_| Closed)
}

/// Like [`acquire_any`], until `deadline` at most.
///
/// # Errors
/// [`AcquireError`].
///
/// # Panics
/// As [`acquire_any`].
pub fn acquire_any_deadline(semaphores: &[&Semaphore], deadline: Instant) -> Result<usize, AcquireError> {
    any(semaphores, time::nanos(deadline))
}

/// Like [`acquire_any`], for `timeout` at most.
///
/// # Errors
/// [`AcquireError`].
///
/// # Panics
/// As [`acquire_any`].
pub fn acquire_any_timeout(semaphores: &[&Semaphore], timeout: Duration) -> Result<usize, AcquireError> {
    any(semaphores, time::after(timeout))
}

/// Like [`acquire_any`], if there is a wakeup in one of them. Never waits.
///
/// # Errors
/// [`TryAcquireError`]; that one is closed is said only if none of the others has anything.
pub fn try_acquire_any(semaphores: &[&Semaphore]) -> Result<usize, TryAcquireError> {
    try_from(semaphores, rotation(semaphores.len()))
}

fn try_from(semaphores: &[&Semaphore], start: usize) -> Result<usize, TryAcquireError> {
    let mut error = TryAcquireError::Empty;
    for index in rotated(semaphores.len(), start) {
        match semaphores[index].try_acquire() {
            Ok(()) => return Ok(index),
            Err(TryAcquireError::Closed) => error = TryAcquireError::Closed,
            Err(TryAcquireError::Empty) => {}
        }
    }
    Err(error)
}

/// Another start each time; that two threads get the same now and then does not matter.
fn rotation(len: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let next = NEXT.load(Relaxed);
    NEXT.store(next.wrapping_add(1), Relaxed);
    if len == 0 { 0 } else { next % len }
}

fn rotated(len: usize, start: usize) -> impl Iterator<Item = usize> {
    (start..len).chain(0..start)
}

pub(crate) fn any(semaphores: &[&Semaphore], deadline: u64) -> Result<usize, AcquireError> {
    assert!(!semaphores.is_empty(), "acquire_any: an empty list");
    let start = rotation(semaphores.len());
    match try_from(semaphores, start) {
        Ok(index) => return Ok(index),
        Err(TryAcquireError::Closed) => return Err(AcquireError::Closed),
        Err(TryAcquireError::Empty) => {}
    }
    if semaphores.len() <= FEW {
        let places = [const { Place::new() }; FEW];
        wait_for_any(semaphores, &places[..semaphores.len()], start, deadline)
    } else {
        let places: Box<[Place]> = semaphores.iter().map(|_| Place::new()).collect();
        wait_for_any(semaphores, &places, start, deadline)
    }
}

#[cold]
fn wait_for_any(semaphores: &[&Semaphore], places: &[Place], start: usize, deadline: u64) -> Result<usize, AcquireError> {
    loop {
        let enter = |waiter: &Waiter, _: Option<&Local>| {
            for index in rotated(semaphores.len(), start) {
                places[index].begin(waiter, index, 1);
                let mut is_mine = false;
                semaphores[index].enter_or_claim(&places[index], || {
                    is_mine = waiter.claim_itself(index);
                    is_mine
                });
                if is_mine {
                    return false;
                }
                if waiter.is_claimed() {
                    break;
                }
            }
            true
        };
        let leave = |local: Option<&Local>| {
            for (semaphore, place) in semaphores.iter().zip(places) {
                semaphore.leave(place, local);
            }
        };
        let End::Served(index) = wait::many(REASON, deadline, enter, leave) else { return Err(AcquireError::TimedOut) };
        match places[index].note.get() {
            NO_MORE => return Err(AcquireError::Closed),
            TRY => {
                // Whoever is faster has it; either way another one may try after us.
                let taken = semaphores[index].try_acquire().is_ok();
                wait::undisturbed(|local| semaphores[index].pass_on(local));
                if taken {
                    return Ok(index);
                }
            }
            _ => return Ok(index),
        }
    }
}
