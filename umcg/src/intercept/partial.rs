//! Calls of which a part was done in place: the rest is a call of its own, at home.
//!
//! To the program both are one call. One that has done a part, and then fails, returns the part. It
//! leaves an error of the socket to the next call, and sends no SIGXFSZ. A call for the rest would
//! take the error, and send the signal. So:
//!
//! - Before the rest is sent to a socket, the guest waits for room, by poll(2). So the rest begins
//!   with a part of its own. An error may still come between the two.
//! - Where a file has reached the process's limit, there is no rest.
//! - There is none for a descriptor that is non-blocking, either.
//!
//! A pipe without readers sends SIGPIPE after a part as well.

use super::class::Trial;
use super::in_place::is_on_disk;
use super::stage::{DONE, LIMIT, POLLED, Stage, answered};
use rustix::fs::{OFlags, SeekFrom, fcntl_getfl, seek};
use rustix::net::sockopt::{Timeout, socket_timeout};
use rustix::process::{Resource, getrlimit};
use std::os::fd::BorrowedFd;
use std::ptr::from_ref;
use umcg_intercept::Call;

/// Where an entry of poll(2) has the events, and those that were found.
const EVENTS: usize = 32;
const FOUND: usize = 48;

/// How the call goes on, of which a part was done in place.
pub(super) fn rest(call: &mut Call, trial: Trial) -> Stage {
    let number = call.arguments[0];
    // SAFETY: a part was done by it. If it has been closed since, the kernel says so.
    let fd = unsafe { BorrowedFd::borrow_raw(number as i32) };
    if !matches!(trial, Trial::Write | Trial::Send) {
        return Stage::Rest;
    }
    if is_on_disk(number) {
        return if is_at_limit(fd) {
            part(call)
        } else {
            Stage::Rest
        };
    }
    if fcntl_getfl(fd).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK)) {
        return part(call);
    }
    let Ok(limit) = socket_timeout(fd, Timeout::Send) else {
        return Stage::Rest;
    };
    let limit = limit.map_or(-1, |limit| {
        i32::try_from(limit.as_millis()).unwrap_or(i32::MAX)
    });
    call.notes[POLLED] = number as u32 as usize | (libc::POLLOUT as usize) << EVENTS;
    call.notes[LIMIT] = limit as usize;
    Stage::Room
}

/// The call ends with the part.
fn part(call: &mut Call) -> Stage {
    let done = call.notes[DONE] as isize;
    answered(call, Some(done))
}

/// Whether the file's position is where the process may not write.
fn is_at_limit(fd: BorrowedFd<'_>) -> bool {
    let limit = getrlimit(Resource::Fsize).current;
    limit.is_some_and(|limit| seek(fd, SeekFrom::Current(0)).is_ok_and(|at| at >= limit))
}

/// Makes this the call that waits for room.
pub(super) fn wait_for_room(call: &mut Call) {
    call.number = libc::SYS_poll as usize;
    call.arguments[0] = from_ref(&call.notes[POLLED]).expose_provenance();
    call.arguments[1] = 1;
    call.arguments[2] = call.notes[LIMIT];
}

/// How the call goes on after that. A signal, and the end of the time, end it with the part. If
/// poll(2) is refused, the rest waits by itself.
pub(super) fn go_on(call: &mut Call, answer: isize) -> Stage {
    const EINTR: isize = -(libc::EINTR as isize);
    const OVER: libc::c_short = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
    let found = (call.notes[POLLED] >> FOUND) as libc::c_short;
    match answer {
        0 | EINTR => part(call),
        1 if found & OVER != 0 => part(call),
        _ => Stage::Rest,
    }
}
