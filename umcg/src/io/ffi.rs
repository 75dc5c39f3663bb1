//! Input and output for bindings to languages without unwinding: the C interface is built on it,
//! and nothing else should be.

pub use super::driver::source::Direction;
use super::fd::Fd;
use super::operation;
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// A descriptor with the driver under it.
#[derive(Debug)]
pub struct DrivenFd(Fd);

impl DrivenFd {
    /// Takes a descriptor whose calls do not block.
    pub fn new(fd: OwnedFd) -> DrivenFd {
        DrivenFd(Fd::new(fd))
    }

    /// The descriptor. The driver forgets it.
    pub fn into_inner(self) -> OwnedFd {
        self.0.into_inner()
    }

    /// Makes `call` until it does not say "not now". Parks in between, until `deadline` at most.
    ///
    /// # Errors
    /// The call's, the driver's, and `TimedOut`.
    pub fn call<R>(
        &self,
        direction: Direction,
        reason: &'static &'static str,
        deadline: u64,
        call: impl FnMut(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> io::Result<R> {
        self.0.call_until(direction, reason, deadline, call)
    }

    /// Like [`DrivenFd::call`] for a byte stream. Less than `asked` bytes mean that there is no
    /// more just now.
    ///
    /// # Errors
    /// The call's, and the driver's.
    pub fn stream(
        &self,
        direction: Direction,
        reason: &'static &'static str,
        asked: usize,
        call: impl FnMut(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> io::Result<usize> {
        self.0.stream(direction, reason, asked, call)
    }
}

/// Reads from a file without readiness, at its own position: by the ring, or on a helper thread.
///
/// # Errors
/// As `read`.
pub fn read_file(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    operation::read(fd, buffer, None)
}

/// Writes to a file without readiness, in the same way.
///
/// # Errors
/// As `write`.
pub fn write_file(fd: BorrowedFd<'_>, buffer: &[u8]) -> io::Result<usize> {
    operation::write(fd, buffer, None)
}
