//! Semaphores in segments, and altsems over them.

use super::{Opening, errno_of_fault, named, object, unboxed, wait};
use crate::references;
use crate::rt::{NO_TIMEOUT, status, value};
use libc::{EAGAIN, EINVAL, EOVERFLOW, ETIMEDOUT, c_char, c_int, ssize_t};
use umcg::segment::{self, ReleaseError, Semaphore, TryError, WaitError};

/// `umcg_segment_sem_t`. The crate's handle comes first, so that pointers to these are references
/// to that.
#[repr(C)]
struct Sem {
    semaphore: Semaphore,
    /// [`Opening::number`]: the crate panics when those of several openings are waited for
    /// together.
    opening: u64,
}

pub(super) fn errno_of_try(error: TryError) -> c_int {
    match error {
        TryError::Empty => EAGAIN,
        TryError::Fault(fault) => errno_of_fault(fault),
    }
}

pub(super) fn errno_of_wait(error: WaitError) -> c_int {
    match error {
        WaitError::TimedOut => ETIMEDOUT,
        WaitError::Fault(fault) => errno_of_fault(fault),
    }
}

fn acquire(sem: &Semaphore, wakeups: u32, deadline_ns: u64) -> Result<(), c_int> {
    match sem.try_acquire_many(wakeups) {
        Err(TryError::Empty) => wait(deadline_ns, |deadline| match deadline {
            None => sem.acquire_many(wakeups).map_err(errno_of_fault),
            Some(at) => sem
                .acquire_many_deadline(wakeups, at)
                .map_err(errno_of_wait),
        }),
        tried => tried.map_err(errno_of_try),
    }
}

fn any(sems: &[&Semaphore], deadline_ns: u64) -> Result<usize, c_int> {
    match segment::try_acquire_any(sems) {
        Err(TryError::Empty) => wait(deadline_ns, |deadline| match deadline {
            None => segment::acquire_any(sems).map_err(errno_of_fault),
            Some(at) => segment::acquire_any_deadline(sems, at).map_err(errno_of_wait),
        }),
        tried => tried.map_err(errno_of_try),
    }
}

/// # Safety
/// As `object`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem(
    opening: *const Opening,
    name: *const c_char,
    wakeups: u32,
) -> *mut Sem {
    let make = |opening: &Opening, name: &str| {
        Ok(Sem {
            semaphore: opening.segment.semaphore(name, wakeups)?,
            opening: opening.number,
        })
    };
    // SAFETY: passed on.
    unsafe { object(opening, name, make) }
}

/// # Safety
/// As `unboxed`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_free(sem: *mut Sem) {
    // SAFETY: passed on.
    unsafe { unboxed(sem) };
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_acquire(sem: *const Sem) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_segment_sem_acquire_many(sem, 1, NO_TIMEOUT) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_acquire_until(sem: *const Sem, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_segment_sem_acquire_many(sem, 1, deadline_ns) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_acquire_many(
    sem: *const Sem,
    wakeups: u32,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(sem) }.and_then(|sem| acquire(&sem.semaphore, wakeups, deadline_ns)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_try_acquire(sem: *const Sem) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_segment_sem_try_acquire_many(sem, 1) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_try_acquire_many(sem: *const Sem, wakeups: u32) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(sem) }.and_then(|sem| {
        sem.semaphore
            .try_acquire_many(wakeups)
            .map_err(errno_of_try)
    }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_release(sem: *const Sem, wakeups: u32) -> c_int {
    // SAFETY: passed on.
    let released = unsafe { named(sem) }.and_then(|sem| {
        sem.semaphore.release(wakeups).map_err(|error| match error {
            ReleaseError::Overflow => EOVERFLOW,
            ReleaseError::Fault(fault) => errno_of_fault(fault),
        })
    });
    status(released)
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_available(sem: *const Sem) -> i64 {
    // SAFETY: passed on.
    value(
        unsafe { named(sem) }.map(|sem| sem.semaphore.available().into()),
        -1,
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_waiters(sem: *const Sem) -> ssize_t {
    // SAFETY: passed on.
    let waiters =
        unsafe { named(sem) }.and_then(|sem| sem.semaphore.waiters().map_err(errno_of_fault));
    // There are at most as many as a segment has records.
    value(waiters.map(|waiters| waiters as ssize_t), -1)
}

/// # Safety
/// `sems` is null, or points to `n` semaphores as for `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_sem_any(
    sems: *const *const Sem,
    n: c_int,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    let index = unsafe { references(sems, n) }.and_then(|sems| {
        if sems.iter().any(|sem| sem.opening != sems[0].opening) {
            return Err(EINVAL);
        }
        // SAFETY: the object referred to begins with a `Semaphore`.
        any(
            unsafe { &*(std::ptr::from_ref(sems) as *const [&Semaphore]) },
            deadline_ns,
        )
    });
    // The index is less than `n`.
    value(index.map(|index| index as c_int), -1)
}
