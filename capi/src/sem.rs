//! `umcg/sem.h`: C's names for `umcg::sync::Semaphore` and `acquire_any`.
//!
//! A call first takes a saved wakeup. Only if it has to wait is it a point of cancellation, as in
//! Rust; the unwinding is caught here (`ffi::interruptible`).

use crate::rt::{NO_TIMEOUT, status, value};
use crate::{misused, references};
use libc::{EAGAIN, ECANCELED, EINVAL, EOVERFLOW, ESHUTDOWN, ETIMEDOUT, c_int};
use umcg::rt::ffi::{self, Cancelled};
use umcg::sync::{self, AcquireError, Closed, Semaphore, TryAcquireError};

// `umcg_sem_t`, whose first word is that of `UMCG_SEM_INIT`. The C tests check that zeros are a
// semaphore.
const _: () = assert!(size_of::<Semaphore>() == 24 && align_of::<Semaphore>() == 8);

const BARGING: c_int = 1;

/// The semaphore that C named.
///
/// # Safety
/// `sem` is null, or a semaphore that stays where it is as long as the caller uses it.
unsafe fn named<'a>(sem: *const Semaphore) -> Result<&'a Semaphore, c_int> {
    // SAFETY: by the contract; all zeros are one too.
    unsafe { sem.as_ref() }.ok_or(EINVAL)
}

fn errno_of_try(error: TryAcquireError) -> c_int {
    match error {
        TryAcquireError::Empty => EAGAIN,
        TryAcquireError::Closed => ESHUTDOWN,
    }
}

fn errno_of(error: AcquireError) -> c_int {
    match error {
        AcquireError::TimedOut => ETIMEDOUT,
        AcquireError::Closed => ESHUTDOWN,
    }
}

fn acquire(sem: &Semaphore, wakeups: u32, deadline_ns: u64) -> Result<(), c_int> {
    match sem.try_acquire_many(wakeups) {
        Err(TryAcquireError::Empty) => wait(sem, wakeups, deadline_ns),
        tried => tried.map_err(errno_of_try),
    }
}

#[inline(never)]
fn wait(sem: &Semaphore, wakeups: u32, deadline_ns: u64) -> Result<(), c_int> {
    let acquired = ffi::interruptible(|| match deadline_ns {
        NO_TIMEOUT => sem
            .acquire_many(wakeups)
            .map_err(|Closed| AcquireError::Closed),
        at => sem.acquire_many_deadline(wakeups, ffi::instant(at)),
    });
    acquired.map_err(|Cancelled| ECANCELED)?.map_err(errno_of)
}

fn any(sems: &[&Semaphore], deadline_ns: u64) -> Result<usize, c_int> {
    match sync::ffi::try_each(sems) {
        Err(TryAcquireError::Empty) => wait_for_any(sems, deadline_ns),
        tried => tried.map_err(errno_of_try),
    }
}

#[inline(never)]
fn wait_for_any(sems: &[&Semaphore], deadline_ns: u64) -> Result<usize, c_int> {
    let acquired = ffi::interruptible(|| match deadline_ns {
        NO_TIMEOUT => sync::acquire_any(sems).map_err(|Closed| AcquireError::Closed),
        at => sync::acquire_any_deadline(sems, ffi::instant(at)),
    });
    acquired.map_err(|Cancelled| ECANCELED)?.map_err(errno_of)
}

/// # Safety
/// `sem` is null, or room for a semaphore that no thread uses.
#[unsafe(no_mangle)]
unsafe extern "C" fn initsem(sem: *mut Semaphore, val: c_int) {
    let Ok(wakeups) = u32::try_from(val) else {
        misused("initsem", format_args!("{val} wakeups"))
    };
    if sem.is_null() {
        misused("initsem", "no semaphore");
    }
    // SAFETY: by the contract.
    unsafe { sem.write(Semaphore::new(wakeups)) };
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn downsem(sem: *const Semaphore, block: c_int) -> c_int {
    // SAFETY: passed on.
    let sem = unsafe { named(sem) };
    let taken = sem.and_then(|sem| match block {
        0 => sem.try_acquire().map_err(errno_of_try),
        _ => acquire(sem, 1, NO_TIMEOUT),
    });
    value(taken.map(|()| 1), 0)
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn upsem(sem: *const Semaphore) {
    // SAFETY: passed on.
    let Ok(sem) = (unsafe { named(sem) }) else {
        misused("upsem", "no semaphore")
    };
    if let Err(overflow) = sem.release(1) {
        misused("upsem", overflow);
    }
}

/// # Safety
/// As `umcg_sem_any`.
#[unsafe(no_mangle)]
unsafe extern "C" fn altsems(sems: *const *const Semaphore, n: c_int) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_sem_any(sems, n, NO_TIMEOUT) }
}

/// # Safety
/// As `initsem`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_init(sem: *mut Semaphore, wakeups: u32, flags: c_int) -> c_int {
    let made = match flags {
        0 => Semaphore::new(wakeups),
        BARGING => Semaphore::barging(wakeups),
        _ => return status(Err(EINVAL)),
    };
    if sem.is_null() {
        return status(Err(EINVAL));
    }
    // SAFETY: by the contract.
    unsafe { sem.write(made) };
    0
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_acquire(sem: *const Semaphore) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_sem_acquire_many(sem, 1, NO_TIMEOUT) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_acquire_until(sem: *const Semaphore, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_sem_acquire_many(sem, 1, deadline_ns) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_acquire_many(
    sem: *const Semaphore,
    wakeups: u32,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(sem) }.and_then(|sem| acquire(sem, wakeups, deadline_ns)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_try_acquire(sem: *const Semaphore) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_sem_try_acquire_many(sem, 1) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_try_acquire_many(sem: *const Semaphore, wakeups: u32) -> c_int {
    // SAFETY: passed on.
    status(
        unsafe { named(sem) }.and_then(|sem| sem.try_acquire_many(wakeups).map_err(errno_of_try)),
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_release(sem: *const Semaphore, wakeups: u32) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(sem) }.and_then(|sem| sem.release(wakeups).map_err(|_| EOVERFLOW)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_close(sem: *const Semaphore) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(sem) }.map(Semaphore::close))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_available(sem: *const Semaphore) -> i64 {
    // SAFETY: passed on.
    value(unsafe { named(sem) }.map(|sem| sem.available().into()), -1)
}

/// # Safety
/// `sems` is null, or points to `n` semaphores as for `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_sem_any(
    sems: *const *const Semaphore,
    n: c_int,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    let sems = unsafe { references(sems, n) };
    // The index is less than `n`.
    value(
        sems.and_then(|sems| any(sems, deadline_ns))
            .map(|index| index as c_int),
        -1,
    )
}
