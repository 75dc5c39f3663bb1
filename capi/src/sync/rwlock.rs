//! Locks for readers and writers.

use crate::answer::{answer, require};
use crate::object::{init, methods, named, with};
use crate::wait::wait;
use libc::{EBUSY, EPERM, ETIMEDOUT, c_int};
use std::time::{Duration, Instant};
use umcg::sync::ffi::lock_api::{
    RawRwLock as _, RawRwLockDowngrade as _, RawRwLockTimed as _, RawRwLockUpgrade as _,
    RawRwLockUpgradeDowngrade as _, RawRwLockUpgradeTimed as _,
};
use umcg::sync::{RawRwLock, ffi};

// `umcg_rwlock_t`.
const _: () = assert!(size_of::<RawRwLock>() == 16 && align_of::<RawRwLock>() == 8);

/// One way to lock: at once, for so long, until then.
struct Way {
    at_once: fn(&RawRwLock) -> bool,
    for_so_long: fn(&RawRwLock, Duration) -> bool,
    until: fn(&RawRwLock, Instant) -> bool,
}

const READ: Way = Way {
    at_once: RawRwLock::try_lock_shared,
    for_so_long: RawRwLock::try_lock_shared_for,
    until: RawRwLock::try_lock_shared_until,
};

const WRITE: Way = Way {
    at_once: RawRwLock::try_lock_exclusive,
    for_so_long: RawRwLock::try_lock_exclusive_for,
    until: RawRwLock::try_lock_exclusive_until,
};

const UPGRADABLE: Way = Way {
    at_once: RawRwLock::try_lock_upgradable,
    for_so_long: RawRwLock::try_lock_upgradable_for,
    until: RawRwLock::try_lock_upgradable_until,
};

/// For a lock that is held to read and upgrade.
const UPGRADE: Way = Way {
    // SAFETY: it is held by the caller.
    at_once: |lock| unsafe { lock.try_upgrade() },
    // SAFETY: likewise.
    for_so_long: |lock, timeout| unsafe { lock.try_upgrade_for(timeout) },
    // SAFETY: likewise.
    until: |lock, deadline| unsafe { lock.try_upgrade_until(deadline) },
};

impl Way {
    fn try_lock(&self, lock: &RawRwLock) -> Result<(), c_int> {
        require((self.at_once)(lock), EBUSY)
    }

    fn lock_until(&self, lock: &RawRwLock, deadline_ns: u64) -> Result<(), c_int> {
        if (self.at_once)(lock) {
            return Ok(());
        }
        wait(deadline_ns, |deadline| {
            let locked = match deadline {
                None => (self.for_so_long)(lock, Duration::MAX),
                Some(deadline) => (self.until)(lock, deadline),
            };
            require(locked, ETIMEDOUT)
        })
    }
}

/// # Safety
/// As `init`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_init(lock: *mut RawRwLock) -> c_int {
    // SAFETY: passed on.
    unsafe { init(lock, Ok(RawRwLock::new())) }
}

methods! {
    RawRwLock {
        umcg_rwlock_rdlock() -> c_int = RawRwLock::lock_shared;
        umcg_rwlock_tryrdlock() -> c_int = |lock| READ.try_lock(lock);
        umcg_rwlock_rdlock_until(deadline_ns: u64) -> c_int
            = |lock| READ.lock_until(lock, deadline_ns);
        umcg_rwlock_wrlock() -> c_int = RawRwLock::lock_exclusive;
        umcg_rwlock_trywrlock() -> c_int = |lock| WRITE.try_lock(lock);
        umcg_rwlock_wrlock_until(deadline_ns: u64) -> c_int
            = |lock| WRITE.lock_until(lock, deadline_ns);
    }
}

/// A writer is alone: so if there is one, it is the caller.
///
/// # Safety
/// As `named`; the caller has locked it to read or to write.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_unlock(lock: *const RawRwLock) -> c_int {
    let unlock = |lock: &RawRwLock| {
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
    };
    // SAFETY: passed on.
    unsafe { with(lock, unlock) }
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
    unsafe { named(lock) }.and_then(|lock| require(is_had(lock), EPERM).map(|()| lock))
}

/// # Safety
/// As `named`; the caller has locked it to write.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_downgrade(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, RawRwLock::is_locked_exclusive) };
    // SAFETY: by the contract.
    answer(lock.map(|lock| unsafe { lock.downgrade() }))
}

/// # Safety
/// As `named`; the caller has locked it to write.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_downgrade_up(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, RawRwLock::is_locked_exclusive) };
    // SAFETY: by the contract.
    answer(lock.map(|lock| unsafe { lock.downgrade_to_upgradable() }))
}

methods! {
    RawRwLock {
        umcg_rwlock_uplock() -> c_int = RawRwLock::lock_upgradable;
        umcg_rwlock_tryuplock() -> c_int = |lock| UPGRADABLE.try_lock(lock);
        umcg_rwlock_uplock_until(deadline_ns: u64) -> c_int
            = |lock| UPGRADABLE.lock_until(lock, deadline_ns);
    }
}

/// # Safety
/// As `named`; the caller has locked it to read and upgrade.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_upunlock(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    // SAFETY: by the contract.
    answer(lock.map(|lock| unsafe { lock.unlock_upgradable() }))
}

/// # Safety
/// As `umcg_rwlock_upunlock`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_updowngrade(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    // SAFETY: by the contract.
    answer(lock.map(|lock| unsafe { lock.downgrade_upgradable() }))
}

/// # Safety
/// As `umcg_rwlock_upunlock`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_upgrade(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    // SAFETY: by the contract.
    answer(lock.map(|lock| unsafe { lock.upgrade() }))
}

/// # Safety
/// As `umcg_rwlock_upunlock`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_tryupgrade(lock: *const RawRwLock) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    answer(lock.and_then(|lock| UPGRADE.try_lock(lock)))
}

/// # Safety
/// As `umcg_rwlock_upunlock`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_rwlock_upgrade_until(lock: *const RawRwLock, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    let lock = unsafe { had(lock, ffi::has_upgradable) };
    answer(lock.and_then(|lock| UPGRADE.lock_until(lock, deadline_ns)))
}
