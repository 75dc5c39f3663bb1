//! Calls that may block, tried so that they do not.
//!
//! A call that would block waits for the driver, and is tried again. A worker without a runtime
//! makes it in a blocking scope.
//!
//! - T1. A try takes nothing that the call would not take, and its result is the call's.
//! - T2. A blocking write is over when all of it is written, and a read of a file on a disk when
//!   all of it is read or the file ends, as without this library (`partial`). An error that comes
//!   after a part stays with the socket, for the next call.
//! - T3. A descriptor that is non-blocking, and a time limit of the socket's own, are asked for
//!   before the first wait. A read of a file that the driver knows, and that was found blocking and
//!   without a limit before, asks only after [`BELIEVED`]. So a change of either is seen late,
//!   once, by at most that time, whichever process and whichever call made it.
//! - T4. A read of such a file begins with the wait if the last one has left nothing, and the
//!   driver has reported nothing since (`ready`). If the file has become another one by a call that
//!   was not seen, that read is late, once, by at most [`BELIEVED`].
//!
//! Calls that change either make what was found void (`ready`). Those in the program's own file,
//! and of other processes, are not seen: for them the belief has an end.

use super::super::class::Trial;
use super::super::in_place::is_on_disk;
use super::super::memory;
use super::super::trial::{OWN_POSITION, is_as_vector, look, receive};
use super::partial;
use super::ready::{self, ReadNumber};
use crate::io::driver::source::{Direction, ReadinessSnapshot};
use crate::io::wait::{NEVER, Reason, after};
use crate::rt::time::now;
use rustix::net::sockopt;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::ptr::from_ref;
use umcg_core::{call as kernel, guarded};
use umcg_intercept::Call;

/// For how long a file that was blocking is believed to be so still, in nanoseconds.
const BELIEVED: u64 = 20_000_000;

const EAGAIN: isize = -(libc::EAGAIN as isize);
const ENOSYS: isize = -(libc::ENOSYS as isize);
const EPERM: isize = -(libc::EPERM as isize);
const EOPNOTSUPP: isize = -(libc::EOPNOTSUPP as isize);
const DONT_WAIT: usize = libc::MSG_DONTWAIT as usize;

/// How many waits in a row may be followed by a try in vain.
const MOST_IN_VAIN: u32 = 8;

/// How the call goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It is over, with this result.
    Answer(isize),
    /// The kernel makes it in place: it does not wait, or only for a file.
    InPlace,
    /// The kernel makes it in a blocking scope.
    Scope,
}

/// What a try has had.
enum Tried {
    Answer(isize),
    /// It would wait, for this.
    Waits(Direction),
    /// The kernel makes it in place.
    InPlace,
    /// There is no try of this call.
    Unknown,
}

/// Makes the call without blocking, as far as possible. Waits for the driver if `may_park`.
/// Switches.
pub(super) fn make(call: &mut Call, trial: Trial, may_park: bool) -> End {
    let known = if may_park { known(call, trial) } else { None };
    let mut limit = None;
    let mut in_vain = 0;
    loop {
        let done = partial::done(call);
        let seen = known.and_then(ReadNumber::look);
        let tried = match seen {
            Some(seen) if !seen.is_ready(Direction::Read) => Tried::Waits(Direction::Read),
            _ => attempt(call, trial),
        };
        if let (Some(known), Some(seen)) = (known, seen) {
            learn(known, seen, &tried, call);
        }
        let direction = match tried {
            Tried::Answer(result) => return End::Answer(result + partial::done(call) as isize),
            Tried::Waits(direction) => direction,
            Tried::InPlace => return End::InPlace,
            Tried::Unknown => return End::Scope,
        };
        if !may_park {
            return End::Scope;
        }
        match wait(call, trial, direction, known, &mut limit) {
            Ok(Waited::Again) if partial::done(call) > 0 && has_failed(call, direction) => {
                return End::Answer(partial::done(call) as isize);
            }
            Ok(Waited::Again) if partial::done(call) > done => in_vain = 0,
            // The driver may say that a socket is ready which is not for this call, as with a
            // datagram to a peer whose queue is full.
            Ok(Waited::Again) if in_vain == MOST_IN_VAIN => return End::Scope,
            Ok(Waited::Again) => in_vain += 1,
            Ok(Waited::Late) => return End::Answer(late(call, trial)),
            Ok(Waited::NoWait) => return End::InPlace,
            // It is a file of a disk, or there are no descriptors left.
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
                return if direction == Direction::Read {
                    End::Scope
                } else {
                    End::InPlace
                };
            }
            Err(_) => return End::Scope,
        }
    }
}

/// How a wait has ended.
enum Waited {
    /// The call may be tried.
    Again,
    /// The call's time limit has passed.
    Late,
    /// The call does not wait at all.
    NoWait,
}

/// Waits for another try (T3).
fn wait(
    call: &Call,
    trial: Trial,
    direction: Direction,
    known: Option<ReadNumber>,
    limit: &mut Option<WaitLimit>,
) -> io::Result<Waited> {
    let believed = known.filter(|known| limit.is_none() && known.is_quick());
    if believed.is_some_and(|known| known.wait(reason(trial), after(BELIEVED))) {
        return Ok(Waited::Again);
    }
    let asked = known.map(ReadNumber::ask);
    let limit = *limit.get_or_insert_with(|| limit_of(call, trial, direction));
    let deadline = match limit {
        WaitLimit::None => NEVER,
        WaitLimit::At(deadline) => deadline,
        WaitLimit::NoWait => return Ok(Waited::NoWait),
    };
    let armed = ready::arm(descriptor(call, trial), direction)?;
    if let (Some(known), Some(asked)) = (known, asked) {
        known.learn(asked, matches!(limit, WaitLimit::None), armed.is_new);
    }
    let is_ready = armed.wait(reason(trial), deadline);
    Ok(if is_ready {
        Waited::Again
    } else {
        Waited::Late
    })
}

/// The number of a read that says how many bytes it wants, and waits for some.
fn known(call: &Call, trial: Trial) -> Option<ReadNumber> {
    let [fd, _, bytes, flags, ..] = call.arguments;
    let is_simple = match (trial, call.number as libc::c_long) {
        (Trial::Read, libc::SYS_read) => true,
        (Trial::Receive, libc::SYS_recvfrom) => flags == 0,
        _ => false,
    };
    if is_simple && bytes > 0 {
        ReadNumber::of(fd)
    } else {
        None
    }
}

/// Notes what a try has had.
fn learn(known: ReadNumber, seen: ReadinessSnapshot, tried: &Tried, call: &Call) {
    match *tried {
        Tried::Answer(had @ 1..) if (had as usize) < call.arguments[2] => known.had_less(seen),
        Tried::Waits(_) if seen.is_ready(Direction::Read) => known.not_now(seen),
        _ => {}
    }
}

/// The reason of a wait, for dumps.
fn reason(trial: Trial) -> Reason {
    match trial {
        Trial::Write | Trial::Send => &"write, noticed",
        Trial::Accept => &"accept, noticed",
        Trial::Poll => &"poll, noticed",
        Trial::Epoll => &"epoll_wait, noticed",
        _ => &"read, noticed",
    }
}

fn descriptor(call: &Call, trial: Trial) -> i32 {
    match trial {
        Trial::Poll => single(call).map_or(-1, |(fd, _)| fd),
        _ => call.arguments[0] as i32,
    }
}

/// The call's result when its time limit has passed.
fn late(call: &Call, trial: Trial) -> isize {
    match (trial, partial::done(call)) {
        (Trial::Poll | Trial::Epoll, _) => 0,
        (_, 0) => EAGAIN,
        (_, done) => done as isize,
    }
}

fn attempt(call: &mut Call, trial: Trial) -> Tried {
    /// The argument of epoll_pwait(2) that is a mask of signals.
    const MASK: usize = 4;
    let number = call.number as libc::c_long;
    let arguments = call.arguments;
    let had = |result: Option<isize>, direction| match result {
        Some(result) => Tried::Answer(result),
        None => Tried::Waits(direction),
    };
    match (trial, number) {
        (Trial::Read | Trial::ReadAt | Trial::Write, _) if !is_as_vector(number, call) => {
            Tried::Unknown
        }
        (Trial::Read, libc::SYS_read) | (Trial::ReadAt, libc::SYS_pread64) => read(call),
        (Trial::Read, libc::SYS_readv) => read_vector(call),
        (Trial::Write, libc::SYS_write) => write(call),
        (Trial::Write, libc::SYS_writev) => write_vector(call),
        (Trial::Receive, libc::SYS_recvfrom) => had_message(call, 3),
        (Trial::Receive, libc::SYS_recvmsg) => had_message(call, 2),
        (Trial::Send, libc::SYS_sendto) => send(call),
        (Trial::Send, libc::SYS_sendmsg) => send_message(call),
        (Trial::Accept, _) => accept(call),
        (Trial::Poll, libc::SYS_poll) => match single(call) {
            Some((_, direction)) => had(look(number, arguments, 2), direction),
            None => look(number, arguments, 2).map_or(Tried::Unknown, Tried::Answer),
        },
        (Trial::Epoll, libc::SYS_epoll_pwait) if arguments[MASK] != 0 => Tried::Unknown,
        (Trial::Epoll, libc::SYS_epoll_wait | libc::SYS_epoll_pwait) => {
            had(look(number, arguments, 3), Direction::Read)
        }
        _ => Tried::Unknown,
    }
}

/// Whether this write, of which a part is done, goes to a socket with an error, or without a peer.
/// A try would take the error, which is for the next call.
fn has_failed(call: &Call, direction: Direction) -> bool {
    let fd = call.arguments[0] as i32;
    // SAFETY: a part was written to it; if it has been closed since, the kernel says so.
    let is_socket = || sockopt::socket_type(unsafe { BorrowedFd::borrow_raw(fd) }).is_ok();
    direction == Direction::Write && poll(fd, 0) && is_socket()
}

fn poll(fd: i32, events: i16) -> bool {
    let polled = libc::pollfd {
        fd,
        events,
        revents: 0,
    };
    let at = from_ref(&polled).expose_provenance();
    // SAFETY: one entry, and no wait.
    unsafe { kernel(libc::SYS_poll, [at, 1, 0, 0, 0, 0]) > 0 }
}

/// A result of a try by a flag. Where the kind of file has none, the call is made in place: such
/// files are those of disks, nearly always. So it is after EPERM, which may be that of a filter
/// which forbids the newer call only.
fn tried(result: isize, direction: Direction) -> Tried {
    match result {
        EAGAIN => Tried::Waits(direction),
        EOPNOTSUPP | ENOSYS | EPERM => Tried::InPlace,
        result => Tried::Answer(result),
    }
}

/// A read of a file whose kind has no flag for a try waits until poll(2) says that it is ready.
fn without_flag(tried: Tried, fd: usize) -> Tried {
    match tried {
        Tried::InPlace if !poll(fd as i32, libc::POLLIN) => Tried::Waits(Direction::Read),
        tried => tried,
    }
}

/// preadv2(2) or pwritev2(2), without waiting.
fn vector(number: libc::c_long, fd: usize, [parts, count]: [usize; 2], position: usize) -> isize {
    const NO_WAIT: usize = libc::RWF_NOWAIT as usize;
    // SAFETY: the worker's buffers, which the kernel checks.
    unsafe { kernel(number, [fd, parts, count, position, 0, NO_WAIT]) }
}

/// The same, for the buffer of this call.
fn buffer(number: libc::c_long, call: &Call, position: usize) -> isize {
    let [fd, at, bytes, ..] = call.arguments;
    let part = [at, bytes];
    let part = from_ref(&part).expose_provenance();
    vector(number, fd, [part, 1], position)
}

fn read(call: &mut Call) -> Tried {
    loop {
        let position = match call.number as libc::c_long {
            // The kernel refuses it. The newer call would take it for the file's own position.
            libc::SYS_pread64 if call.arguments[3] == OWN_POSITION => return Tried::InPlace,
            libc::SYS_pread64 => call.arguments[3],
            _ => OWN_POSITION,
        };
        let result = buffer(libc::SYS_preadv2, call, position);
        let tried = without_flag(tried(result, Direction::Read), call.arguments[0]);
        if let Some(tried) = after_read(call, tried) {
            return tried;
        }
    }
}

/// What a read of one buffer has had. None if more is to be read.
fn after_read(call: &mut Call, tried: Tried) -> Option<Tried> {
    match tried {
        Tried::Answer(had @ 1..) => {
            let is_part = if (had as usize) < call.arguments[2] {
                partial::done(call) > 0 || is_on_disk(call.arguments[0])
            } else {
                partial::has_parts(call)
            };
            match is_part.then(|| partial::go_on(call, had as usize)) {
                None => Some(tried),
                Some(true) => None,
                Some(false) => Some(Tried::Answer(0)),
            }
        }
        Tried::Answer(_) if partial::done(call) > 0 => Some(Tried::Answer(0)),
        tried => Some(tried),
    }
}

fn read_vector(call: &mut Call) -> Tried {
    let [fd, parts, count, ..] = call.arguments;
    let result = vector(libc::SYS_preadv2, fd, [parts, count], OWN_POSITION);
    match without_flag(tried(result, Direction::Read), fd) {
        Tried::Answer(had @ 1..) => {
            let rest = (libc::SYS_read, 0);
            let is_part = partial::begin(call, [parts, count], had as usize, rest);
            if is_part && is_on_disk(fd) {
                read(call)
            } else {
                Tried::Answer(0)
            }
        }
        tried => tried,
    }
}

fn write(call: &mut Call) -> Tried {
    loop {
        let result = buffer(libc::SYS_pwritev2, call, OWN_POSITION);
        if let Some(tried) = after_write(call, tried(result, Direction::Write)) {
            return tried;
        }
    }
}

fn send(call: &mut Call) -> Tried {
    loop {
        let mut arguments = call.arguments;
        let is_asked = arguments[3] & DONT_WAIT != 0;
        arguments[3] |= DONT_WAIT;
        // SAFETY: as the worker asks, without waiting.
        let result = unsafe { kernel(libc::SYS_sendto, arguments) };
        if is_asked {
            return Tried::Answer(result);
        }
        if let Some(tried) = after_write(call, tried(result, Direction::Write)) {
            return tried;
        }
    }
}

/// What a write of one buffer has had. None if another part follows at once.
fn after_write(call: &mut Call, tried: Tried) -> Option<Tried> {
    match tried {
        Tried::Answer(had @ 0..) => {
            let is_short = (had as usize) < call.arguments[2];
            match (partial::go_on(call, had as usize), is_short) {
                (true, true) => Some(Tried::Waits(Direction::Write)),
                (true, false) => None,
                (false, _) => Some(Tried::Answer(0)),
            }
        }
        Tried::Answer(_) if partial::done(call) > 0 => Some(Tried::Answer(0)),
        tried => Some(tried),
    }
}

fn write_vector(call: &mut Call) -> Tried {
    let [fd, parts, count, ..] = call.arguments;
    let result = vector(libc::SYS_pwritev2, fd, [parts, count], OWN_POSITION);
    let tried = tried(result, Direction::Write);
    after_vector(call, tried, [parts, count], (libc::SYS_write, 0))
}

fn send_message(call: &mut Call) -> Tried {
    /// Where a header has its parts and their number.
    const PARTS: usize = std::mem::offset_of!(libc::msghdr, msg_iov);
    let mut arguments = call.arguments;
    let [_, header, flags, ..] = arguments;
    arguments[2] |= DONT_WAIT;
    // SAFETY: as the worker asks, without waiting.
    let result = unsafe { kernel(libc::SYS_sendmsg, arguments) };
    if flags & DONT_WAIT != 0 {
        return Tried::Answer(result);
    }
    let tried = tried(result, Direction::Write);
    match memory::read::<[u64; 2]>(header.wrapping_add(PARTS)) {
        Some(parts) => after_vector(
            call,
            tried,
            parts.map(|word| word as usize),
            (libc::SYS_sendto, flags),
        ),
        None => tried,
    }
}

/// What a write of a vector has had. `rest` is the call that goes on behind a part.
fn after_vector(
    call: &mut Call,
    tried: Tried,
    vector: [usize; 2],
    rest: (libc::c_long, usize),
) -> Tried {
    match tried {
        Tried::Answer(had @ 0..) if partial::begin(call, vector, had as usize, rest) => {
            Tried::Waits(Direction::Write)
        }
        Tried::Answer(0..) => Tried::Answer(0),
        tried => tried,
    }
}

fn had_message(call: &Call, flags: usize) -> Tried {
    let number = call.number as libc::c_long;
    let has = |flag: i32| call.arguments[flags] & flag as usize != 0;
    if has(libc::MSG_WAITALL) {
        return Tried::Unknown;
    }
    if has(libc::MSG_ERRQUEUE | libc::MSG_OOB) {
        return Tried::InPlace; // it never waits
    }
    receive(number, call.arguments, flags).map_or(Tried::Waits(Direction::Read), Tried::Answer)
}

/// There is no flag for a try of accept(2). Another acceptor may be faster than this one, so a
/// connection that poll(2) tells of is accepted in a scope.
fn accept(call: &Call) -> Tried {
    if poll(call.arguments[0] as i32, libc::POLLIN) {
        Tried::Unknown
    } else {
        Tried::Waits(Direction::Read)
    }
}

/// The descriptor of a poll for one, and the direction, if it is a plain one.
fn single(call: &Call) -> Option<(i32, Direction)> {
    let [at, count, ..] = call.arguments;
    if count != 1 {
        return None;
    }
    let fd = guarded::load(at)? as i32;
    let events = guarded::load(at + size_of::<i32>())? as i16;
    let is_one = |of: i16| events & !of == 0 && events & of != 0;
    let direction = if is_one(libc::POLLIN | libc::POLLRDNORM | libc::POLLRDHUP) {
        Direction::Read
    } else if is_one(libc::POLLOUT | libc::POLLWRNORM) {
        Direction::Write
    } else {
        return None;
    };
    (fd >= 0).then_some((fd, direction))
}

/// Until when a call may wait.
#[derive(Clone, Copy)]
enum WaitLimit {
    None,
    At(u64),
    /// It does not wait at all.
    NoWait,
}

/// T3.
fn limit_of(call: &Call, trial: Trial, direction: Direction) -> WaitLimit {
    let timeout = match trial {
        Trial::Poll => Some(call.arguments[2]),
        Trial::Epoll => Some(call.arguments[3]),
        _ => None,
    };
    if let Some(timeout) = timeout {
        const MILLISECOND: u64 = 1_000_000;
        return u64::try_from(timeout as i32).map_or(WaitLimit::None, |milliseconds| {
            WaitLimit::At(after(milliseconds * MILLISECOND))
        });
    }
    let fd = call.arguments[0];
    let asked = [fd, libc::F_GETFL as usize, 0, 0, 0, 0];
    // SAFETY: asks for flags.
    let flags = unsafe { kernel(libc::SYS_fcntl, asked) };
    if flags < 0 || flags as i32 & libc::O_NONBLOCK != 0 {
        return WaitLimit::NoWait;
    }
    time_limit(fd, direction).map_or(WaitLimit::None, |nanoseconds| {
        WaitLimit::At(now().saturating_add(nanoseconds))
    })
}

/// The time limit of a socket, in nanoseconds; none if there is none, or it is no socket.
fn time_limit(fd: usize, direction: Direction) -> Option<u64> {
    let option = match direction {
        Direction::Read => libc::SO_RCVTIMEO,
        Direction::Write => libc::SO_SNDTIMEO,
    };
    let mut time = MaybeUninit::<libc::timeval>::zeroed();
    let mut length = size_of::<libc::timeval>() as libc::socklen_t;
    let arguments = [
        fd,
        libc::SOL_SOCKET as usize,
        option as usize,
        time.as_mut_ptr().expose_provenance(),
        (&raw mut length).expose_provenance(),
        0,
    ];
    // SAFETY: room for the value, whose length is told.
    let result = unsafe { kernel(libc::SYS_getsockopt, arguments) };
    // SAFETY: zeros, or what the kernel has written.
    let time = unsafe { time.assume_init() };
    let nanoseconds = time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    (result == 0 && nanoseconds != 0).then_some(nanoseconds)
}
