//! Tubes in segments, of messages that have a size.

use super::{Opening, errno_of_fault, named, object, unboxed, wait};
use crate::rt::{NO_TIMEOUT, status, value};
use libc::{EAGAIN, EINVAL, ESHUTDOWN, ETIMEDOUT, c_char, c_int, ssize_t};
use std::ffi::c_void;
use umcg::segment::{ByteTube, TryTubeError, TubeError, TubeWaitError};

fn errno_of_try(error: TryTubeError) -> c_int {
    match error {
        TryTubeError::NotNow => EAGAIN,
        TryTubeError::Closed => ESHUTDOWN,
        TryTubeError::Fault(fault) => errno_of_fault(fault),
    }
}

fn errno_of_tube(error: TubeError) -> c_int {
    match error {
        TubeError::Closed => ESHUTDOWN,
        TubeError::Fault(fault) => errno_of_fault(fault),
    }
}

fn errno_of_wait(error: TubeWaitError) -> c_int {
    match error {
        TubeWaitError::TimedOut => ETIMEDOUT,
        TubeWaitError::Closed => ESHUTDOWN,
        TubeWaitError::Fault(fault) => errno_of_fault(fault),
    }
}

/// A tube, and the message to send.
///
/// # Safety
/// As `named`; `message` is null, or there is a message.
unsafe fn sending<'a>(
    tube: *const ByteTube,
    message: *const c_void,
) -> Result<(&'a ByteTube, &'a [u8]), c_int> {
    // SAFETY: passed on.
    let tube = unsafe { named(tube) }?;
    if message.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: this many bytes by the contract; in C they have some value.
    Ok((tube, unsafe {
        std::slice::from_raw_parts(message.cast(), tube.message_size())
    }))
}

/// A tube, and the place for a message.
///
/// # Safety
/// As `named`; `message` is null, or a place for one that no other thread uses.
unsafe fn receiving<'a>(
    tube: *const ByteTube,
    message: *mut c_void,
) -> Result<(&'a ByteTube, &'a mut [u8]), c_int> {
    // SAFETY: passed on.
    let tube = unsafe { named(tube) }?;
    if message.is_null() {
        return Err(EINVAL);
    }
    // SAFETY: as in `sending`; it is only written to.
    Ok((tube, unsafe {
        std::slice::from_raw_parts_mut(message.cast(), tube.message_size())
    }))
}

fn send(tube: &ByteTube, message: &[u8], deadline_ns: u64) -> Result<(), c_int> {
    match tube.try_send(message) {
        Err(TryTubeError::NotNow) => wait(deadline_ns, |deadline| match deadline {
            None => tube.send(message).map_err(errno_of_tube),
            Some(at) => tube.send_deadline(message, at).map_err(errno_of_wait),
        }),
        tried => tried.map_err(errno_of_try),
    }
}

fn recv(tube: &ByteTube, message: &mut [u8], deadline_ns: u64) -> Result<(), c_int> {
    match tube.try_recv(message) {
        Err(TryTubeError::NotNow) => wait(deadline_ns, |deadline| match deadline {
            None => tube.recv(message).map_err(errno_of_tube),
            Some(at) => tube.recv_deadline(message, at).map_err(errno_of_wait),
        }),
        tried => tried.map_err(errno_of_try),
    }
}

/// # Safety
/// As `object`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube(
    opening: *const Opening,
    name: *const c_char,
    size: usize,
    capacity: u32,
) -> *mut ByteTube {
    // SAFETY: passed on.
    unsafe {
        object(opening, name, |opening, name| {
            opening.segment.tube_bytes(name, size, capacity)
        })
    }
}

/// # Safety
/// As `unboxed`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_free(tube: *mut ByteTube) {
    // SAFETY: passed on.
    unsafe { unboxed(tube) };
}

/// # Safety
/// As `sending`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_send(
    tube: *const ByteTube,
    message: *const c_void,
) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_segment_tube_send_until(tube, message, NO_TIMEOUT) }
}

/// # Safety
/// As `sending`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_send_until(
    tube: *const ByteTube,
    message: *const c_void,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    status(
        unsafe { sending(tube, message) }
            .and_then(|(tube, message)| send(tube, message, deadline_ns)),
    )
}

/// # Safety
/// As `sending`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_try_send(
    tube: *const ByteTube,
    message: *const c_void,
) -> c_int {
    // SAFETY: passed on.
    status(
        unsafe { sending(tube, message) }
            .and_then(|(tube, message)| tube.try_send(message).map_err(errno_of_try)),
    )
}

/// # Safety
/// As `receiving`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_recv(tube: *const ByteTube, message: *mut c_void) -> c_int {
    // SAFETY: passed on.
    unsafe { umcg_segment_tube_recv_until(tube, message, NO_TIMEOUT) }
}

/// # Safety
/// As `receiving`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_recv_until(
    tube: *const ByteTube,
    message: *mut c_void,
    deadline_ns: u64,
) -> c_int {
    // SAFETY: passed on.
    status(
        unsafe { receiving(tube, message) }
            .and_then(|(tube, message)| recv(tube, message, deadline_ns)),
    )
}

/// # Safety
/// As `receiving`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_try_recv(
    tube: *const ByteTube,
    message: *mut c_void,
) -> c_int {
    // SAFETY: passed on.
    status(
        unsafe { receiving(tube, message) }
            .and_then(|(tube, message)| tube.try_recv(message).map_err(errno_of_try)),
    )
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_close(tube: *const ByteTube) -> c_int {
    // SAFETY: passed on.
    status(unsafe { named(tube) }.and_then(|tube| tube.close().map_err(errno_of_fault)))
}

/// # Safety
/// As `named`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_length(tube: *const ByteTube) -> ssize_t {
    // SAFETY: passed on. It has 32 bits.
    value(unsafe { named(tube) }.map(|tube| tube.len() as ssize_t), -1)
}

/// # Safety
/// As `named`; `receivers` and `senders` are null, or may be written.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_waiters(
    tube: *const ByteTube,
    receivers: *mut usize,
    senders: *mut usize,
) -> c_int {
    // SAFETY: passed on.
    let waiters = unsafe { named(tube) }.and_then(|tube| tube.waiters().map_err(errno_of_fault));
    status(waiters.map(|waiters| {
        for (place, count) in [(receivers, waiters.0), (senders, waiters.1)] {
            if !place.is_null() {
                // SAFETY: by the contract.
                unsafe { place.write(count) };
            }
        }
    }))
}
