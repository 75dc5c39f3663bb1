//! Input and output for bindings to languages without unwinding: the C interface is built on it,
//! and nothing else should be.

use super::driver::source::Direction;
use super::fd::Fd;
use super::operation;
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// The direction in which data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Towards the caller.
    In,
    /// Away from the caller.
    Out,
}

impl Way {
    fn direction(self) -> Direction {
        match self {
            Way::In => Direction::Read,
            Way::Out => Direction::Write,
        }
    }
}

/// A descriptor with the driver under it.
#[derive(Debug)]
pub struct Waited(Fd);

impl Waited {
    /// Takes a descriptor whose calls do not block.
    pub fn new(fd: OwnedFd) -> Waited {
        Waited(Fd::new(fd))
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
        way: Way,
        reason: &'static &'static str,
        deadline: u64,
        call: impl FnMut(BorrowedFd<'_>) -> Result<R, Errno>,
    ) -> io::Result<R> {
        self.0.call_until(way.direction(), reason, deadline, call)
    }

    /// Like [`Waited::call`] for a byte stream. Less than `asked` bytes mean that there is no more
    /// just now.
    ///
    /// # Errors
    /// The call's, and the driver's.
    pub fn stream(
        &self,
        way: Way,
        reason: &'static &'static str,
        asked: usize,
        call: impl FnMut(BorrowedFd<'_>) -> Result<usize, Errno>,
    ) -> io::Result<usize> {
        self.0.stream(way.direction(), reason, asked, call)
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
