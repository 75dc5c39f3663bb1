//! The waiters: workers and threads alike.

use crate::support::Kind;
use std::sync::atomic::{AtomicU32, Ordering::*};
use umcg::{JoinHandle, Runtime, futex};

/// A worker, or a thread.
pub(crate) enum Party<R> {
    Worker(JoinHandle<R>),
    Thread(std::thread::JoinHandle<R>),
}

impl<R: Send + 'static> Party<R> {
    /// A thread for each third number, else a worker.
    pub(crate) fn start(
        number: usize,
        kind: Kind,
        on: &Runtime,
        f: impl FnOnce() -> R + Send + 'static,
    ) -> Party<R> {
        if number % 3 == 2 {
            Party::Thread(std::thread::spawn(f))
        } else {
            Party::Worker(kind.spawn_on(on, f))
        }
    }

    pub(crate) fn join(self) -> R {
        match self {
            Party::Worker(worker) => worker.join().unwrap_or_else(|error| error.resume_unwind()),
            Party::Thread(thread) => thread.join().unwrap(),
        }
    }
}

/// Words that are never freed.
pub(crate) fn words(count: usize) -> &'static [AtomicU32] {
    (0..count)
        .map(|_| AtomicU32::new(0))
        .collect::<Vec<_>>()
        .leak()
}

/// How many wait for a word, each for that one alone: all are moved to its queue.
pub(crate) fn waiting(word: &AtomicU32) -> usize {
    let asked = futex::requeue(word, word, 0, usize::MAX);
    assert_eq!(asked.woken, 0);
    asked.moved
}

/// Takes one from a counter, if it is not 0.
pub(crate) fn take(word: &AtomicU32) -> bool {
    word.fetch_update(Acquire, Relaxed, |count| count.checked_sub(1))
        .is_ok()
}
