//! An unnamed semaphore each way.

use super::pair::{HandOver, Party};
use anyhow::{Result, ensure};
use std::cell::UnsafeCell;
use std::mem;

/// In boxes: a semaphore must not move once it is initialised.
pub(super) struct Sem {
    main: Box<UnsafeCell<libc::sem_t>>,
    worker: Box<UnsafeCell<libc::sem_t>>,
}

// SAFETY: semaphores are made for sharing.
unsafe impl Sync for Sem {}

fn semaphore() -> Result<Box<UnsafeCell<libc::sem_t>>> {
    // SAFETY: plain bytes, given a meaning by `sem_init` before anything else sees them.
    let semaphore = Box::new(UnsafeCell::new(unsafe { mem::zeroed() }));
    // SAFETY: in a box that is neither moved out of nor freed before `sem_destroy`.
    let rc = unsafe { libc::sem_init(semaphore.get(), 0, 0) };
    ensure!(rc == 0, "sem_init: {}", std::io::Error::last_os_error());
    Ok(semaphore)
}

impl Sem {
    #[inline(always)]
    fn semaphore(&self, party: Party) -> *mut libc::sem_t {
        match party {
            Party::Main => self.main.get(),
            Party::Worker => self.worker.get(),
        }
    }
}

impl HandOver for Sem {
    fn new() -> Result<Self> {
        Ok(Self {
            main: semaphore()?,
            worker: semaphore()?,
        })
    }

    #[inline(always)]
    fn give(&self, to: Party) {
        // SAFETY: initialised, and alive as long as `self`.
        unsafe { libc::sem_post(self.semaphore(to)) };
    }

    #[inline(always)]
    fn await_turn(&self, me: Party) {
        // It fails for one reason only: a signal.
        // SAFETY: initialised, and alive as long as `self`.
        while unsafe { libc::sem_wait(self.semaphore(me)) } != 0 {}
    }
}

impl Drop for Sem {
    fn drop(&mut self) {
        for semaphore in [self.main.get(), self.worker.get()] {
            // SAFETY: no thread waits any more: both threads are done.
            unsafe { libc::sem_destroy(semaphore) };
        }
    }
}
