//! Why nothing was taken, or given.

use crate::error::texts;

/// The semaphore was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

/// Why nothing was taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryAcquireError {
    /// There are not as many wakeups, or there are waiters for them.
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

texts! {
    Closed {
        Closed => "the semaphore was closed",
    }
    TryAcquireError {
        TryAcquireError::Empty => "the semaphore has not as many wakeups",
        TryAcquireError::Closed => &Closed,
    }
    AcquireError {
        AcquireError::TimedOut => "the time has passed",
        AcquireError::Closed => &Closed,
    }
    Overflow {
        Overflow => "the semaphore cannot keep more wakeups",
    }
}
