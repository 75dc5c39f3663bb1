//! `umcg/sync.h`: C's names for everything in `umcg::sync` except semaphores.
//!
//! Objects are parts of the caller's data. The C tests check that zeros, and the header's
//! initialisers, are objects. A call first does what needs no waiting. Only if it has to wait is it
//! a point of cancellation; the unwinding is caught here (`ffi::interruptible`).

mod barrier;
mod condvar;
pub(crate) mod event;
mod mutex;
mod objects;
mod once;
mod rwlock;
mod wait_group;

use crate::rt::{NO_TIMEOUT, status};
use libc::{ECANCELED, EINVAL, ETIMEDOUT, c_int};
use std::time::Instant;
use umcg::Elapsed;
use umcg::rt::ffi::{self, Cancelled};

/// The object that C named.
///
/// # Safety
/// `object` is null, or an object that stays where it is as long as the caller uses it.
unsafe fn named<'a, T>(object: *const T) -> Result<&'a T, c_int> {
    // SAFETY: by the contract.
    unsafe { object.as_ref() }.ok_or(EINVAL)
}

/// Makes an object in the caller's memory.
///
/// # Safety
/// `object` is null, or room for one that no thread uses.
unsafe fn init<T>(object: *mut T, made: Result<T, c_int>) -> c_int {
    status(made.and_then(|made| {
        if object.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: by the contract.
        unsafe { object.write(made) };
        Ok(())
    }))
}

/// Waits, as a point of cancellation, until a deadline or as long as it takes; `wait` returns none
/// when that has passed.
#[inline(never)]
fn wait<R>(deadline_ns: u64, wait: impl FnOnce(Option<Instant>) -> Option<R>) -> Result<R, c_int> {
    let deadline = (deadline_ns != NO_TIMEOUT).then(|| ffi::instant(deadline_ns));
    ffi::interruptible(|| wait(deadline))
        .map_err(|Cancelled| ECANCELED)?
        .ok_or(ETIMEDOUT)
}

/// The same for waits without a result.
fn wait_until(
    deadline_ns: u64,
    for_ever: impl FnOnce(),
    until: impl FnOnce(Instant) -> Result<(), Elapsed>,
) -> Result<(), c_int> {
    wait(deadline_ns, |deadline| match deadline {
        None => {
            for_ever();
            Some(())
        }
        Some(deadline) => until(deadline).ok(),
    })
}
