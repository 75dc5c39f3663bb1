//! Why nothing was taken, or given.

use std::fmt;

/// The semaphore was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Why nothing was taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// There are not as many wakeups, or others wait for them.
    Empty,
    /// The semaphore was closed.
    Closed,
}

/// Why nothing was taken in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcquireError {
    /// The time has passed.
    TimedOut,
    /// The semaphore was closed.
    Closed,
}

/// More than 4,294,967,295 wakeups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overflow;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore was closed")
    }
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TryAcquireError::Empty => f.write_str("the semaphore has not as many wakeups"),
            TryAcquireError::Closed => Closed.fmt(f),
        }
    }
}

impl fmt::Display for AcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcquireError::TimedOut => f.write_str("the time has passed"),
            AcquireError::Closed => Closed.fmt(f),
        }
    }
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the semaphore cannot keep more wakeups")
    }
}

impl std::error::Error for Closed {}
impl std::error::Error for TryAcquireError {}
impl std::error::Error for AcquireError {}
impl std::error::Error for Overflow {}
