//! The deadlines of one server: those of the workers that began to wait on it, in a wheel.
//!
//! An entry has a word. [`wait`](crate::rt::wait) gives the word its meaning: it arms entries, and
//! passes the functions that fire them when their deadline passes.

use crate::rt::base::clock::now;
use crate::rt::base::wheel::{TimerEntry, Wheel};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::*};
use umcg_core::context::lock::HoldLock;

/// How many deadlines are taken out in one hold of the lock.
const BATCH: usize = 64;

/// The deadlines of one server.
pub(crate) struct Timers {
    wheel: HoldLock<Wheel<usize>>,
    /// When to check the deadlines next; `u64::MAX` for never. Written under the lock.
    next: AtomicU64,
}

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            wheel: HoldLock::new(Wheel::new()),
            next: AtomicU64::new(u64::MAX),
        }
    }

    /// When to check the deadlines next.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// How many deadlines there are.
    pub(crate) fn len(&self) -> usize {
        self.wheel.lock().len()
    }

    /// Arms an entry.
    ///
    /// # Safety
    /// The entry stays where it is until `disarm`.
    pub(crate) unsafe fn arm(&self, entry: NonNull<TimerEntry<usize>>, deadline: u64) {
        let mut wheel = self.wheel.lock();
        // SAFETY: passed on.
        unsafe { wheel.insert(entry, deadline) };
        self.next.store(wheel.next(), Relaxed);
    }

    /// Takes the entry back. False if its deadline has passed.
    ///
    /// # Safety
    /// The entry was armed here.
    pub(crate) unsafe fn disarm(&self, entry: NonNull<TimerEntry<usize>>) -> bool {
        let mut wheel = self.wheel.lock();
        // SAFETY: passed on.
        let was_armed = unsafe { wheel.remove(entry) };
        self.next.store(wheel.next(), Relaxed);
        was_armed
    }

    /// Takes out the entries whose deadline has passed. Calls `mark` with the word of each under
    /// the lock, and `fire` after releasing it. Reads the clock only if there may be any. True if
    /// there were any.
    pub(crate) fn expire(&self, mark: impl Fn(usize), fire: impl Fn(usize)) -> bool {
        if self.next() == u64::MAX {
            return false;
        }
        let now = now();
        let mut any = false;
        // Wake no worker under the lock: the lock holds off preemption by a count that waking sets.
        while self.next() <= now {
            let mut due = [0; BATCH];
            let mut count = 0;
            let mut wheel = self.wheel.lock();
            wheel.expire(now, &mut |word| {
                mark(word);
                due[count] = word;
                count += 1;
                count < BATCH
            });
            self.next.store(wheel.next(), Relaxed);
            drop(wheel);
            due[..count].iter().for_each(|word| fire(*word));
            any |= count > 0;
        }
        any
    }
}
