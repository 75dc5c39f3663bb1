//! Barriers.

use super::{init, named, wait};
use crate::rt::{NO_TIMEOUT, value};
use libc::{EINVAL, c_int};
use umcg::sync::{Barrier, BarrierWaitResult, ffi};

// `umcg_barrier_t`.
const _: () = assert!(size_of::<Barrier>() == 32 && align_of::<Barrier>() == 8);
const _: () = assert!(ffi::BARRIER_PARTIES == 24);

/// # Safety
/// As `init`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_barrier_init(barrier: *mut Barrier, parties: u32) -> c_int {
    // SAFETY: passed on.
    unsafe {
        init(
            barrier,
            if parties == 0 {
                Err(EINVAL)
            } else {
                Ok(Barrier::new(parties))
            },
        )
    }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_barrier_wait(barrier: *const Barrier) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_barrier_wait_until(barrier, NO_TIMEOUT) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_barrier_wait_until(barrier: *const Barrier, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    let waited = unsafe { named(barrier) }.and_then(|barrier| {
        wait(deadline_ns, |deadline| match deadline {
            None => Some(barrier.wait()),
            Some(deadline) => barrier.wait_deadline(deadline).ok(),
        })
    });
    value(
        waited
            .as_ref()
            .map(BarrierWaitResult::is_leader)
            .map(c_int::from)
            .map_err(|errno| *errno),
        -1,
    )
}
