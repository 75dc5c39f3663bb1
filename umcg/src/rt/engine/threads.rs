//! The kernel threads of a runtime: how many there are, and waiting until there are none.

use crate::rt::base::sync::HoldLock;
use crate::rt::task::Handle;
use rustix::thread::Pid;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// The number of kernel threads, and the wait until there are none.
pub(crate) struct Threads {
    pub(crate) count: AtomicUsize,
    /// Workers are left that will not run again.
    pub(crate) gives_up: AtomicBool,
    pub(crate) is_over: AtomicBool,
    pub(crate) waiters: HoldLock<Vec<Handle>>,
    /// The ids of the threads that run.
    pub(crate) tids: HoldLock<Vec<Pid>>,
}

impl Threads {
    /// Counts the owner.
    pub(crate) fn new() -> Threads {
        Threads {
            count: AtomicUsize::new(1),
            gives_up: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            waiters: HoldLock::new(Vec::new()),
            tids: HoldLock::new(Vec::new()),
        }
    }

    /// Called before the workers that are left are given up.
    pub(crate) fn give_up(&self) {
        self.gives_up.store(true, Relaxed);
    }

    /// Whether the caller runs on one of these threads: in its loop, or as a worker, even where
    /// that worker counts as a plain thread. So the kernel is asked.
    pub(crate) fn carry_caller(&self) -> bool {
        // SAFETY: no arguments. A filter may refuse the call, and a drop must not panic: the answer
        // is no then.
        let tid = unsafe { libc::syscall(libc::SYS_gettid) } as i32;
        tid > 0
            && self
                .tids
                .lock()
                .iter()
                .any(|known| known.as_raw_nonzero().get() == tid)
    }
}
