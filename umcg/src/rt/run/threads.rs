//! The kernel threads of a runtime: its servers, its watch, and, until it is closed, its owner. The
//! last of them to leave ends the runtime.
//!
//! So no particular thread has to stay for the end. An owner that is one of the runtime's own
//! workers does not wait for itself. An owner that stops waiting leaves behind a server that
//! computes for ever. An owner that is one of these threads does not wait either: the program's
//! functions that are called there (of a scheduler, `on_stall`, `on_deadlock`) may drop the
//! runtime.

use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::threads::Threads;
use crate::rt::task::Handle;
use crate::rt::wait::cancel::Shield;
use crate::rt::wait::park;
use rustix::thread::{Pid, gettid};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;

/// Waits until the last thread has left, or until the deadline. Nothing else ends the wait. False
/// if the deadline passed first.
pub(crate) fn wait(threads: &Threads, deadline: u64) -> bool {
    let me = Handle::current();
    let _shield = Shield::new(me.task());
    let mut in_time = true;
    loop {
        {
            let mut waiters = threads.waiters.lock();
            // Written under the lock.
            if threads.is_over.load(Relaxed) {
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

/// The last thread has left.
fn end(threads: &Threads) {
    let waiters = {
        let mut waiters = threads.waiters.lock();
        threads.is_over.store(true, Relaxed);
        std::mem::take(&mut *waiters)
    };
    waiters
        .into_iter()
        .for_each(|waiter| park::wake(waiter.task()));
}

/// One of the threads, until it is dropped.
pub(crate) struct RuntimeThread(Arc<RuntimeState>, Option<Pid>);

impl RuntimeThread {
    /// A thread that is about to begin. Called by another thread.
    pub(crate) fn new(shared: &Arc<RuntimeState>) -> RuntimeThread {
        shared.threads.count.fetch_add(1, Relaxed);
        RuntimeThread(shared.clone(), None)
    }

    /// The thread that a runtime begins with.
    pub(crate) fn owner(shared: Arc<RuntimeState>) -> RuntimeThread {
        RuntimeThread(shared, None)
    }

    pub(crate) fn shared(&self) -> &Arc<RuntimeState> {
        &self.0
    }

    /// The calling kernel thread is this one from here on.
    pub(crate) fn begin(&mut self) {
        let tid = gettid();
        self.1 = Some(tid);
        self.0.threads.tids.lock().push(tid);
    }
}

impl Drop for RuntimeThread {
    fn drop(&mut self) {
        let threads = &self.0.threads;
        if let Some(tid) = self.1 {
            threads.tids.lock().retain(|other| *other != tid);
        }
        // ORDERING(threads): AcqRel with itself: the last thread comes after everything that the
        // others did.
        if threads.count.fetch_sub(1, AcqRel) != 1 {
            return;
        }
        self.0.driver.close();
        if !threads.gives_up.load(Relaxed) {
            self.0.give_group_back();
        }
        end(threads);
    }
}
