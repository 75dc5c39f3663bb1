//! Once-only initialisation.

use super::{named, wait_until};
use crate::rt::{NO_TIMEOUT, status, value};
use libc::{ECANCELED, EINVAL, c_int};
use umcg::rt::ffi::{self as rt_ffi, Cancelled};
use umcg::sync::{Once, ffi};

// `umcg_once_t`.
const _: () = assert!(size_of::<Once>() == 24 && align_of::<Once>() == 8);

/// The function itself is called outside of `interruptible`: its frames are unwound only by an
/// exception of its own, which leaves it not done.
///
/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn umcg_once(
    once: *const Once,
    function: Option<extern "C-unwind" fn()>,
) -> c_int {
    // SAFETY: passed on.
    let named = unsafe { named(once) };
    let begun = named.and_then(|once| {
        let function = function.ok_or(EINVAL)?;
        if once.is_completed() {
            return Ok(None);
        }
        let begun = match ffi::try_begin(once) {
            None => rt_ffi::interruptible(|| ffi::begin(once)).map_err(|Cancelled| ECANCELED)?,
            begun => begun,
        };
        Ok(begun.map(|doing| (doing, function)))
    });
    status(begun.map(|begun| {
        if let Some((doing, function)) = begun {
            function();
            ffi::end(doing);
        }
    }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_once_is_done(once: *const Once) -> c_int {
    // SAFETY: passed on.
    value(
        unsafe { named(once) }.map(|once| once.is_completed().into()),
        -1,
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_once_wait(once: *const Once) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_once_wait_until(once, NO_TIMEOUT) }
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_once_wait_until(once: *const Once, deadline_ns: u64) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(once) }.and_then(|once| {
        if once.is_completed() {
            return Ok(());
        }
        wait_until(
            deadline_ns,
            || once.wait(),
            |deadline| once.wait_deadline(deadline),
        )
    }))
}
