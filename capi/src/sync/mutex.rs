//! Mutexes: below guards, as C has none.

use super::{init, named, wait};
use crate::rt::status;
use libc::{EBUSY, EINVAL, EPERM, c_int};
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

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_mutex_lock(mutex: *const RawMutex) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(mutex) }.map(RawMutex::lock))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_mutex_trylock(mutex: *const RawMutex) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(mutex) }.and_then(|mutex| mutex.try_lock().then_some(()).ok_or(EBUSY)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_mutex_lock_until(mutex: *const RawMutex, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(mutex) }.and_then(|mutex| {
        if mutex.try_lock() {
            return Ok(());
        }
        wait(deadline_ns, |deadline| {
            let locked = match deadline {
                None => mutex.try_lock_for(Duration::MAX),
                Some(deadline) => mutex.try_lock_until(deadline),
            };
            locked.then_some(())
        })
    }))
}

/// # Safety
/// As `named`; the caller has locked it.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_mutex_unlock(mutex: *const RawMutex) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(mutex) }.and_then(|mutex| {
        if !mutex.is_locked() {
            return Err(EPERM);
        }
        // SAFETY: by the contract.
        unsafe { mutex.unlock() };
        Ok(())
    }))
}
