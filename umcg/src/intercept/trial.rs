//! Calls that may block, tried in place by a guest that a server runs: if the kernel can do them at
//! once, the guest saves the way home. Otherwise they are made at home, as they are.
//!
//! - A try takes nothing that the call would not take, and its result is the call's.
//! - A write that was done in part goes on at home with the rest ([`partial`]). So does a read of a
//!   file on a disk, of which a part was in memory.
//! - An error is the call's, since the socket tells it once, unless it may be due to the try.
//! - EPIPE, and EFBIG of a file beyond its limit, come with a signal for the kernel thread that
//!   makes the call. So the signal is left out or taken back, and the call made again at home.

use super::class::Trial;
use super::file_write;
use super::guest::{self, Guest};
use super::in_place::{is_answer, is_on_disk, take_back};
use super::partial;
use super::stage::{DONE, Stage, answered};
use super::stats::CountKind;
use std::ptr::from_ref;
use umcg_core::call as make;
use umcg_intercept::Call;

const EAGAIN: isize = -(libc::EAGAIN as isize);
const EPIPE: isize = -(libc::EPIPE as isize);
const EFBIG: isize = -(libc::EFBIG as isize);

pub(super) fn begin(guest: &Guest, call: &mut Call, trial: Trial) -> Stage {
    if !guest::is_away() {
        return Stage::Home;
    }
    match attempt(call, trial) {
        Some(result) => {
            guest.counts.count(CountKind::InPlace);
            answered(call, Some(result))
        }
        None if call.notes[DONE] > 0 => partial::rest(call, trial),
        None if matches!(trial, Trial::Write | Trial::WriteAt)
            && !file_write::is_known(call.arguments[0]) =>
        {
            Stage::Write
        }
        None => Stage::Home,
    }
}

/// The result; none if the call has to be made at home, or its rest.
fn attempt(call: &mut Call, trial: Trial) -> Option<isize> {
    let number = call.number as libc::c_long;
    match (trial, number) {
        (Trial::Read | Trial::ReadAt | Trial::Write, _) if !is_as_vector(number, call) => None,
        (Trial::Read, libc::SYS_read) => read(call, OWN_POSITION),
        // The kernel refuses it there. The newer call would take it for the file's own position.
        (Trial::ReadAt, libc::SYS_pread64) if call.arguments[3] == OWN_POSITION => None,
        (Trial::ReadAt, libc::SYS_pread64) => read(call, call.arguments[3]),
        (Trial::Write, libc::SYS_write) => write(call),
        (Trial::Write, libc::SYS_writev) | (Trial::WriteAt, _) => file_write::attempt(call),
        (Trial::Receive, libc::SYS_recvfrom) => receive(number, call.arguments, 3),
        (Trial::Receive, libc::SYS_recvmsg) => receive(number, call.arguments, 2),
        (Trial::Send, libc::SYS_sendto) => send(call),
        (Trial::Poll, libc::SYS_poll) => look(number, call.arguments, 2),
        (Trial::Epoll, libc::SYS_epoll_wait | libc::SYS_epoll_pwait) => {
            look(number, call.arguments, 3)
        }
        _ => None,
    }
}

/// -1, in place of a position: the file's own.
pub(super) const OWN_POSITION: usize = usize::MAX;

/// Whether a vector of one part is read or written as this call's buffer would be. The kernel does
/// nothing at all for an empty vector, where a call may send an empty message, or be refused. Of a
/// vector that is too long it takes a part.
pub(super) fn is_as_vector(number: libc::c_long, call: &Call) -> bool {
    /// The most bytes of one call.
    const MOST: usize = 0x7fff_f000;
    let has_buffer = matches!(
        number,
        libc::SYS_read | libc::SYS_pread64 | libc::SYS_write | libc::SYS_pwrite64
    );
    !has_buffer || (1..=MOST).contains(&call.arguments[2])
}

/// Reads without waiting, at this position. Where that is not possible for the kind of file, the
/// kernel says so.
fn read(call: &mut Call, mut position: usize) -> Option<isize> {
    const NO_WAIT: usize = libc::RWF_NOWAIT as usize;
    loop {
        let [fd, at, bytes, ..] = call.arguments;
        let part = [at, bytes];
        let part = from_ref(&part).expose_provenance();
        // SAFETY: the guest's buffer, which the kernel checks.
        let result = unsafe { make(libc::SYS_preadv2, [fd, part, 1, position, 0, NO_WAIT]) };
        let before = call.notes[DONE];
        let Ok(had) = usize::try_from(result) else {
            return (before == 0 && is_answer(result)).then_some(result);
        };
        let is_whole = had == 0 || had == bytes;
        if is_whole || before == 0 && !is_on_disk(fd) {
            return Some((before + had) as isize);
        }
        pass(call, had);
        if position != OWN_POSITION {
            position += had;
            call.arguments[3] = position;
        }
    }
}

/// Writes to a socket, a pipe or the like, as far as that needs no wait; or to a file.
fn write(call: &mut Call) -> Option<isize> {
    const NO_WAIT: usize = libc::RWF_NOWAIT as usize;
    let [fd, at, bytes, ..] = call.arguments;
    if file_write::is_known(fd) {
        return file_write::attempt(call);
    }
    let part = [at, bytes];
    let part = from_ref(&part).expose_provenance();
    // SAFETY: the guest's buffer, which the kernel checks.
    let result = unsafe { make(libc::SYS_pwritev2, [fd, part, 1, OWN_POSITION, 0, NO_WAIT]) };
    match result {
        EPIPE => take_back(libc::SIGPIPE),
        EFBIG => take_back(libc::SIGXFSZ),
        _ => {}
    }
    settle_part(call, result)
}

/// Of a call whose third argument is a number of bytes behind the second, this result was had:
/// all, a part, or an error.
fn settle_part(call: &mut Call, result: isize) -> Option<isize> {
    let Ok(done) = usize::try_from(result) else {
        let has_signal = matches!(result, EPIPE | EFBIG);
        return (!has_signal && is_answer(result)).then_some(result);
    };
    if done == call.arguments[2] {
        return Some(result);
    }
    pass(call, done);
    None
}

/// So many bytes of the call's buffer are done: it goes on behind them.
fn pass(call: &mut Call, done: usize) {
    call.arguments[1] += done;
    call.arguments[2] -= done;
    call.notes[DONE] += done;
}

pub(super) fn receive(
    number: libc::c_long,
    mut arguments: [usize; 6],
    flags: usize,
) -> Option<isize> {
    const WAIT_FOR_ALL: usize = libc::MSG_WAITALL as usize;
    const NO_WAIT: usize = libc::MSG_DONTWAIT as usize;
    let asked = arguments[flags];
    if asked & WAIT_FOR_ALL != 0 {
        return None;
    }
    arguments[flags] |= NO_WAIT;
    // SAFETY: as the guest asks, without waiting.
    let result = unsafe { make(number, arguments) };
    (result != EAGAIN || asked & NO_WAIT != 0).then_some(result)
}

fn send(call: &mut Call) -> Option<isize> {
    const NO_WAIT: usize = libc::MSG_DONTWAIT as usize;
    const NO_SIGNAL: usize = libc::MSG_NOSIGNAL as usize;
    let mut arguments = call.arguments;
    let asked = arguments[3];
    arguments[3] |= NO_WAIT | NO_SIGNAL;
    // SAFETY: as the guest asks, without waiting.
    let result = unsafe { make(libc::SYS_sendto, arguments) };
    if asked & NO_WAIT != 0 && (result != EPIPE || asked & NO_SIGNAL != 0) {
        return Some(result);
    }
    settle_part(call, result)
}

/// Looks which descriptors are ready. The timeout is this argument.
pub(super) fn look(
    number: libc::c_long,
    mut arguments: [usize; 6],
    timeout: usize,
) -> Option<isize> {
    const MASK: usize = 4;
    let asked = arguments[timeout] as i32;
    if number == libc::SYS_epoll_pwait && arguments[MASK] != 0 {
        return None;
    }
    arguments[timeout] = 0;
    // SAFETY: as the guest asks, without waiting.
    let result = unsafe { make(number, arguments) };
    (result != 0 || asked == 0).then_some(result)
}
