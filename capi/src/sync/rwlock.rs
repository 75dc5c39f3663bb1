//! Locks for readers and writers.

use super::{init, named, wait};
use crate::rt::status;
use libc::{EBUSY, EPERM, c_int};
use std::time::{Duration, Instant};
use umcg::sync::ffi::lock_api::{
    RawRwLock as _, RawRwLockDowngrade as _, RawRwLockTimed as _, RawRwLockUpgrade as _,
    RawRwLockUpgradeDowngrade as _, RawRwLockUpgradeTimed as _,
};
use umcg::sync::{RawRwLock, ffi};

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
    let (for_so_long, until) = (
        RawRwLock::try_lock_shared_for,
        RawRwLock::try_lock_shared_until,
    );
    // SAFETY: passed on.
    let lock = unsafe { named(lock) };
    status(lock.and_then(|lock| {
        lock_until(
            lock,
            deadline_ns,
            RawRwLock::try_lock_shared,
            for_so_long,
            until,
        )
    }))
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
    let (for_so_long, until) = (
        RawRwLock::try_lock_exclusive_for,
        RawRwLock::try_lock_exclusive_until,
    );
    // SAFETY: passed on.
    let lock = unsafe { named(lock) };
    status(lock.and_then(|lock| {
        lock_until(
            lock,
            deadline_ns,
            RawRwLock::try_lock_exclusive,
            for_so_long,
            until,
        )
    }))
}

/// A writer is alone: so if there is one, it is the caller.
///
/// # Safety
/// As `named`; the caller has locked it to read or to write.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_unlock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(lock) }.and_then(|lock| {
        if lock.is_locked_exclusive() {
            // SAFETY: by the contract.
            unsafe { lock.unlock_exclusive() };
        } else if ffi::has_readers(lock) {
            // SAFETY: by the contract.
            unsafe { lock.unlock_shared() };
        } else {
            return Err(EPERM);
        }
        Ok(())
    }))
}

/// The lock, if it is held in this way; the holder should be the caller.
///
/// # Safety
/// As `named`.
unsafe fn had<'a>(
    lock: *const RawRwLock,
    is_had: fn(&RawRwLock) -> bool,
) -> Result<&'a RawRwLock, c_int> {
    // SAFETY: passed on.
    unsafe { named(lock) }.and_then(|lock| is_had(lock).then_some(lock).ok_or(EPERM))
}

/// # Safety
/// As `named`; the caller has locked it to write.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_downgrade(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, RawRwLock::is_locked_exclusive) };
    // SAFETY: by the contract.
    status(lock.map(|lock| unsafe { lock.downgrade() }))
}

/// # Safety
/// As `named`; the caller has locked it to write.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_downgrade_up(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, RawRwLock::is_locked_exclusive) };
    // SAFETY: by the contract.
    status(lock.map(|lock| unsafe { lock.downgrade_to_upgradable() }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_uplock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(lock) }.map(RawRwLock::lock_upgradable))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_tryuplock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(lock) }.and_then(|lock| try_lock(lock, RawRwLock::try_lock_upgradable)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_uplock_until(lock: *const RawRwLock, deadline_ns: u64) -> c_int {
    let (for_so_long, until) = (
        RawRwLock::try_lock_upgradable_for,
        RawRwLock::try_lock_upgradable_until,
    );
    // SAFETY: passed on.
    let lock = unsafe { named(lock) };
    status(lock.and_then(|lock| {
        lock_until(
            lock,
            deadline_ns,
            RawRwLock::try_lock_upgradable,
            for_so_long,
            until,
        )
    }))
}

/// # Safety
/// As `named`; the caller has locked it to read and upgrade.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_upunlock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    // SAFETY: by the contract.
    status(lock.map(|lock| unsafe { lock.unlock_upgradable() }))
}

/// # Safety
/// As `umcg_rwlock_upunlock`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_updowngrade(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    // SAFETY: by the contract.
    status(lock.map(|lock| unsafe { lock.downgrade_upgradable() }))
}

/// # Safety
/// As `umcg_rwlock_upunlock`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_upgrade(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    // SAFETY: by the contract.
    status(lock.map(|lock| unsafe { lock.upgrade() }))
}

/// # Safety
/// As `umcg_rwlock_upunlock`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_tryupgrade(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    // SAFETY: by the contract.
    status(lock.and_then(|lock| try_lock(lock, |lock| unsafe { lock.try_upgrade() })))
}

/// # Safety
/// As `umcg_rwlock_upunlock`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_upgrade_until(lock: *const RawRwLock, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    status(lock.and_then(|lock| {
        // SAFETY: by the contract.
        let tried: Tried = |lock| unsafe { lock.try_upgrade() };
        // SAFETY: likewise.
        let for_so_long = |lock: &RawRwLock, timeout| unsafe { lock.try_upgrade_for(timeout) };
        // SAFETY: likewise.
        let until = |lock: &RawRwLock, deadline| unsafe { lock.try_upgrade_until(deadline) };
        lock_until(lock, deadline_ns, tried, for_so_long, until)
    }))
}
