//! Giving way, waiting, and being asked to end.

use super::worker;
use crate::answer::{answer, errno_of, require};
use crate::wait::{NO_TIMEOUT, deadline};
use crate::{errno, set_errno};
use libc::{EINVAL, ETIMEDOUT};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{c_int, c_void};
use umcg::Handle;
use umcg::rt::ffi;
use umcg_core::ctl;

/// The worker or thread that C named.
///
/// # Safety
/// `handle` is null, or came from `umcg_self` or `umcg_worker_handle`.
unsafe fn named(handle: *mut c_void) -> Result<Handle, c_int> {
    if handle.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: by the contract, from `Handle::into_raw`.
    Ok(unsafe { Handle::from_raw(handle.cast_const().cast()) })
}

#[unsafe(no_mangle)]
extern "C" fn umcg_cancelled() -> c_int {
    ffi::is_cancelled().into()
}

#[unsafe(no_mangle)]
extern "C" fn umcg_shield_begin() -> c_int {
    ffi::begin_shield();
    0
}

#[unsafe(no_mangle)]
extern "C" fn umcg_shield_end() -> c_int {
    answer(require(ffi::end_shield(), EINVAL))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_yield() -> c_int {
    answer(ffi::yield_now())
}

#[unsafe(no_mangle)]
extern "C" fn umcg_sleep_ns(duration_ns: u64) -> c_int {
    answer(ffi::sleep_until(ffi::after(duration_ns)))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_sleep_until_ns(time_ns: u64) -> c_int {
    answer(ffi::sleep_until(time_ns))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_after_ns(timeout_ns: u64) -> u64 {
    // Nanoseconds since the machine has started.
    ffi::after(timeout_ns)
}

#[unsafe(no_mangle)]
extern "C" fn umcg_at_realtime_ns(time_ns: u64) -> u64 {
    if time_ns == NO_TIMEOUT {
        return NO_TIMEOUT;
    }
    let now = clock_gettime(ClockId::Realtime);
    let now = (now.tv_sec as u64)
        .saturating_mul(1_000_000_000)
        .saturating_add(now.tv_nsec as u64);
    // Read after the other clock, so that the deadline is not too early.
    let monotonic = ffi::after(0);
    match time_ns.checked_sub(now) {
        Some(remaining) => monotonic.saturating_add(remaining),
        // It has passed, but is a valid time.
        None => monotonic.saturating_sub(now - time_ns).max(1),
    }
}

#[unsafe(no_mangle)]
extern "C" fn umcg_self() -> *mut c_void {
    Handle::current().into_raw().cast_mut().cast()
}

#[unsafe(no_mangle)]
extern "C" fn umcg_park() -> c_int {
    umcg_park_until(NO_TIMEOUT)
}

#[unsafe(no_mangle)]
extern "C" fn umcg_park_until(deadline_ns: u64) -> c_int {
    let parked = ffi::park(deadline(deadline_ns)).map_err(errno_of);
    answer(parked.and_then(|is_unparked| require(is_unparked, ETIMEDOUT)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_unpark(handle: *mut c_void) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { named(handle) }.map(Handle::unpark))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_hand_over(next: *mut c_void) -> c_int {
    // SAFETY: passed on.
    let next = unsafe { named(next) };
    answer(next.and_then(|next| ffi::hand_over(next).map_err(errno_of)))
}

/// Not `umcg::blocking`, which catches a panic that leaves the function: an exception of another
/// language cannot be caught here.
#[unsafe(no_mangle)]
extern "C-unwind" fn umcg_blocking(
    function: Option<worker::WorkerFunction>,
    arg: *mut c_void,
) -> *mut c_void {
    /// Ends the scope also when an exception leaves the function.
    struct BlockingScope;
    impl Drop for BlockingScope {
        fn drop(&mut self) {
            // A sharing worker comes back from the storage of a helper thread: errno goes with it.
            let of_the_call = errno();
            let _ = ctl::blocking_end();
            set_errno(of_the_call);
        }
    }
    let Some(function) = function else {
        return crate::failed(EINVAL, std::ptr::null_mut());
    };
    ctl::blocking_begin();
    let _scope = BlockingScope;
    function(arg)
}
