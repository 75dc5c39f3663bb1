//! Locks for readers and writers.

use super::{init, named, wait};
use crate::rt::status;
use libc::{EBUSY, EPERM, c_int};
use std::time::{Duration, Instant};
use umcg::sync::RawRwLock;
use umcg::sync::foreign::lock_api::{RawRwLock as _, RawRwLockDowngrade as _, RawRwLockTimed as _};

// `umcg_rwlock_t`.
const _: () = assert!(size_of::<RawRwLock>() == 16 && align_of::<RawRwLock>() == 8);

type Tried = fn(&RawRwLock) -> bool;

fn try_lock(lock: &RawRwLock, tried: Tried) -> Result<(), c_int> {
    tried(lock).then_some(()).ok_or(EBUSY)
}

fn lock_until(
    lock: &RawRwLock,
    deadline_ns: u64,
    tried: Tried,
    for_so_long: fn(&RawRwLock, Duration) -> bool,
    until: fn(&RawRwLock, Instant) -> bool,
) -> Result<(), c_int> {
    if tried(lock) {
        return Ok(());
    }
    wait(deadline_ns, |deadline| {
        let locked = match deadline {
            None => for_so_long(lock, Duration::MAX),
            Some(deadline) => until(lock, deadline),
        };
        locked.then_some(())
    })
}

/// # Safety
/// As `init`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_init(lock: *mut RawRwLock) -> c_int {
    // SAFETY: passed on.
    unsafe { init(lock, Ok(RawRwLock::new())) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_rdlock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(lock) }.map(RawRwLock::lock_shared))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_tryrdlock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(lock) }.and_then(|lock| try_lock(lock, RawRwLock::try_lock_shared)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_rdlock_until(lock: *const RawRwLock, deadline_ns: u64) -> c_int {
    let (for_so_long, until) = (RawRwLock::try_lock_shared_for, RawRwLock::try_lock_shared_until);
    // SAFETY: passed on.
    let lock = unsafe { named(lock) };
    status(lock.and_then(|lock| lock_until(lock, deadline_ns, RawRwLock::try_lock_shared, for_so_long, until)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_wrlock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(lock) }.map(RawRwLock::lock_exclusive))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_trywrlock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(lock) }.and_then(|lock| try_lock(lock, RawRwLock::try_lock_exclusive)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_wrlock_until(lock: *const RawRwLock, deadline_ns: u64) -> c_int {
    let (for_so_long, until) = (RawRwLock::try_lock_exclusive_for, RawRwLock::try_lock_exclusive_until);
    // SAFETY: passed on.
    let lock = unsafe { named(lock) };
    status(lock.and_then(|lock| lock_until(lock, deadline_ns, RawRwLock::try_lock_exclusive, for_so_long, until)))
}

/// Who writes is alone: so if somebody does, it is the caller.
///
/// # Safety
/// As `named`; the caller has locked it.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_unlock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(lock) }.and_then(|lock| {
        if lock.is_locked_exclusive() {
            // SAFETY: by the contract.
            unsafe { lock.unlock_exclusive() };
        } else if lock.is_locked() {
            // SAFETY: by the contract.
            unsafe { lock.unlock_shared() };
        } else {
            return Err(EPERM);
        }
        Ok(())
    }))
}

/// # Safety
/// As `named`; the caller has locked it to write.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_downgrade(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(lock) }.and_then(|lock| {
        if !lock.is_locked_exclusive() {
            return Err(EPERM);
        }
        // SAFETY: by the contract.
        unsafe { lock.downgrade() };
        Ok(())
    }))
}
