//! Waiting for words: a 32-bit word is compared, and if it has the expected value, the caller stops
//! until the word is woken.
//!
//! This does for workers and kernel threads alike what futex(2) does for kernel threads. A worker
//! that waits gives its server to others. The first waiter of a word is woken first, worker or
//! thread, and a hop of workers costs some tens of nanoseconds. A caller can wait for many words at
//! once ([`wait_multiple`], [`WaitSet`]): the meaning is that of FUTEX_WAIT_MULTIPLE (G. Krisman
//! Bertazi, A. Almeida, "Implement FUTEX_WAIT_MULTIPLE operation", 2020), for any number of words.
//!
//! ```
//! use std::sync::atomic::{AtomicU32, Ordering::*};
//! use umcg::futex;
//!
//! static DOOR: AtomicU32 = AtomicU32::new(0);
//! let guest = std::thread::spawn(|| {
//!     while DOOR.load(Acquire) == 0 {
//!         let _ = futex::wait(&DOOR, 0); // not at once, if it has opened meanwhile
//!     }
//! });
//! DOOR.store(1, Release);
//! futex::wake(&DOOR, usize::MAX);
//! guest.join().unwrap();
//! ```
//!
//! # Guarantees
//!
//! - If the word has another value, a caller does not wait. A thread that changes the word and then
//!   wakes it misses no waiter: each is woken, or sees the change.
//! - No waiter is woken without a reason; but a wake-up says nothing about the value, so put the
//!   wait in a loop. A woken waiter sees everything that was written before the wake-up.
//! - A wait that is cancelled, or ended by its deadline, was not woken: the wake-up goes to the
//!   next one.
//!
//! # Whose words
//!
//! The functions here are for words of one process. Their waiters, kernel threads included, stand
//! in a table of the library's, so the kernel does not know them: FUTEX_WAKE by foreign code does
//! not reach them, and [`wake`] does not reach a thread that sleeps by FUTEX_WAIT. For such words,
//! and for words in memory that processes share, use [`shared`], which goes to the kernel. The two
//! do not mix: a wait by the one is not woken by the other.
//!
//! Algorithm and argument: docs/protocols/futex.md.

#[doc(hidden)]
pub mod ffi;
#[cfg(feature = "intercept")]
#[doc(hidden)]
pub mod kernel;
mod many;
mod set;
pub mod shared;
pub(crate) mod table;
mod word;

pub use set::{
    ChangedAt, Wait, WaitMultipleError, WaitSet, wait_multiple, wait_multiple_deadline,
    wait_multiple_timeout,
};
pub use table::Requeued;
pub use word::{Changed, WaitError, cmp_requeue, requeue, wait, wait_deadline, wait_timeout, wake};

use word::wait_until;

pub(crate) const BUCKETS: usize = 4096;

/// The table of all words of the process. Its untouched pages take no memory.
pub(crate) static TABLE: table::Table<BUCKETS> = table::Table::new();

fn table() -> &'static table::Table<BUCKETS> {
    &TABLE
}
