//! `umcg/tube.h`: C's names for `umcg::tube`, with messages of a size in place of a type.

mod any;
mod many;
mod places;

use crate::answer::{answer, require};
use crate::misused;
use crate::object::{boxed, methods, named, unboxed};
use crate::wait::{NO_TIMEOUT, for_ever, interruptible};
use libc::{EAGAIN, EINVAL, ENOMEM, ESHUTDOWN, ETIMEDOUT, c_int, c_ulong, ssize_t};
use std::ffi::c_void;
use umcg::rt::ffi;
use umcg::tube::ffi::{TransferError, Tube};

/// The most that a tube has room for.
const MOST: usize = (1 << 28) - 1;

/// The tube that C named, and the address of its messages, which may be null if they have no bytes.
///
/// # Safety
/// As `named`.
pub(crate) unsafe fn with_message<'a>(
    tube: *const Tube,
    message: *mut c_void,
) -> Result<(&'a Tube, *mut u8), c_int> {
    // SAFETY: passed on.
    let tube = unsafe { named(tube) }?;
    match message.cast::<u8>() {
        message if !message.is_null() => Ok((tube, message)),
        _ if tube.size() == 0 => Ok((tube, std::ptr::dangling_mut())),
        _ => Err(EINVAL),
    }
}

/// A refusal's number, for a call that does not wait.
fn errno_of_try(why: TransferError) -> c_int {
    match why {
        TransferError::Closed => ESHUTDOWN,
        TransferError::WouldBlock => EAGAIN,
    }
}

/// The same for a call that may wait.
fn errno_of(why: TransferError) -> c_int {
    match why {
        TransferError::Closed => ESHUTDOWN,
        TransferError::WouldBlock => ETIMEDOUT,
    }
}

fn deadline(nanoseconds: u64) -> Option<u64> {
    (nanoseconds != NO_TIMEOUT).then_some(nanoseconds)
}

/// # Safety
/// There is a message at `from`.
unsafe fn send(tube: &Tube, from: *const u8, deadline_ns: u64) -> Result<(), c_int> {
    // SAFETY: passed on.
    match unsafe { tube.try_send(from) } {
        // SAFETY: passed on.
        Err(TransferError::WouldBlock) => unsafe { wait_to_send(tube, from, deadline_ns) },
        tried => tried.map_err(errno_of_try),
    }
}

/// # Safety
/// As `send`.
#[inline(never)]
unsafe fn wait_to_send(tube: &Tube, from: *const u8, deadline_ns: u64) -> Result<(), c_int> {
    // SAFETY: passed on.
    interruptible(|| unsafe { tube.send(from, deadline(deadline_ns)) })?.map_err(errno_of)
}

/// # Safety
/// There is a place for a message at `into`.
unsafe fn recv(tube: &Tube, into: *mut u8, deadline_ns: u64) -> Result<(), c_int> {
    // SAFETY: passed on.
    match unsafe { tube.try_recv(into) } {
        // SAFETY: passed on.
        Err(TransferError::WouldBlock) => unsafe { wait_to_recv(tube, into, deadline_ns) },
        tried => tried.map_err(errno_of_try),
    }
}

/// # Safety
/// As `recv`.
#[inline(never)]
unsafe fn wait_to_recv(tube: &Tube, into: *mut u8, deadline_ns: u64) -> Result<(), c_int> {
    // SAFETY: passed on.
    interruptible(|| unsafe { tube.recv(into, deadline(deadline_ns)) })?.map_err(errno_of)
}

/// For functions that return nothing: prints the error, and ends the process.
fn or_misused(function: &str, result: Result<(), c_int>) {
    match result {
        Ok(()) => {}
        Err(ESHUTDOWN) => misused(function, "the tube is closed"),
        Err(_) => misused(function, "no tube, or no message"),
    }
}

#[unsafe(no_mangle)]
extern "C" fn newtube(msz: c_ulong, n: c_ulong) -> *mut Tube {
    umcg_tube_create(msz as usize, n as usize)
}

/// # Safety
/// As `umcg_tube_destroy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn freetube(tube: *mut Tube) {
    // SAFETY: passed on.
    unsafe { umcg_tube_destroy(tube) };
}

/// # Safety
/// As `umcg_tube_send`.
#[unsafe(no_mangle)]
unsafe extern "C" fn tsend(tube: *const Tube, message: *mut c_void) {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    or_misused(
        "tsend",
        tube.and_then(|(tube, from)| ffi::shielded(|| unsafe { send(tube, from, NO_TIMEOUT) })),
    );
}

/// # Safety
/// As `umcg_tube_recv`.
#[unsafe(no_mangle)]
unsafe extern "C" fn trecv(tube: *const Tube, message: *mut c_void) {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    or_misused(
        "trecv",
        tube.and_then(|(tube, into)| ffi::shielded(|| unsafe { recv(tube, into, NO_TIMEOUT) })),
    );
}

/// # Safety
/// As `umcg_tube_send`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nbtsend(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_tube_try_send(tube, message) }
}

/// # Safety
/// As `umcg_tube_recv`.
#[unsafe(no_mangle)]
unsafe extern "C" fn nbtrecv(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_tube_try_recv(tube, message) }
}

#[unsafe(no_mangle)]
extern "C" fn umcg_tube_create(size: usize, capacity: usize) -> *mut Tube {
    let fits = require(capacity <= MOST, EINVAL);
    boxed(fits.and_then(|()| Tube::new(size, capacity).ok_or(ENOMEM)))
}

/// # Safety
/// `tube` is null, or came from `umcg_tube_create` and is not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_destroy(tube: *mut Tube) {
    // SAFETY: passed on.
    unsafe { unboxed(tube) };
}

for_ever! {
    umcg_tube_send(tube: *const Tube, message: *mut c_void) -> c_int = umcg_tube_send_until;
    umcg_tube_recv(tube: *const Tube, message: *mut c_void) -> c_int = umcg_tube_recv_until;
}

/// # Safety
/// As `with_message`; there is a message.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_send_until(
    tube: *const Tube,
    message: *mut c_void,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    answer(tube.and_then(|(tube, from)| unsafe { send(tube, from, deadline_ns) }))
}

/// # Safety
/// As `umcg_tube_send_until`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_send(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    answer(tube.and_then(|(tube, from)| unsafe { tube.try_send(from) }.map_err(errno_of_try)))
}

/// # Safety
/// As `with_message`; there is a place for one.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv_until(
    tube: *const Tube,
    message: *mut c_void,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    answer(tube.and_then(|(tube, into)| unsafe { recv(tube, into, deadline_ns) }))
}

/// # Safety
/// As `umcg_tube_recv_until`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_recv(tube: *const Tube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, message) };
    // SAFETY: passed on.
    answer(tube.and_then(|(tube, into)| unsafe { tube.try_recv(into) }.map_err(errno_of_try)))
}

methods! {
    Tube {
        umcg_tube_close() -> c_int = Tube::close;
        umcg_tube_length() -> ssize_t = Tube::len;
        umcg_tube_capacity() -> ssize_t = Tube::capacity;
    }
}
