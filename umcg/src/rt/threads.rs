//! The kernel threads of a runtime: its servers, its watch, and for as long as it is not closed its
//! owner. The last one of them to leave ends the runtime.
//!
//! So nobody has to be there for that: an owner that is one of the runtime's own workers does not
//! wait for itself, and one that has no more patience leaves a server that computes for ever to
//! itself. Nor does an owner wait that is one of these threads: the program's functions that are
//! called there (of a scheduler, `on_stall`, `on_deadlock`) may drop the runtime.

use super::cancel::Shield;
use super::handle::Handle;
use super::park;
use super::runtime::Shared;
use super::sync::HoldLock;
use rustix::thread::{Pid, gettid};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// How many there are, and who waits until there are none.
pub(crate) struct Threads {
    count: AtomicUsize,
    /// Workers are left that run no more.
    gives_up: AtomicBool,
    is_over: AtomicBool,
    waiters: HoldLock<Vec<Handle>>,
    /// Of those that run.
    tids: HoldLock<Vec<Pid>>,
}

impl Threads {
    /// The owner.
    pub(crate) fn new() -> Threads {
        Threads {
            count: AtomicUsize::new(1),
            gives_up: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            waiters: HoldLock::new(Vec::new()),
            tids: HoldLock::new(Vec::new()),
        }
    }

    /// Before the workers that are left are given up.
    pub(crate) fn give_up(&self) {
        self.gives_up.store(true, Relaxed);
    }

    /// Waits until the last one has left, or until the deadline; nothing else ends that. False when
    /// the deadline has passed first.
    pub(crate) fn wait(&self, deadline: u64) -> bool {
        let me = Handle::current();
        let _shield = Shield::new(me.task());
        let mut in_time = true;
        loop {
            {
                let mut waiters = self.waiters.lock();
                // Written under the lock.
                if self.is_over.load(Relaxed) {
                    return true;
                }
                if !in_time {
                    waiters.retain(|waiter| *waiter != me);
                    return false;
                }
                if !waiters.contains(&me) {
                    waiters.push(me);
                }
            }
            in_time = park::park_shielded_until(&"shutdown", deadline);
        }
    }

    /// Whether the caller runs on one of them: as its loop, or as a worker, also where that counts
    /// as a plain thread. So the kernel is asked.
    pub(crate) fn carry_caller(&self) -> bool {
        // SAFETY: no arguments. A filter may refuse it, and a drop must not panic: no then.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
        tid > 0
            && self
                .tids
                .lock()
                .iter()
                .any(|known| known.as_raw_nonzero().get() == tid)
    }

    fn end(&self) {
        let waiters = {
            let mut waiters = self.waiters.lock();
            self.is_over.store(true, Relaxed);
            std::mem::take(&mut *waiters)
        };
        waiters
            .into_iter()
            .for_each(|waiter| park::wake(waiter.task()));
    }
}

/// One of them, until it is dropped.
pub(crate) struct Thread(Arc<Shared>, Option<Pid>);

impl Thread {
    /// One that is about to begin. Called by another one.
    pub(crate) fn new(shared: &Arc<Shared>) -> Thread {
        shared.threads.count.fetch_add(1, Relaxed);
        Thread(shared.clone(), None)
    }

    /// The one that a runtime begins with.
    pub(crate) fn owner(shared: Arc<Shared>) -> Thread {
        Thread(shared, None)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// The calling kernel thread is this one from here on.
    pub(crate) fn begin(&mut self) {
        let tid = gettid();
        self.1 = Some(tid);
        self.0.threads.tids.lock().push(tid);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let threads = &self.0.threads;
        if let Some(tid) = self.1 {
            threads.tids.lock().retain(|other| *other != tid);
        }
        // ORDERING(threads): AcqRel with itself: the last one comes after all that the others did.
        if threads.count.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        self.0.driver.close();
        if !threads.gives_up.load(Relaxed) {
            self.0.give_group_back();
        }
        threads.end();
    }
}
