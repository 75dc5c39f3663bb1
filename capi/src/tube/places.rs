//! Messages made, and read, in their places.

use super::{deadline, errno_of, errno_of_try};
use crate::answer::{answer, require};
use crate::object::named;
use crate::wait::{for_ever, interruptible};
use libc::{EAGAIN, EINVAL, ENOMEM, ESHUTDOWN, ETIMEDOUT, c_int};
use std::ffi::c_void;
use umcg::tube::ffi::{NoPlace, NotSent, TransferError, Tube};

/// A message in place, by the call that needs no waiting, or else by the one that may wait.
fn place(
    tried: Result<*mut u8, NoPlace>,
    errno_of: fn(TransferError) -> c_int,
    wait: impl FnOnce() -> Result<*mut c_void, c_int>,
) -> Result<*mut c_void, c_int> {
    match tried {
        Ok(at) => Ok(at.cast()),
        Err(NoPlace::NoMemory) => Err(ENOMEM),
        Err(NoPlace::Refused(TransferError::WouldBlock)) => wait(),
        Err(NoPlace::Refused(why)) => Err(errno_of(why)),
    }
}

/// The call that may wait, as a point of cancellation.
#[inline(never)]
fn waited_for(wait: impl FnOnce() -> Result<*mut u8, NoPlace>) -> Result<*mut c_void, c_int> {
    place(interruptible(wait)?, errno_of, || Err(ETIMEDOUT))
}

/// The tube that C named, if it has places.
///
/// # Safety
/// As `named`.
unsafe fn with_room<'a>(tube: *const Tube) -> Result<&'a Tube, c_int> {
    // SAFETY: passed on.
    let tube = unsafe { named(tube) }?;
    require(tube.capacity() > 0, EINVAL)?;
    Ok(tube)
}

for_ever! {
    umcg_tube_reserve(tube: *const Tube) -> *mut c_void = umcg_tube_reserve_until;
    umcg_tube_recv_ref(tube: *const Tube) -> *mut c_void = umcg_tube_recv_ref_until;
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_reserve_until(tube: *const Tube, deadline_ns: u64) -> *mut c_void {
    // SAFETY: passed on.
    let at = unsafe { with_room(tube) }.and_then(|tube| {
        place(tube.try_reserve(), errno_of, || {
            waited_for(|| tube.reserve(deadline(deadline_ns)))
        })
    });
    answer(at)
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_reserve(tube: *const Tube) -> *mut c_void {
    // SAFETY: passed on.
    let at = unsafe { with_room(tube) }
        .and_then(|tube| place(tube.try_reserve(), errno_of_try, || Err(EAGAIN)));
    answer(at)
}

/// # Safety
/// As `named`; if the place came from `umcg_tube_reserve` or its like, it has a message.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_commit(tube: *const Tube, at: *mut c_void) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { named(tube) };
    answer(tube.and_then(|tube| {
        // SAFETY: by the contract.
        unsafe { tube.commit(at.addr()) }.map_err(|why| match why {
            NotSent::Closed => ESHUTDOWN,
            NotSent::NoPlace => EINVAL,
        })
    }))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_unreserve(tube: *const Tube, at: *mut c_void) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { named(tube) }.and_then(|tube| require(tube.unreserve(at.addr()), EINVAL)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv_ref_until(tube: *const Tube, deadline_ns: u64) -> *mut c_void {
    // SAFETY: passed on.
    let at = unsafe { named(tube) }.and_then(|tube| {
        place(tube.try_recv_ref(), errno_of, || {
            waited_for(|| tube.recv_ref(deadline(deadline_ns)))
        })
    });
    answer(at)
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_recv_ref(tube: *const Tube) -> *mut c_void {
    // SAFETY: passed on.
    let at = unsafe { named(tube) }
        .and_then(|tube| place(tube.try_recv_ref(), errno_of_try, || Err(EAGAIN)));
    answer(at)
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv_done(tube: *const Tube, at: *mut c_void) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { named(tube) }.and_then(|tube| require(tube.recv_done(at.addr()), EINVAL)))
}
