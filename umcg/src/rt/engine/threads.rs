//! The kernel threads of a runtime: how many there are, and who waits until there are none.

use crate::rt::base::sync::HoldLock;
use crate::rt::task::Handle;
use rustix::thread::Pid;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};

/// How many there are, and who waits until there are none.
pub(crate) struct Threads {
    pub(crate) count: AtomicUsize,
    /// Workers are left that run no more.
    pub(crate) gives_up: AtomicBool,
    pub(crate) is_over: AtomicBool,
    pub(crate) waiters: HoldLock<Vec<Handle>>,
    /// Of those that run.
    pub(crate) tids: HoldLock<Vec<Pid>>,
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
}
