//! Waiting for words: a 32-bit word is compared, and if it has the value that it is expected to
//! have, the caller stops until somebody wakes the word.
//!
//! What futex(2) is to kernel threads, this is to workers and kernel threads alike: a worker that
//! waits gives its server to others. Who waits for a word first is woken first, whoever it is, and
//! a hop of workers costs some tens of nanoseconds. One can wait for many words at once
//! ([`wait_multiple`], [`WaitSet`]): the meaning is that of FUTEX_WAIT_MULTIPLE (G. Krisman
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
//! # What is promised
//!
//! - If the word has another value, nobody waits. Who changes it and then wakes it misses nobody:
//!   either a waiter is woken, or it sees the change.
//! - Nobody is woken without a reason; but a wake-up says nothing about the value, so a wait
//!   belongs into a loop. What was written before a wake-up is seen by who was woken.
//! - A wait that is cancelled or late was not woken: the wake-up goes to the next one.
//!
//! # Whose words
//!
//! The functions here are for words of one process. Their waiters, kernel threads included, stand
//! in a table of the library's, so the kernel does not know them: FUTEX_WAKE by foreign code does
//! not reach them, and [`wake`] reaches nobody who sleeps by FUTEX_WAIT. Such words, and those in
//! memory that processes share, are the business of [`shared`], which goes to the kernel. The two
//! do not mix: who waits for a word by the one is not woken by the other.
//!
//! Algorithm and argument: docs/protocols/futex.md.

#[doc(hidden)]
pub mod ffi;
mod many;
mod set;
pub mod shared;
mod table;
mod word;

pub use set::{
    ChangedAt, Wait, WaitMultipleError, WaitSet, wait_multiple, wait_multiple_deadline,
    wait_multiple_timeout,
};
pub use table::Requeued;
pub use word::{Changed, WaitError, cmp_requeue, requeue, wait, wait_deadline, wait_timeout, wake};

use word::wait_until;

/// Of all words of the process. Untouched pages of it are no memory.
fn table() -> &'static table::Table<4096> {
    static TABLE: table::Table<4096> = table::Table::new();
    &TABLE
}
