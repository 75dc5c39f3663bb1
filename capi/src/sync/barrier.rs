//! Barriers.

use crate::answer::require;
use crate::object::{init, methods};
use crate::wait::{NO_TIMEOUT, wait};
use libc::{EINVAL, c_int};
use umcg::sync::{Barrier, ffi};

// `umcg_barrier_t`.
const _: () = assert!(size_of::<Barrier>() == 32 && align_of::<Barrier>() == 8);
const _: () = assert!(ffi::BARRIER_PARTIES == 24);

/// # Safety
/// As `init`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_barrier_init(barrier: *mut Barrier, parties: u32) -> c_int {
    let made = require(parties > 0, EINVAL).map(|()| Barrier::new(parties));
    // SAFETY: passed on.
    unsafe { init(barrier, made) }
}

/// Whether the caller is the leader.
fn wait_for(barrier: &Barrier, deadline_ns: u64) -> Result<bool, c_int> {
    let waited = wait(deadline_ns, |deadline| match deadline {
        None => Ok(barrier.wait()),
        Some(deadline) => barrier.wait_deadline(deadline),
    });
    waited.map(|waited| waited.is_leader())
}

methods! {
    Barrier {
        umcg_barrier_wait() -> c_int = |barrier| wait_for(barrier, NO_TIMEOUT);
        umcg_barrier_wait_until(deadline_ns: u64) -> c_int
            = |barrier| wait_for(barrier, deadline_ns);
    }
}
