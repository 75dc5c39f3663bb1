//! The synchronisation objects of Windows NT, in user mode: events, semaphores, mutexes that know
//! their owners, and timers, and waits for any or all of them.
//!
//! What an operation does is what the document of Linux's ntsync driver says of its like
//! (Documentation/userspace-api/ntsync.rst), which is what Windows does as far as anybody knows;
//! without system calls, but for waking and stopping kernel threads, and with any number of
//! objects. Workers and kernel threads may use an object together.
//!
//! ```
//! use umcg::nt::{Event, Semaphore, Wait, WaitError, Woken};
//!
//! let (stop, jobs) = (Event::manual(false), Semaphore::new(1, 100).unwrap());
//! let both = [stop.as_handle(), jobs.as_handle()];
//! assert_eq!(Wait::any(&both).wait(), Ok(Woken::Object(1)));
//! assert_eq!(Wait::any(&both).try_wait(), Err(WaitError::TimedOut));
//! stop.set();
//! assert_eq!(jobs.release(2), Ok(0));
//! assert_eq!(Wait::any(&both).wait(), Ok(Woken::Object(0)));
//! assert_eq!(Wait::all(&both).wait(), Ok(Woken::Object(0)));
//! assert_eq!(jobs.count(), 1);
//! ```
//!
//! What one may count on:
//!
//! - *Any* takes one object: of those that are signaled at a moment of the wait, the first in the
//!   list. *All* takes nothing until all are signaled at one moment, in which it takes all.
//! - Who waits longest is served first, whether it waits for one, any or all.
//! - A pulse ends the waits that stand at that moment, as far as the event completes them, and
//!   leaves the event reset.
//! - A wait that ended by its deadline, by an alert or by being cancelled has taken nothing.
//! - A mutex that a worker or a thread has taken in its own name is abandoned when that one ends;
//!   in another's, when [`Mutex::kill`] says so.
//! - An object lives as long as there is a handle: while somebody waits for it, too.
//! - A child after `fork` has the objects as they were, but its timers are not armed.
//!
//! What has nothing to do with Windows is better served by [`sync`](crate::sync), whose objects are
//! smaller, and whose guards unlock. Not for signal handlers.

mod clock;
mod handle;
mod object;
mod owner;
mod types;
mod wait;

pub use handle::{BorrowedHandle, Handle};
pub use owner::owner;
pub use types::{Event, Mutex, NotOwner, OutOfRange, Owned, Semaphore, Timer};
pub use wait::{Wait, WaitError, Woken};
