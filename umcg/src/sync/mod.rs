//! Synchronisation, for workers and kernel threads alike.
//!
//! Everything here stands on one protocol of waiting (docs/protocols/wait.md). Who waits longest is served first, unless a type says otherwise; what is served to a
//! waiter cannot be taken by who comes later; a wait that is cancelled or late has taken nothing.

mod any;
mod semaphore;

pub use any::{acquire_any, acquire_any_deadline, acquire_any_timeout, try_acquire_any};
pub use semaphore::{AcquireError, Acquiring, Closed, Overflow, Permit, Semaphore, TryAcquireError};
