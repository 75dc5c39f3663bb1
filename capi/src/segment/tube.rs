//! Tubes in segments, of messages that have a size.

use super::{Opening, object};
use crate::answer::{answer, errno_of};
use crate::object::{methods, named, store, unboxed};
use crate::wait::{for_ever, wait};
use libc::{EINVAL, c_char, c_int, ssize_t};
use std::ffi::c_void;
use umcg::segment::{ByteTube, TryTubeError};

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
            None => tube.send(message).map_err(errno_of),
            Some(at) => tube.send_deadline(message, at).map_err(errno_of),
        }),
        tried => tried.map_err(errno_of),
    }
}

fn recv(tube: &ByteTube, message: &mut [u8], deadline_ns: u64) -> Result<(), c_int> {
    match tube.try_recv(message) {
        Err(TryTubeError::NotNow) => wait(deadline_ns, |deadline| match deadline {
            None => tube.recv(message).map_err(errno_of),
            Some(at) => tube.recv_deadline(message, at).map_err(errno_of),
        }),
        tried => tried.map_err(errno_of),
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

for_ever! {
    umcg_segment_tube_send(tube: *const ByteTube, message: *const c_void) -> c_int
        = umcg_segment_tube_send_until;
    umcg_segment_tube_recv(tube: *const ByteTube, message: *mut c_void) -> c_int
        = umcg_segment_tube_recv_until;
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
    let asked = unsafe { sending(tube, message) };
    answer(asked.and_then(|(tube, message)| send(tube, message, deadline_ns)))
}

/// # Safety
/// As `sending`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_try_send(
    tube: *const ByteTube,
    message: *const c_void,
) -> c_int {
    // SAFETY: passed on.
    let asked = unsafe { sending(tube, message) };
    answer(asked.and_then(|(tube, message)| tube.try_send(message).map_err(errno_of)))
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
    let asked = unsafe { receiving(tube, message) };
    answer(asked.and_then(|(tube, message)| recv(tube, message, deadline_ns)))
}

/// # Safety
/// As `receiving`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_segment_tube_try_recv(
    tube: *const ByteTube,
    message: *mut c_void,
) -> c_int {
    // SAFETY: passed on.
    let asked = unsafe { receiving(tube, message) };
    answer(asked.and_then(|(tube, message)| tube.try_recv(message).map_err(errno_of)))
}

methods! {
    ByteTube {
        umcg_segment_tube_close() -> c_int = ByteTube::close;
        umcg_segment_tube_length() -> ssize_t = ByteTube::len;
    }
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
    let waiters = unsafe { named(tube) }.and_then(|tube| tube.waiters().map_err(errno_of));
    answer(waiters.map(|waiters| {
        for (place, count) in [(receivers, waiters.0), (senders, waiters.1)] {
            // SAFETY: by the contract.
            unsafe { store(place, count) };
        }
    }))
}
