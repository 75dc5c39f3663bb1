//! `umcg/sem.h`: C's names for `umcg::sync::Semaphore` and `acquire_any`.
//!
//! A call first takes a saved wakeup.

use crate::answer::{answer, errno_of};
use crate::object::{init, methods, named};
use crate::wait::{NO_TIMEOUT, wait};
use crate::{failed, misused, references};
use libc::{EINVAL, c_int};
use umcg::sync::{self, Semaphore, TryAcquireError};

// `umcg_sem_t`, whose first word is that of `UMCG_SEM_INIT`. The C tests check that zeros are a
// semaphore.
const _: () = assert!(size_of::<Semaphore>() == 24 && align_of::<Semaphore>() == 8);

const BARGING: c_int = 1;

fn acquire(sem: &Semaphore, wakeups: u32, deadline_ns: u64) -> Result<(), c_int> {
    match sem.try_acquire_many(wakeups) {
        Err(TryAcquireError::Empty) => wait(deadline_ns, |deadline| match deadline {
            None => sem.acquire_many(wakeups).map_err(errno_of),
            Some(at) => sem.acquire_many_deadline(wakeups, at).map_err(errno_of),
        }),
        tried => tried.map_err(errno_of),
    }
}

fn any(sems: &[&Semaphore], deadline_ns: u64) -> Result<usize, c_int> {
    match sync::ffi::try_each(sems) {
        Err(TryAcquireError::Empty) => wait(deadline_ns, |deadline| match deadline {
            None => sync::acquire_any(sems).map_err(errno_of),
            Some(at) => sync::acquire_any_deadline(sems, at).map_err(errno_of),
        }),
        tried => tried.map_err(errno_of),
    }
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
        0 => sem.try_acquire().map_err(errno_of),
        _ => acquire(sem, 1, NO_TIMEOUT),
    });
    match taken {
        Ok(()) => 1,
        Err(errno) => failed(errno, 0),
    }
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
        0 => Ok(Semaphore::new(wakeups)),
        BARGING => Ok(Semaphore::barging(wakeups)),
        _ => Err(EINVAL),
    };
    // SAFETY: passed on.
    unsafe { init(sem, made) }
}

methods! {
    Semaphore {
        umcg_sem_acquire() -> c_int = |sem| acquire(sem, 1, NO_TIMEOUT);
        umcg_sem_acquire_until(deadline_ns: u64) -> c_int = |sem| acquire(sem, 1, deadline_ns);
        umcg_sem_try_acquire() -> c_int = |sem| sem.try_acquire_many(1);
        umcg_sem_acquire_many(wakeups: u32, deadline_ns: u64) -> c_int
            = |sem| acquire(sem, wakeups, deadline_ns);
        umcg_sem_try_acquire_many(wakeups: u32) -> c_int = |sem| sem.try_acquire_many(wakeups);
        umcg_sem_release(wakeups: u32) -> c_int = |sem| sem.release(wakeups);
        umcg_sem_close() -> c_int = Semaphore::close;
        umcg_sem_available() -> i64 = Semaphore::available;
    }
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
    answer(sems.and_then(|sems| any(sems, deadline_ns)))
}
