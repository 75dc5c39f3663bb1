//! Errors: one type for each kind of operation.

mod texts;

pub(crate) use texts::texts;

use std::fmt;

/// Why a server or worker could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The calling thread is a server or a worker already.
    Registered,
    /// The system has no memory or stack left.
    OutOfMemory,
    /// There is no stack for a light worker.
    Stack(umcg_core::uth::UthError),
    /// The kernel gave no thread; its error number.
    Thread(i32),
    /// The system refused; its error number: EAGAIN where it has no timer or thread key left.
    Os(i32),
    /// `UMCG_DRIVER` in the environment names no driver.
    NoSuchDriver,
    /// The name of a runtime has a NUL byte, which names of threads cannot have.
    Name,
}

impl Error {
    pub(crate) fn from_io(error: std::io::Error) -> Error {
        match error.raw_os_error() {
            Some(code) => Error::Os(code),
            None if error.kind() == std::io::ErrorKind::InvalidInput => Error::NoSuchDriver,
            None => Error::OutOfMemory,
        }
    }

    /// The error of an attempt to make a thread.
    pub(crate) fn no_thread(error: std::io::Error) -> Error {
        error
            .raw_os_error()
            .map_or(Error::OutOfMemory, Error::Thread)
    }

    pub(crate) fn from_raw(code: i32) -> Error {
        const EINVAL: i32 = 22;
        const ENOMEM: i32 = 12;
        match code {
            EINVAL => Error::Registered,
            ENOMEM => Error::OutOfMemory,
            code => Error::Os(code),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Registered => f.write_str("the calling thread is a server or a worker already"),
            Error::NoSuchDriver => f.write_str("UMCG_DRIVER is neither epoll nor io_uring"),
            Error::Name => f.write_str("the name of a runtime has a NUL byte"),
            Error::OutOfMemory => f.write_str("no memory or stack left"),
            Error::Stack(error) => error.fmt(f),
            Error::Thread(code) => {
                write!(f, "no thread: {}", std::io::Error::from_raw_os_error(*code))
            }
            Error::Os(code) => write!(
                f,
                "refused by the system: {}",
                std::io::Error::from_raw_os_error(*code)
            ),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Os(code) | Error::Thread(code) => std::io::Error::from_raw_os_error(code),
            Error::OutOfMemory | Error::Stack(_) => {
                std::io::Error::new(std::io::ErrorKind::OutOfMemory, error)
            }
            Error::Name => std::io::Error::new(std::io::ErrorKind::InvalidInput, error),
            Error::Registered | Error::NoSuchDriver => std::io::Error::other(error),
        }
    }
}

/// Why a server's wait ended without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// [`wake`](crate::wake) or the command WAKE ended it.
    Woken,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

/// Error: the caller is not a worker that a server runs just now. It is a plain thread, a server,
/// or a worker in a blocking scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAWorker;

/// Why a worker's wait with a deadline did not end by a server's choice alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimedOut {
    /// The deadline passed before a server ran the worker again.
    Passed,
    /// As [`NotAWorker`]: there was no wait.
    NotAWorker,
}

texts! {
    WaitError {
        WaitError::Woken => "the server was woken without an event",
        WaitError::TimedOut => "the deadline passed without an event",
        WaitError::Interrupted => "a signal handler ran",
    }
    NotAWorker {
        NotAWorker => "the caller is no worker that a server runs",
    }
    TimedOut {
        TimedOut::Passed => "the deadline passed",
        TimedOut::NotAWorker => &NotAWorker,
    }
}
