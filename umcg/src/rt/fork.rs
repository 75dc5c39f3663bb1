//! Fork: the locks of what all runtimes and threads of a process share are held around it, so that
//! the child finds them free, and what they guard in order.
//!
//! The child has no thread of the parent's runtimes. So each of them is closed there
//! (`Shared::leave_behind`): those that make workers look at that anyway, and need not ask for
//! forks.

use super::{handle, quit};
use std::sync::atomic::{AtomicBool, Ordering::*};

/// Makes forks known to this module. Without memory for that a child has to do as well as it can.
pub(super) fn install() {
    static INSTALLED: AtomicBool = AtomicBool::new(false);
    // Nobody waits for who does it, whom a child may not have.
    if !INSTALLED.swap(true, Relaxed) {
        // SAFETY: the handlers are functions of ours that may run in any thread.
        let refused =
            unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) } != 0;
        if refused {
            INSTALLED.store(false, Relaxed); // the next one tries
        }
    }
}

// The two locks never nest.
unsafe extern "C" fn prepare() {
    handle::before_fork();
    quit::before_fork();
}

unsafe extern "C" fn parent() {
    // SAFETY: `prepare` ran in this thread.
    unsafe { quit::forked(false) };
    // SAFETY: likewise.
    unsafe { handle::forked() };
}

unsafe extern "C" fn child() {
    // SAFETY: `prepare` ran in the thread of which this one is a copy.
    unsafe { quit::forked(true) };
    // SAFETY: likewise.
    unsafe { handle::forked() };
}
