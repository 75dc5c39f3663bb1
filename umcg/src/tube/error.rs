//! Why a message was not sent or received. Names and variants are those that users of other
//! channels know.

use super::waiting::TransferError;
use crate::error::texts;
use std::fmt;

/// The tube is closed; the message comes back. `SendError<()>` where there was none yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SendError<T>(pub T);

/// Why nothing was sent at once; the message comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room, or, in a tube of capacity 0, no receiver waits.
    Full(T),
    /// The tube is closed.
    Disconnected(T),
}

/// Why nothing was sent in time; the message comes back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time has passed.
    Timeout(T),
    /// The tube is closed.
    Disconnected(T),
}

/// The tube is closed, and empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

/// Why nothing was received at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is no message, or, in a tube of capacity 0, no sender waits.
    Empty,
    /// The tube is closed, and empty.
    Disconnected,
}

/// Why nothing was received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// The time has passed.
    Timeout,
    /// The tube is closed, and empty.
    Disconnected,
}

const CLOSED: &str = "the tube is closed";
const DRAINED: &str = "the tube is closed and empty";
const FULL: &str = "the tube has no room";
const EMPTY: &str = "the tube has no message";
const LATE: &str = "the time has passed";

impl<T> SendError<T> {
    /// The message.
    pub fn into_inner(self) -> T {
        self.0
    }
}

impl<T> TrySendError<T> {
    pub(super) fn new(why: TransferError, message: T) -> TrySendError<T> {
        match why {
            TransferError::Closed => TrySendError::Disconnected(message),
            TransferError::WouldBlock => TrySendError::Full(message),
        }
    }

    /// The message.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(message) | TrySendError::Disconnected(message) => message,
        }
    }

    /// Whether it is for want of room.
    pub fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }

    /// Whether it is because the tube is closed.
    pub fn is_disconnected(&self) -> bool {
        !self.is_full()
    }
}

impl<T> SendTimeoutError<T> {
    pub(super) fn new(why: TransferError, message: T) -> SendTimeoutError<T> {
        match why {
            TransferError::Closed => SendTimeoutError::Disconnected(message),
            TransferError::WouldBlock => SendTimeoutError::Timeout(message),
        }
    }

    /// The message.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(message) | SendTimeoutError::Disconnected(message) => message,
        }
    }

    /// Whether the time has passed.
    pub fn is_timeout(&self) -> bool {
        matches!(self, SendTimeoutError::Timeout(_))
    }

    /// Whether it is because the tube is closed.
    pub fn is_disconnected(&self) -> bool {
        !self.is_timeout()
    }
}

impl From<TransferError> for TryRecvError {
    fn from(why: TransferError) -> TryRecvError {
        match why {
            TransferError::Closed => TryRecvError::Disconnected,
            TransferError::WouldBlock => TryRecvError::Empty,
        }
    }
}

impl From<TransferError> for RecvTimeoutError {
    fn from(why: TransferError) -> RecvTimeoutError {
        match why {
            TransferError::Closed => RecvTimeoutError::Disconnected,
            TransferError::WouldBlock => RecvTimeoutError::Timeout,
        }
    }
}

impl<T> From<SendError<T>> for TrySendError<T> {
    fn from(error: SendError<T>) -> TrySendError<T> {
        TrySendError::Disconnected(error.0)
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(error: SendError<T>) -> SendTimeoutError<T> {
        SendTimeoutError::Disconnected(error.0)
    }
}

impl From<RecvError> for TryRecvError {
    fn from(_: RecvError) -> TryRecvError {
        TryRecvError::Disconnected
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> RecvTimeoutError {
        RecvTimeoutError::Disconnected
    }
}

// The message is not printed, so that it need not be printable.
impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SendError(..)")
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_full() {
            "Full(..)"
        } else {
            "Disconnected(..)"
        })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_timeout() {
            "Timeout(..)"
        } else {
            "Disconnected(..)"
        })
    }
}

texts! {
    SendError<T> where T {
        SendError(_) => CLOSED,
    }
    TrySendError<T> where T {
        TrySendError::Full(_) => FULL,
        TrySendError::Disconnected(_) => CLOSED,
    }
    SendTimeoutError<T> where T {
        SendTimeoutError::Timeout(_) => LATE,
        SendTimeoutError::Disconnected(_) => CLOSED,
    }
    RecvError {
        RecvError => DRAINED,
    }
    TryRecvError {
        TryRecvError::Empty => EMPTY,
        TryRecvError::Disconnected => DRAINED,
    }
    RecvTimeoutError {
        RecvTimeoutError::Timeout => LATE,
        RecvTimeoutError::Disconnected => DRAINED,
    }
}
