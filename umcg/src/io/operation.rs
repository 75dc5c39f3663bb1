//! Reads and writes of files without readiness: regular files, terminals, whatever standard input
//! is.
//!
//! They use the ring. They use a blocking scope where there is no ring, or where the ring has
//! cancelled the operation a few times. A read tries the page cache first (RWF_NOWAIT), which needs
//! neither.

use super::current;
use super::wait::Reason;
use crate::blocking;
use io_uring::{opcode, squeue, types};
use rustix::io::{Errno, ReadWriteFlags};
use std::ffi::CStr;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// The offset that means the file's own position.
const POSITION: u64 = u64::MAX;
/// How often the kernel may cancel an operation without being asked to.
const CANCELLED_MOST: u32 = 3;
/// The most bytes that the kernel transfers in one call.
const MOST: usize = 0x7fff_f000;

/// Makes `entry`'s operation, or `fallback` where there is no ring. `discard` gets, and drops, a
/// result that no caller waits for any more.
///
/// # Safety
/// As [`IoRing::run`](super::driver::uring::IoRing::run).
unsafe fn carry_out<T>(
    reason: Reason,
    entry: squeue::Entry,
    discard: fn(usize) -> T,
    mut fallback: impl FnMut() -> Result<usize, Errno>,
) -> io::Result<usize> {
    let driver = current::driver()?;
    let mut cancelled = 0;
    loop {
        let ring = driver.ring().filter(|_| cancelled < CANCELLED_MOST);
        let carried_out = match ring {
            Some(ring) => {
                driver.check()?;
                // SAFETY: passed on.
                unsafe { ring.run(reason, entry.clone(), |result| drop(discard(result))) }
            }
            None => None,
        };
        let result =
            carried_out.unwrap_or_else(|| blocking(&mut fallback).map_err(io::Error::from));
        match result {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => {}
            // The thread that handed the entry to the kernel is gone (U3). Or the kernel had no
            // thread to carry it out (RLIMIT_NPROC, for one), and would have none the next time:
            // helpers exist already.
            Err(error) if error.raw_os_error() == Some(libc::ECANCELED) => cancelled += 1,
            result => return result,
        }
    }
}

/// The offset as the kernel takes it.
fn place(offset: Option<u64>) -> io::Result<u64> {
    match offset {
        None => Ok(POSITION),
        Some(offset) if offset <= i64::MAX as u64 => Ok(offset),
        Some(_) => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// Reads at `offset`, or at the file's position.
pub(crate) fn read(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    offset: Option<u64>,
) -> io::Result<usize> {
    let offset = place(offset)?;
    let cached = rustix::io::preadv2(
        fd,
        &mut [IoSliceMut::new(buffer)],
        offset,
        ReadWriteFlags::NOWAIT,
    );
    // Otherwise: not cached; a signal; or a kind of file, a kernel or a filter that does not
    // support the question. An error of the read itself comes again.
    if let Ok(done) = cached {
        return Ok(done);
    }
    let length = buffer.len().min(MOST);
    let entry = opcode::Read::new(
        types::Fd(fd.as_raw_fd()),
        buffer.as_mut_ptr(),
        length as u32,
    )
    .offset(offset)
    .build();
    let fallback = || match offset {
        POSITION => rustix::io::read(fd, &mut *buffer),
        offset => rustix::io::pread(fd, &mut *buffer, offset),
    };
    // SAFETY: the buffer is borrowed until this returns or unwinds.
    unsafe { carry_out(&"read", entry, drop, fallback) }
}

/// Writes at `offset`, or at the file's position.
pub(crate) fn write(fd: BorrowedFd<'_>, buffer: &[u8], offset: Option<u64>) -> io::Result<usize> {
    let offset = place(offset)?;
    let length = buffer.len().min(MOST);
    let entry = opcode::Write::new(types::Fd(fd.as_raw_fd()), buffer.as_ptr(), length as u32)
        .offset(offset)
        .build();
    let fallback = || match offset {
        POSITION => rustix::io::write(fd, buffer),
        offset => rustix::io::pwrite(fd, buffer, offset),
    };
    // SAFETY: as in `read`.
    unsafe { carry_out(&"write", entry, drop, fallback) }
}

/// Waits until written data is on the disk. `data`: only the part that is needed to read it again.
pub(crate) fn sync(fd: BorrowedFd<'_>, data: bool) -> io::Result<()> {
    let flags = if data {
        types::FsyncFlags::DATASYNC
    } else {
        types::FsyncFlags::empty()
    };
    let entry = opcode::Fsync::new(types::Fd(fd.as_raw_fd()))
        .flags(flags)
        .build();
    let fallback = || {
        if data {
            rustix::fs::fdatasync(fd)
        } else {
            rustix::fs::fsync(fd)
        }
        .map(|()| 0)
    };
    // SAFETY: the entry points to nothing.
    unsafe { carry_out(&"fsync", entry, drop, fallback) }.map(|_| ())
}

/// Opens a file.
pub(crate) fn open(path: &CStr, flags: i32, mode: u32) -> io::Result<OwnedFd> {
    let entry = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr())
        .flags(flags)
        .mode(mode)
        .build();
    let mut opened = None;
    let fallback = || {
        let flags = rustix::fs::OFlags::from_bits_retain(flags as u32);
        opened = Some(rustix::fs::open(
            path,
            flags,
            rustix::fs::Mode::from_bits_retain(mode),
        )?);
        Ok(0)
    };
    // SAFETY: the path is borrowed until this returns or unwinds.
    let fd = unsafe { carry_out(&"open", entry, own, fallback) }?;
    Ok(opened.unwrap_or_else(|| own(fd)))
}

/// A descriptor that the kernel has just made for this process.
fn own(fd: usize) -> OwnedFd {
    // SAFETY: it is the result of an OpenAt, which no other code has seen.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

/// Implements `Read` by [`read`], at the descriptor's own position.
macro_rules! reads {
    ($($type:ty),+) => {$(
        impl std::io::Read for $type {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                $crate::io::operation::read(self.as_fd(), buffer, None)
            }
        }
    )+};
}

/// Implements `Write` by [`write`], at the descriptor's own position. Nothing is buffered.
macro_rules! writes {
    ($($type:ty),+) => {$(
        impl std::io::Write for $type {
            fn write(&mut self, buffer: &[u8]) -> std::io::Result<usize> {
                $crate::io::operation::write(self.as_fd(), buffer, None)
            }

            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
    )+};
}

pub(crate) use {reads, writes};
