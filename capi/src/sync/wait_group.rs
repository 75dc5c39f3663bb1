//! Wait groups.

use crate::answer::require;
use crate::object::{init, methods};
use crate::wait::{NO_TIMEOUT, wait_until};
use libc::{EOVERFLOW, EPERM, c_int};
use umcg::sync::{WaitGroup, ffi};

// `umcg_wait_group_t`.
const _: () = assert!(size_of::<WaitGroup>() == 16 && align_of::<WaitGroup>() == 8);

/// # Safety
/// As `init`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_group_init(group: *mut WaitGroup) -> c_int {
    // SAFETY: passed on.
    unsafe { init(group, Ok(WaitGroup::new())) }
}

fn wait_for(group: &WaitGroup, deadline_ns: u64) -> Result<(), c_int> {
    if ffi::is_done(group) {
        return Ok(());
    }
    wait_until(
        deadline_ns,
        || group.wait(),
        |deadline| group.wait_deadline(deadline),
    )
}

methods! {
    WaitGroup {
        umcg_wait_group_add(more: u32) -> c_int = |group| require(ffi::add(group, more), EOVERFLOW);
        umcg_wait_group_done() -> c_int = |group| require(ffi::done(group), EPERM);
        umcg_wait_group_count() -> i64 = WaitGroup::count;
        umcg_wait_group_wait() -> c_int = |group| wait_for(group, NO_TIMEOUT);
        umcg_wait_group_wait_until(deadline_ns: u64) -> c_int
            = |group| wait_for(group, deadline_ns);
    }
}
