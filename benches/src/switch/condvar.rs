//! A mutex, a condition variable for each direction, and a flag for whose turn it is.

use super::pair::{HandOver, Party};
use anyhow::Result;
use std::cell::{Cell, UnsafeCell};

pub(super) struct Condvar {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    /// Written and read under the mutex.
    turn: Cell<Party>,
    main: UnsafeCell<libc::pthread_cond_t>,
    worker: UnsafeCell<libc::pthread_cond_t>,
}

// SAFETY: the C objects are made for sharing, and `turn` is touched under the mutex only.
unsafe impl Sync for Condvar {}

impl Condvar {
    fn variable(&self, party: Party) -> *mut libc::pthread_cond_t {
        match party {
            Party::Main => self.main.get(),
            Party::Worker => self.worker.get(),
        }
    }

    #[inline(always)]
    fn locked(&self, f: impl FnOnce()) {
        // SAFETY: the mutex is initialised, lives in `self`, and is not held by this thread.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) };
        f();
        // SAFETY: locked above.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }
}

impl HandOver for Condvar {
    fn new() -> Result<Self> {
        Ok(Self {
            mutex: UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER),
            turn: Cell::new(Party::Main),
            main: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
            worker: UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER),
        })
    }

    /// Signals after unlocking: a thread that is woken while the mutex is held may run only to wait
    /// for the mutex, which halved the rate on one CPU.
    #[inline(always)]
    fn give(&self, to: Party) {
        self.locked(|| self.turn.set(to));
        // SAFETY: the condition variable is initialised and lives in `self`, which outlives both
        // threads.
        unsafe { libc::pthread_cond_signal(self.variable(to)) };
    }

    #[inline(always)]
    fn await_turn(&self, me: Party) {
        self.locked(|| {
            while self.turn.get() != me {
                // SAFETY: both are initialised and live in `self`; the mutex is held.
                unsafe { libc::pthread_cond_wait(self.variable(me), self.mutex.get()) };
            }
        });
    }
}

impl Drop for Condvar {
    fn drop(&mut self) {
        for variable in [self.main.get(), self.worker.get()] {
            // SAFETY: no thread waits any more: both threads are done.
            unsafe { libc::pthread_cond_destroy(variable) };
        }
        // SAFETY: unlocked, and no thread will lock it again.
        unsafe { libc::pthread_mutex_destroy(self.mutex.get()) };
    }
}
