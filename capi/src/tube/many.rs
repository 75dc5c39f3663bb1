//! Many messages by one call.

use super::{errno_of, errno_of_try, wait_to_recv, wait_to_send, with_message};
use crate::answer::{answer, require};
use libc::{EAGAIN, c_int, ssize_t};
use std::ffi::c_void;
use umcg::tube::ffi::{TransferError, Tube};

/// Sends all, or as many as it can until `deadline_ns`. The error is of the first.
///
/// # Safety
/// There are this many messages at `from`.
unsafe fn send_many(
    tube: &Tube,
    from: *const u8,
    count: usize,
    deadline_ns: u64,
) -> Result<usize, c_int> {
    let mut sent = 0;
    while sent < count {
        // SAFETY: passed on.
        let some =
            unsafe { tube.try_send_many(from.wrapping_add(sent * tube.size()), count - sent) };
        let next = some.map_err(errno_of).and_then(|some| {
            sent += some;
            if sent == count {
                return Ok(0);
            }
            // SAFETY: passed on.
            unsafe { wait_to_send(tube, from.wrapping_add(sent * tube.size()), deadline_ns) }
                .map(|()| 1)
        });
        match next {
            Ok(more) => sent += more,
            Err(errno) if sent == 0 => return Err(errno),
            Err(_) => break,
        }
    }
    Ok(sent)
}

/// Receives as many as are there, but one at least.
///
/// # Safety
/// There are places for this many messages at `into`.
unsafe fn recv_many(
    tube: &Tube,
    into: *mut u8,
    most: usize,
    deadline_ns: u64,
) -> Result<usize, c_int> {
    // SAFETY: passed on.
    let some = unsafe { tube.try_recv_many(into, most) }.map_err(errno_of)?;
    if some > 0 || most == 0 {
        return Ok(some);
    }
    // SAFETY: passed on.
    unsafe { wait_to_recv(tube, into, deadline_ns) }?;
    // SAFETY: passed on.
    let others = unsafe { tube.try_recv_many(into.wrapping_add(tube.size()), most - 1) };
    // If it is closed just now, the next call says so.
    Ok(1 + others.unwrap_or(0))
}

fn some_or_again(done: Result<usize, TransferError>, asked: usize) -> Result<usize, c_int> {
    let done = done.map_err(errno_of_try)?;
    require(done > 0 || asked == 0, EAGAIN)?;
    Ok(done)
}

/// # Safety
/// As `with_message`; there are this many messages.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_send_many(
    tube: *const Tube,
    messages: *mut c_void,
    n: usize,
    deadline_ns: u64,
) -> ssize_t {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, messages) };
    // SAFETY: passed on.
    answer(tube.and_then(|(tube, from)| unsafe { send_many(tube, from, n, deadline_ns) }))
}

/// # Safety
/// As `umcg_tube_send_many`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_send_many(
    tube: *const Tube,
    messages: *mut c_void,
    n: usize,
) -> ssize_t {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, messages) };
    // SAFETY: passed on.
    answer(tube.and_then(|(tube, from)| some_or_again(unsafe { tube.try_send_many(from, n) }, n)))
}

/// # Safety
/// As `with_message`; there are places for this many.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_recv_many(
    tube: *const Tube,
    messages: *mut c_void,
    most: usize,
    deadline_ns: u64,
) -> ssize_t {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, messages) };
    // SAFETY: passed on.
    answer(tube.and_then(|(tube, into)| unsafe { recv_many(tube, into, most, deadline_ns) }))
}

/// # Safety
/// As `umcg_tube_recv_many`.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_tube_try_recv_many(
    tube: *const Tube,
    messages: *mut c_void,
    most: usize,
) -> ssize_t {
    // SAFETY: passed on.
    let tube = unsafe { with_message(tube, messages) };
    answer(tube.and_then(|(tube, into)| {
        // SAFETY: passed on.
        some_or_again(unsafe { tube.try_recv_many(into, most) }, most)
    }))
}
