//! Condition variables.

use super::{init, named};
use crate::rt::{NO_TIMEOUT, status};
use libc::{ECANCELED, EPERM, ETIMEDOUT, c_int};
use umcg::rt::ffi::{self as rt_ffi, Cancelled};
use umcg::sync::ffi::lock_api::RawMutex as _;
use umcg::sync::{Condvar, RawMutex, ffi};

// `umcg_cond_t`.
const _: () = assert!(size_of::<Condvar>() == 24 && align_of::<Condvar>() == 8);

/// # Safety
/// As `init`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_cond_init(cond: *mut Condvar) -> c_int {
    // SAFETY: passed on.
    unsafe { init(cond, Ok(Condvar::new())) }
}

/// # Safety
/// As `umcg_cond_wait_until`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_cond_wait(cond: *const Condvar, mutex: *const RawMutex) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_cond_wait_until(cond, mutex, NO_TIMEOUT) }
}

/// # Safety
/// As `named`, for both; the caller has locked the mutex.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_cond_wait_until(
    cond: *const Condvar,
    mutex: *const RawMutex,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    let cond = unsafe { named(cond) };
    // SAFETY: passed on.
    let mutex = unsafe { named(mutex) };
    status(cond.and_then(|cond| {
        let mutex = mutex?;
        if !mutex.is_locked() {
            return Err(EPERM);
        }
        let deadline = (deadline_ns != NO_TIMEOUT).then_some(deadline_ns);
        // SAFETY: by the contract.
        let notified = rt_ffi::interruptible(|| unsafe { ffi::wait(cond, mutex, deadline) });
        if notified.map_err(|Cancelled| ECANCELED)? {
            Ok(())
        } else {
            Err(ETIMEDOUT)
        }
    }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_cond_signal(cond: *const Condvar) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(cond) }.map(|cond| _ = cond.notify_one()))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_cond_broadcast(cond: *const Condvar) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(cond) }.map(|cond| _ = cond.notify_all()))
}
