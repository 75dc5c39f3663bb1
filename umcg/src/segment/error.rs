//! Errors of operations on a segment.

use crate::error::texts;
use std::fmt;
use std::io;

/// Why an operation on an object is impossible, or impossible now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process died while it held the object's inner lock. For good.
    Dead,
    /// The object's contents in the segment contradict themselves, or its inner lock is not given
    /// back. For good.
    Corrupt,
    /// The segment has no room for another waiter, or for another process. For now.
    Full,
}

/// Why a segment cannot be made or opened.
#[derive(Debug)]
pub enum OpenError {
    /// The kernel refused a call.
    Io(io::Error),
    /// A number in the options is 0 or too large.
    Sizes,
    /// The file is not a segment, or the segment is not complete yet.
    NotASegment,
    /// It was made by a version of this library with another layout.
    OtherVersion,
    /// Its header contradicts itself, or the file is shorter than it says.
    Corrupt,
    /// As many processes have it open as it was made for.
    Full,
}

/// Why there is no object with this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name is empty, longer than 64 bytes, or contains a 0.
    Name,
    /// The object with this name is of another kind; or it is a tube with another message size or
    /// another capacity.
    Mismatch,
    /// A capacity or a message size is 0, or larger than the segment allows.
    Size,
    /// The segment has no room for another object, for its messages, or for another process.
    Full,
    /// Another process has been making an object for a long time, and has not finished.
    Busy,
}

/// Why nothing was taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryError {
    /// There is nothing to take, or others wait for it.
    Empty,
    /// The object is faulty.
    Fault(Fault),
}

/// Why a wait with a deadline took nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The time has passed.
    TimedOut,
    /// The object is faulty.
    Fault(Fault),
}

/// Why nothing was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseError {
    /// There would be more than 4,294,967,295 wakeups.
    Overflow,
    /// The object is faulty.
    Fault(Fault),
}

/// Why a message was not sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TubeError {
    /// The tube is closed; for a receiver: closed and empty.
    Closed,
    /// The tube is faulty.
    Fault(Fault),
}

/// Why a message was not sent or received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryTubeError {
    /// There is no room, or others wait for it. For a receiver: there is no message.
    NotNow,
    /// The tube is closed; for a receiver: closed and empty.
    Closed,
    /// The tube is faulty.
    Fault(Fault),
}

/// Why a message was not sent or received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TubeWaitError {
    /// The time has passed.
    TimedOut,
    /// The tube is closed; for a receiver: closed and empty.
    Closed,
    /// The tube is faulty.
    Fault(Fault),
}

const TIMED_OUT: &str = "the time has passed";
const CLOSED: &str = "the tube is closed";

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            OpenError::Io(error) => return error.fmt(f),
            OpenError::Sizes => "a number of the segment's options is 0 or too large",
            OpenError::NotASegment => "the file is not a segment",
            OpenError::OtherVersion => "the segment has another version's layout",
            OpenError::Corrupt => "the segment's header is corrupt",
            OpenError::Full => "the segment has no room for another process",
        })
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Io(error) => error.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for OpenError {
    fn from(error: io::Error) -> OpenError {
        OpenError::Io(error)
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> io::Error {
        match error {
            OpenError::Io(error) => error,
            OpenError::Sizes => io::Error::new(io::ErrorKind::InvalidInput, error),
            OpenError::Full => io::Error::new(io::ErrorKind::QuotaExceeded, error),
            _ => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

macro_rules! from_fault {
    ($($error:ident)*) => {
        $(impl From<Fault> for $error {
            fn from(fault: Fault) -> $error {
                $error::Fault(fault)
            }
        })*
    };
}

from_fault!(TryError WaitError ReleaseError TubeError TryTubeError TubeWaitError);

texts! {
    Fault {
        Fault::Dead => "a process died within the object's lock",
        Fault::Corrupt => "the object's contents are corrupt",
        Fault::Full => "the segment has no room for another waiter or process",
    }
    NameError {
        NameError::Name => "not a name for an object",
        NameError::Mismatch => "the object of this name is another one",
        NameError::Size => "an impossible capacity or size of messages",
        NameError::Full => "the segment has no room for another object",
        NameError::Busy => "somebody is making an object, and does not come to an end",
    }
    TryError {
        TryError::Empty => "there is nothing to take",
        TryError::Fault(fault) => fault,
    }
    WaitError {
        WaitError::TimedOut => TIMED_OUT,
        WaitError::Fault(fault) => fault,
    }
    ReleaseError {
        ReleaseError::Overflow => "the semaphore cannot keep more wakeups",
        ReleaseError::Fault(fault) => fault,
    }
    TubeError {
        TubeError::Closed => CLOSED,
        TubeError::Fault(fault) => fault,
    }
    TryTubeError {
        TryTubeError::NotNow => "the tube has no room, or no message",
        TryTubeError::Closed => CLOSED,
        TryTubeError::Fault(fault) => fault,
    }
    TubeWaitError {
        TubeWaitError::TimedOut => TIMED_OUT,
        TubeWaitError::Closed => CLOSED,
        TubeWaitError::Fault(fault) => fault,
    }
}
