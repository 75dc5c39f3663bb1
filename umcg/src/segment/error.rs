//! Why something in a segment was not done.

use std::fmt;
use std::io;

/// Why nothing can be done with an object, or not now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A process died within the object's inner lock. For good.
    Dead,
    /// What the segment has about the object contradicts itself, or its inner lock is not given
    /// back. For good.
    Corrupt,
    /// The segment has no room for another waiter, or for another process. For now.
    Full,
}

/// Why a segment cannot be made or opened.
#[derive(Debug)]
pub enum OpenError {
    /// The kernel refused something.
    Io(io::Error),
    /// The numbers of the options are 0 or too large.
    Sizes,
    /// The file is none, or is not made yet.
    NotASegment,
    /// It was made by a version of this library with another layout.
    OtherVersion,
    /// Its header contradicts itself, or the file is shorter than it says.
    Corrupt,
    /// There are as many processes already as it was made for.
    Full,
}

/// Why there is no object of this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameError {
    /// The name is empty, longer than 64 bytes, or contains a 0.
    Name,
    /// The object that has this name is of another kind, or, a tube, has other messages or another
    /// capacity.
    Mismatch,
    /// A capacity or a size of messages of 0, or more than the segment can have.
    Size,
    /// The segment has no room for another object, for its messages, or for another process.
    Full,
    /// Somebody who makes an object has not come to an end for long.
    Busy,
}

/// Why nothing was taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryError {
    /// There is nothing to take, or others wait for it.
    Empty,
    /// Nothing can be done with the object.
    Fault(Fault),
}

/// Why a wait with a deadline has taken nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitError {
    /// The time has passed.
    TimedOut,
    /// Nothing can be done with the object.
    Fault(Fault),
}

/// Why nothing was released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseError {
    /// There would be more than 4,294,967,295 wakeups.
    Overflow,
    /// Nothing can be done with the object.
    Fault(Fault),
}

/// Why a message was not sent or received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TubeError {
    /// The tube is closed; for a receiver: and empty.
    Closed,
    /// Nothing can be done with the tube.
    Fault(Fault),
}

/// Why a message was not sent or received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryTubeError {
    /// There is no room, or others wait for it; for a receiver: no message.
    NotNow,
    /// The tube is closed; for a receiver: and empty.
    Closed,
    /// Nothing can be done with the tube.
    Fault(Fault),
}

/// Why a message was not sent or received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TubeWaitError {
    /// The time has passed.
    TimedOut,
    /// The tube is closed; for a receiver: and empty.
    Closed,
    /// Nothing can be done with the tube.
    Fault(Fault),
}

const LATE: &str = "the time has passed";
const CLOSED: &str = "the tube is closed";

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Fault::Dead => "a process died within the object's lock",
            Fault::Corrupt => "the object's contents are corrupt",
            Fault::Full => "the segment has no room for another waiter or process",
        })
    }
}

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

impl fmt::Display for NameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NameError::Name => "not a name for an object",
            NameError::Mismatch => "the object of this name is another one",
            NameError::Size => "an impossible capacity or size of messages",
            NameError::Full => "the segment has no room for another object",
            NameError::Busy => "somebody is making an object, and does not come to an end",
        })
    }
}

impl fmt::Display for TryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryError::Empty => f.write_str("there is nothing to take"),
            TryError::Fault(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitError::TimedOut => f.write_str(LATE),
            WaitError::Fault(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for ReleaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReleaseError::Overflow => f.write_str("the semaphore cannot keep more wakeups"),
            ReleaseError::Fault(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for TubeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TubeError::Closed => f.write_str(CLOSED),
            TubeError::Fault(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for TryTubeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryTubeError::NotNow => f.write_str("the tube has no room, or no message"),
            TryTubeError::Closed => f.write_str(CLOSED),
            TryTubeError::Fault(fault) => fault.fmt(f),
        }
    }
}

impl fmt::Display for TubeWaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TubeWaitError::TimedOut => f.write_str(LATE),
            TubeWaitError::Closed => f.write_str(CLOSED),
            TubeWaitError::Fault(fault) => fault.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}
impl std::error::Error for NameError {}
impl std::error::Error for TryError {}
impl std::error::Error for WaitError {}
impl std::error::Error for ReleaseError {}
impl std::error::Error for TubeError {}
impl std::error::Error for TryTubeError {}
impl std::error::Error for TubeWaitError {}

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
