//! What a binding to a language without unwinding needs of input and output: the C interface is
//! built on it, and nothing else should be.

use super::driver::source::Direction;
use super::fd::Fd;
use super::operation;
use rustix::io::Errno;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Towards the caller.
    In,
    /// Away from it.
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
    /// Around a descriptor whose calls do not block.
    pub fn new(fd: OwnedFd) -> Waited {
        Waited(Fd::new(fd))
    }

    /// The descriptor, which the driver has forgotten.
    pub fn into_inner(self) -> OwnedFd {
        self.0.into_inner()
    }

    /// Makes `call` until it does not say "not now"; parks in between, until `deadline` at most.
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

    /// Likewise for a byte stream, of which less than `asked` means that there is no more just now.
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

/// Reads from what has no readiness, at its own position: by the ring, or on a helper thread.
///
/// # Errors
/// As `read`.
pub fn read_file(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    operation::read(fd, buffer, None)
}

/// Writes likewise.
///
/// # Errors
/// As `write`.
pub fn write_file(fd: BorrowedFd<'_>, buffer: &[u8]) -> io::Result<usize> {
    operation::write(fd, buffer, None)
}
