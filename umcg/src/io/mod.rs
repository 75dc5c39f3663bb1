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
pub(crate) mod raw_fd;
mod ready;
pub(crate) mod wait;

pub use driver::DriverKind;
pub use ready::{Readiness, readable, writable};

use operation::{reads, writes};
use raw_fd::raw_fd;
use std::io::{self, BufRead};
use std::os::fd::{AsFd, BorrowedFd};

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

reads!(Stdin, &Stdin);

impl AsFd for Stdin {
    fn as_fd(&self) -> BorrowedFd<'_> {
        rustix::stdio::stdin()
    }
}

raw_fd!(Stdin: AsRawFd);

macro_rules! output {
    ($type:ident, $fd:path) => {
        writes!($type, &$type);

        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                $fd()
            }
        }

        raw_fd!($type: AsRawFd);
    };
}

output!(Stdout, rustix::stdio::stdout);
output!(Stderr, rustix::stdio::stderr);
