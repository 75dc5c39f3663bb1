//! The synchronisation objects of Windows NT, in user mode: events, semaphores, mutexes that know
//! their owners, and timers, and waits for any or all of them.
//!
//! Each operation does what the document of Linux's ntsync driver says of its counterpart
//! (Documentation/userspace-api/ntsync.rst), which is, as far as is known, what Windows does. It
//! makes no system calls, except to wake and stop kernel threads, and takes any number of objects.
//! Workers and kernel threads may use an object together.
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
//! Guarantees:
//!
//! - *Any* takes one object: of those that are signaled at a moment of the wait, the first in the
//!   list. *All* takes nothing until all are signaled at one moment, in which it takes all.
//! - The longest waiter is served first, whether it waits for one, any or all.
//! - A pulse ends the waits that stand at that moment, as far as the event completes them, and
//!   leaves the event reset.
//! - A wait that ended by its deadline, by an alert or by cancellation has taken nothing.
//! - A mutex that a worker or a thread has taken in its own name is abandoned when that one ends.
//!   One taken in another owner's name is abandoned by [`Mutex::kill`].
//! - An object lives as long as there is a handle, also while it has waiters.
//! - A child after `fork` has the objects as they were, but its timers are not armed.
//!
//! Programs that need no Windows semantics are better served by [`sync`](crate::sync), whose
//! objects are smaller, and whose guards unlock. Not for signal handlers.

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
