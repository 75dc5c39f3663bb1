//! Wait groups.

use super::{init, named, wait_until};
use crate::rt::{NO_TIMEOUT, status, value};
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

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_group_add(group: *const WaitGroup, more: u32) -> c_int {
    // SAFETY: passed on.
    status(
        unsafe { named(group) }
            .and_then(|group| ffi::add(group, more).then_some(()).ok_or(EOVERFLOW)),
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_group_done(group: *const WaitGroup) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(group) }.and_then(|group| ffi::done(group).then_some(()).ok_or(EPERM)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_group_count(group: *const WaitGroup) -> i64 {
    // SAFETY: passed on.
    value(
        unsafe { named(group) }.map(|group| group.count().into()),
        -1,
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_group_wait(group: *const WaitGroup) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_wait_group_wait_until(group, NO_TIMEOUT) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_wait_group_wait_until(
    group: *const WaitGroup,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(group) }.and_then(|group| {
        if ffi::is_done(group) {
            return Ok(());
        }
        wait_until(
            deadline_ns,
            || group.wait(),
            |deadline| group.wait_deadline(deadline),
        )
    }))
}
