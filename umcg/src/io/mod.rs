//! Standard input and output that park their worker, and the driver under all of `net`, `fs` and
//! `process`.
//!
//! The standard streams belong to other programs too (the shell, the other end of a pipeline), so
//! they are not made non-blocking. With the ring, the kernel waits; without one, a helper thread
//! does. They have no buffer; put a `BufReader` or `LineWriter` around them.
//!
//! ```no_run
//! umcg::spawn(|| {
//!     for line in umcg::io::stdin().lines() {
//!         println!("{}", line.unwrap());
//!     }
//! });
//! ```

pub(crate) mod current;
pub(crate) mod driver;
pub(crate) mod fd;
#[doc(hidden)]
pub mod ffi;
pub(crate) mod operation;
mod ready;
pub(crate) mod wait;

pub use driver::DriverKind;
pub use ready::{Readiness, readable, writable};

use std::io::{self, BufRead, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

/// Standard input, without a buffer. Several readers share the data, each getting pieces of it.
#[derive(Debug)]
pub struct Stdin(());

/// Standard output, without a buffer. Each call writes as much as it can at once; concurrent calls
/// may mix.
#[derive(Debug)]
pub struct Stdout(());

/// Standard error, without a buffer, like [`Stdout`].
#[derive(Debug)]
pub struct Stderr(());

impl Stdin {
    /// The lines of standard input, without their ends, from here on. Data that this buffers is
    /// lost to other readers.
    pub fn lines(self) -> io::Lines<io::BufReader<Stdin>> {
        io::BufReader::new(self).lines()
    }
}

/// Standard input.
pub fn stdin() -> Stdin {
    Stdin(())
}

/// Standard output.
pub fn stdout() -> Stdout {
    Stdout(())
}

/// Standard error.
pub fn stderr() -> Stderr {
    Stderr(())
}

impl Read for Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        operation::read(self.as_fd(), buffer, None)
    }
}

impl Read for &Stdin {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        operation::read(self.as_fd(), buffer, None)
    }
}

impl AsFd for Stdin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        rustix::stdio::stdin()
    }
}

impl AsRawFd for Stdin {
    fn as_raw_fd(&self) -> RawFd {
        self.as_fd().as_raw_fd()
    }
}

macro_rules! output {
    ($type:ident, $fd:path) => {
        impl Write for $type {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                operation::write(self.as_fd(), buffer, None)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl Write for &$type {
            fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
                operation::write(self.as_fd(), buffer, None)
            }

            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }

        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                $fd()
            }
        }

        impl AsRawFd for $type {
            fn as_raw_fd(&self) -> RawFd {
                self.as_fd().as_raw_fd()
            }
        }
    };
}

output!(Stdout, rustix::stdio::stdout);
output!(Stderr, rustix::stdio::stderr);
