//! Condition variables.

use crate::answer::{answer, require};
use crate::object::{init, methods, named};
use crate::wait::{NO_TIMEOUT, for_ever, interruptible};
use libc::{EPERM, ETIMEDOUT, c_int};
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

for_ever! {
    umcg_cond_wait(cond: *const Condvar, mutex: *const RawMutex) -> c_int = umcg_cond_wait_until;
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
    answer(cond.and_then(|cond| {
        let mutex = mutex?;
        require(mutex.is_locked(), EPERM)?;
        let deadline = (deadline_ns != NO_TIMEOUT).then_some(deadline_ns);
        // SAFETY: by the contract.
        let notified = interruptible(|| unsafe { ffi::wait(cond, mutex, deadline) })?;
        require(notified, ETIMEDOUT)
    }))
}

methods! {
    Condvar {
        umcg_cond_signal() -> c_int = |cond| _ = cond.notify_one();
        umcg_cond_broadcast() -> c_int = |cond| _ = cond.notify_all();
    }
}
