//! Mutexes: below guards, as C has none.

use crate::answer::require;
use crate::object::{init, methods, with};
use crate::wait::wait;
use libc::{EBUSY, EINVAL, EPERM, ETIMEDOUT, c_int};
use std::time::Duration;
use umcg::sync::ffi::lock_api::{RawMutex as _, RawMutexTimed as _};
use umcg::sync::{RawMutex, ffi};

// `umcg_mutex_t`.
const _: () = assert!(size_of::<RawMutex>() == 24 && align_of::<RawMutex>() == 8);
const _: () = assert!(ffi::MUTEX_IS_FAIR == 16);

const FAIR: c_int = 1;

/// # Safety
/// As `init`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_mutex_init(mutex: *mut RawMutex, flags: c_int) -> c_int {
    let made = match flags {
        0 => Ok(RawMutex::new()),
        FAIR => Ok(RawMutex::fair()),
        _ => Err(EINVAL),
    };
    // SAFETY: passed on.
    unsafe { init(mutex, made) }
}

fn lock_until(mutex: &RawMutex, deadline_ns: u64) -> Result<(), c_int> {
    if mutex.try_lock() {
        return Ok(());
    }
    wait(deadline_ns, |deadline| {
        let locked = match deadline {
            None => mutex.try_lock_for(Duration::MAX),
            Some(deadline) => mutex.try_lock_until(deadline),
        };
        require(locked, ETIMEDOUT)
    })
}

methods! {
    RawMutex {
        umcg_mutex_lock() -> c_int = RawMutex::lock;
        umcg_mutex_trylock() -> c_int = |mutex| require(mutex.try_lock(), EBUSY);
        umcg_mutex_lock_until(deadline_ns: u64) -> c_int = |mutex| lock_until(mutex, deadline_ns);
    }
}

/// # Safety
/// As `named`; the caller has locked it.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_mutex_unlock(mutex: *const RawMutex) -> c_int {
    let unlock = |mutex: &RawMutex| {
        require(mutex.is_locked(), EPERM)?;
        // SAFETY: by the contract.
        unsafe { mutex.unlock() };
        Ok::<_, c_int>(())
    };
    // SAFETY: passed on.
    unsafe { with(mutex, unlock) }
}
