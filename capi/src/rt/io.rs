//! Input and output on descriptors. A POSIX call is repeated until it does not say "not now"; in
//! between the caller waits.
//!
//! A call that is cut short is unwound to here. No C frame lies between, and a descriptor's entry
//! is held outside.

use super::table::{self, DescriptorEntry, DescriptorKind};
use crate::answer::{answer, errno_of, require};
use crate::errno;
use crate::wait::{deadline, interruptible};
use libc::{EAGAIN, EBADF, EINTR, EINVAL, sockaddr, socklen_t};
use rustix::io::Errno;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use umcg::io::ffi::{self as io_ffi, Direction};
use umcg::rt::ffi;

const NEVER: u64 = u64::MAX;

/// The result of a system call.
fn checked(result: isize) -> Result<usize, Errno> {
    usize::try_from(result).map_err(|_| Errno::from_raw_os_error(errno()))
}

fn once(call: impl FnOnce() -> isize) -> Result<usize, c_int> {
    checked(call()).map_err(Errno::raw_os_error)
}

/// Waits as the caller may.
fn waiting<T>(f: impl FnOnce() -> std::io::Result<T>) -> Result<T, c_int> {
    interruptible(f)?.map_err(errno_of)
}

impl DescriptorEntry {
    fn call<T>(
        &self,
        direction: Direction,
        reason: &'static &'static str,
        call: impl FnMut(BorrowedFd<'_>) -> Result<T, Errno>,
    ) -> Result<T, c_int> {
        waiting(|| self.fd.call(direction, reason, NEVER, call))
    }
}

/// Receives the bytes that are there.
///
/// # Safety
/// The buffer has this size.
unsafe fn receive(
    fd: RawFd,
    buffer: *mut c_void,
    size: usize,
    flags: c_int,
) -> Result<usize, c_int> {
    // SAFETY: passed on.
    let call = |flags: c_int| unsafe { libc::recv(fd, buffer, size, flags | libc::MSG_DONTWAIT) };
    let descriptor = table::enter(fd)?;
    match descriptor.kind {
        DescriptorKind::Stream if flags == 0 => waiting(|| {
            descriptor
                .fd
                .stream(Direction::Read, &"read", size, |_| checked(call(0)))
        }),
        DescriptorKind::Stream | DescriptorKind::Socket if flags & libc::MSG_DONTWAIT == 0 => {
            descriptor.call(Direction::Read, &"recv", |_| checked(call(flags)))
        }
        _ => once(|| call(flags)),
    }
}

/// Reads the bytes that are there, from any kind of descriptor.
///
/// # Safety
/// The buffer has this size.
unsafe fn read(fd: RawFd, buffer: *mut c_void, size: usize) -> Result<usize, c_int> {
    let descriptor = table::enter(fd)?;
    match descriptor.kind {
        // SAFETY: passed on.
        DescriptorKind::Stream | DescriptorKind::Socket => unsafe { receive(fd, buffer, size, 0) },
        DescriptorKind::Pipe => descriptor.call(Direction::Read, &"read", |_| {
            // SAFETY: passed on.
            checked(unsafe { libc::read(fd, buffer, size) })
        }),
        DescriptorKind::File if size == 0 || buffer.is_null() => {
            // SAFETY: passed on.
            once(|| unsafe { libc::read(fd, buffer, size) })
        }
        DescriptorKind::File => of_file(|fd| {
            // SAFETY: passed on; a C program may leave it uninitialised, and it is only written to.
            let buffer = unsafe { std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size) };
            io_ffi::read_file(fd, buffer)
        })(fd),
    }
}

/// A call on a file, which is not cut short. A worker that was asked to end does not make it
/// either.
fn of_file(
    call: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<usize>,
) -> impl FnOnce(RawFd) -> Result<usize, c_int> {
    move |fd| {
        // SAFETY: looked at by `enter`; a program that closes it meanwhile gets what POSIX gives
        // it.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        waiting(|| ffi::shielded(|| call(fd)))
    }
}

/// A size beyond a signed number fits no memory, and no result could be that large: EINVAL, as the
/// kernel says of files.
fn sized(size: usize) -> Result<(), c_int> {
    require(isize::try_from(size).is_ok(), EINVAL)
}

/// Repeats `part`, which gets the number of bytes done, until all are done. An error after the
/// first part is left to the next call.
fn fully(size: usize, mut part: impl FnMut(usize) -> Result<usize, c_int>) -> Result<usize, c_int> {
    let mut done = 0;
    loop {
        match part(done) {
            Ok(0) => return Ok(done),
            Ok(more) => done += more,
            Err(_) if done > 0 => return Ok(done),
            Err(error) => return Err(error),
        }
        if done >= size {
            return Ok(done);
        }
    }
}

/// Gives all to a socket.
///
/// # Safety
/// The buffer has this size.
unsafe fn send(
    fd: RawFd,
    buffer: *const c_void,
    size: usize,
    flags: c_int,
) -> Result<usize, c_int> {
    let quiet = flags | libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    let rest = |done: usize| {
        // SAFETY: passed on; `done` is at most `size`.
        let at = unsafe { buffer.byte_add(done) };
        // SAFETY: passed on.
        unsafe { libc::send(fd, at, size - done, quiet) }
    };
    let descriptor = table::enter(fd)?;
    if flags & libc::MSG_DONTWAIT != 0 || !descriptor.kind.is_socket() {
        return once(|| rest(0));
    }
    fully(size, |done| {
        descriptor.call(Direction::Write, &"write", |_| checked(rest(done)))
    })
}

/// Gives all to anything.
///
/// # Safety
/// The buffer has this size.
unsafe fn write(fd: RawFd, buffer: *const c_void, size: usize) -> Result<usize, c_int> {
    let descriptor = table::enter(fd)?;
    if descriptor.kind.is_socket() {
        // SAFETY: passed on.
        return unsafe { send(fd, buffer, size, 0) };
    }
    if size == 0 || buffer.is_null() {
        // SAFETY: passed on.
        return once(|| unsafe { libc::write(fd, buffer, size) });
    }
    fully(size, |done| {
        // SAFETY: passed on; `done` is at most `size`.
        let at = unsafe { buffer.byte_add(done) };
        if descriptor.kind == DescriptorKind::Pipe {
            return descriptor.call(Direction::Write, &"write", |_| {
                // SAFETY: passed on.
                checked(unsafe { libc::write(fd, at, size - done) })
            });
        }
        of_file(|fd| {
            // SAFETY: passed on.
            let buffer = unsafe { std::slice::from_raw_parts(at.cast::<u8>(), size - done) };
            io_ffi::write_file(fd, buffer)
        })(fd)
    })
}

/// # Safety
/// As accept(2).
unsafe fn accept(
    fd: RawFd,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> Result<c_int, c_int> {
    let descriptor = table::enter(fd)?;
    // SAFETY: passed on.
    let call =
        || unsafe { libc::accept4(fd, address, length, flags | libc::SOCK_NONBLOCK) } as isize;
    let mut unbroken = umcg::net::unbroken(|| checked(call()));
    let accepted = match descriptor.kind {
        DescriptorKind::Stream | DescriptorKind::Socket => {
            descriptor.call(Direction::Read, &"accept", |_| unbroken())?
        }
        _ => once(call)?,
    };
    table::put(accepted as c_int, descriptor.kind);
    Ok(accepted as c_int)
}

/// # Safety
/// As connect(2).
unsafe fn connect(fd: RawFd, address: *const sockaddr, length: socklen_t) -> Result<(), c_int> {
    let descriptor = table::enter(fd)?;
    ffi::check().map_err(errno_of)?;
    // SAFETY: passed on.
    let call = || checked(unsafe { libc::connect(fd, address, length) } as isize);
    let mut pause = 50_000;
    loop {
        match call() {
            Ok(_) => return Ok(()),
            // A connect that a signal interrupts goes on by itself.
            Err(Errno::INPROGRESS | Errno::ALREADY | Errno::INTR) => break,
            // A Unix listener's queue is full. The kernel offers nothing to wait for, so look
            // again, less and less often.
            Err(Errno::AGAIN) => ffi::sleep_until(ffi::after(pause)).map_err(errno_of)?,
            Err(error) => return Err(error.raw_os_error()),
        }
        pause = (pause * 2).min(10_000_000);
    }
    // Repeating the call returns the result; only then is the socket connected in the kernel's
    // eyes.
    descriptor.call(Direction::Write, &"connect", |_| match call() {
        Ok(_) | Err(Errno::ISCONN) => Ok(()),
        Err(Errno::ALREADY | Errno::INPROGRESS) => Err(Errno::AGAIN),
        Err(error) => Err(error),
    })
}

fn poll(fd: RawFd, events: c_int, until: u64) -> Result<c_int, c_int> {
    const INWARDS: c_int = (libc::POLLIN | libc::POLLPRI | libc::POLLRDHUP) as c_int;
    let direction = match events {
        _ if events == libc::POLLOUT as c_int => Direction::Write,
        _ if events & !INWARDS == 0 && events & libc::POLLIN as c_int != 0 => Direction::Read,
        _ => return Err(EINVAL),
    };
    let descriptor = table::enter(fd)?;
    let look = |fd: BorrowedFd<'_>| {
        let mut asked = libc::pollfd {
            fd: fd.as_raw_fd(),
            events: events as i16,
            revents: 0,
        };
        // SAFETY: reads and writes the structure.
        match checked(unsafe { libc::poll(&mut asked, 1, 0) } as isize)? {
            0 => Err(Errno::AGAIN),
            _ => Ok(c_int::from(asked.revents)),
        }
    };
    let ready = waiting(|| descriptor.fd.call(direction, &"poll", until, look))?;
    require(ready & libc::POLLNVAL as c_int == 0, EBADF)?;
    Ok(ready)
}

/// Writes all of a text, from where blocking does no harm.
pub(super) fn write_fully(fd: RawFd, text: &[u8]) -> Result<(), c_int> {
    let mut rest = text;
    while !rest.is_empty() {
        // SAFETY: the text has this length.
        match once(|| unsafe { libc::write(fd, rest.as_ptr().cast(), rest.len()) }) {
            Ok(written) => rest = &rest[written..],
            Err(EINTR) => {}
            Err(EAGAIN) => {
                let mut asked = libc::pollfd {
                    fd,
                    events: libc::POLLOUT,
                    revents: 0,
                };
                // SAFETY: reads and writes the structure.
                unsafe { libc::poll(&mut asked, 1, -1) };
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// # Safety
/// As accept(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
    flags: c_int,
) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { accept(fd, address, length, flags) })
}

/// # Safety
/// As connect(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_connect(fd: c_int, address: *const sockaddr, length: socklen_t) -> c_int {
    // SAFETY: passed on.
    answer(unsafe { connect(fd, address, length) })
}

/// # Safety
/// As read(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_read(fd: c_int, buffer: *mut c_void, size: usize) -> isize {
    // SAFETY: passed on.
    answer(sized(size).and_then(|()| unsafe { read(fd, buffer, size) }))
}

/// # Safety
/// As recv(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_recv(fd: c_int, buffer: *mut c_void, size: usize, flags: c_int) -> isize {
    // SAFETY: passed on.
    answer(sized(size).and_then(|()| unsafe { receive(fd, buffer, size, flags) }))
}

/// # Safety
/// As write(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_write(fd: c_int, buffer: *const c_void, size: usize) -> isize {
    // SAFETY: passed on.
    answer(sized(size).and_then(|()| unsafe { write(fd, buffer, size) }))
}

/// # Safety
/// As send(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_send(
    fd: c_int,
    buffer: *const c_void,
    size: usize,
    flags: c_int,
) -> isize {
    // SAFETY: passed on.
    answer(sized(size).and_then(|()| unsafe { send(fd, buffer, size, flags) }))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_poll_fd(fd: c_int, events: c_int, deadline_ns: u64) -> c_int {
    answer(poll(fd, events, deadline(deadline_ns)))
}

#[unsafe(no_mangle)]
extern "C" fn umcg_close(fd: c_int) -> c_int {
    let closed = table::remove(fd).and_then(|()| {
        // SAFETY: the program's, which gives it up.
        once(|| unsafe { libc::close(fd) } as isize).map(drop)
    });
    answer(closed)
}
