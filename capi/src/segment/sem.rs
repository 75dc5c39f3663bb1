//! Semaphores in segments, and altsems over them.

use super::{Opening, object};
use crate::answer::{answer, errno_of, require};
use crate::object::{methods, unboxed};
use crate::references;
use crate::wait::{NO_TIMEOUT, wait};
use libc::{EINVAL, c_char, c_int, ssize_t};
use umcg::segment::{self, Semaphore, TryError};

/// `umcg_segment_sem_t`. The crate's handle comes first, so that pointers to these are references
/// to that.
#[repr(C)]
struct Sem {
    semaphore: Semaphore,
    /// [`Opening::number`]: the crate panics when those of several openings are waited for
    /// together.
    opening: u64,
}

fn acquire(sem: &Semaphore, wakeups: u32, deadline_ns: u64) -> Result<(), c_int> {
    match sem.try_acquire_many(wakeups) {
        Err(TryError::Empty) => wait(deadline_ns, |deadline| match deadline {
            None => sem.acquire_many(wakeups).map_err(errno_of),
            Some(at) => sem.acquire_many_deadline(wakeups, at).map_err(errno_of),
        }),
        tried => tried.map_err(errno_of),
    }
}

fn any(sems: &[&Semaphore], deadline_ns: u64) -> Result<usize, c_int> {
    match segment::try_acquire_any(sems) {
        Err(TryError::Empty) => wait(deadline_ns, |deadline| match deadline {
            None => segment::acquire_any(sems).map_err(errno_of),
            Some(at) => segment::acquire_any_deadline(sems, at).map_err(errno_of),
        }),
        tried => tried.map_err(errno_of),
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

methods! {
    Sem {
        umcg_segment_sem_acquire() -> c_int = |sem| acquire(&sem.semaphore, 1, NO_TIMEOUT);
        umcg_segment_sem_acquire_until(deadline_ns: u64) -> c_int
            = |sem| acquire(&sem.semaphore, 1, deadline_ns);
        umcg_segment_sem_try_acquire() -> c_int = |sem| sem.semaphore.try_acquire_many(1);
        umcg_segment_sem_acquire_many(wakeups: u32, deadline_ns: u64) -> c_int
            = |sem| acquire(&sem.semaphore, wakeups, deadline_ns);
        umcg_segment_sem_try_acquire_many(wakeups: u32) -> c_int
            = |sem| sem.semaphore.try_acquire_many(wakeups);
        umcg_segment_sem_release(wakeups: u32) -> c_int = |sem| sem.semaphore.release(wakeups);
        umcg_segment_sem_available() -> i64 = |sem| sem.semaphore.available();
        umcg_segment_sem_waiters() -> ssize_t = |sem| sem.semaphore.waiters();
    }
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
    answer(unsafe { references(sems, n) }.and_then(|sems| {
        require(
            sems.iter().all(|sem| sem.opening == sems[0].opening),
            EINVAL,
        )?;
        // SAFETY: the object referred to begins with a `Semaphore`.
        let sems = unsafe { &*(std::ptr::from_ref(sems) as *const [&Semaphore]) };
        any(sems, deadline_ns)
    }))
}
