//! Fork: the locks that all objects share are held around it, so that the child finds them free,
//! and what they guard in order.
//!
//! The child has no timer that is armed, and no thread that sets them: it starts one of its own
//! when it arms one. Objects it has as they were. One that another thread was just about to change
//! stays locked, as everything else of memory that was locked by a thread that is not there any
//! more.

use super::{clock, owner};
use std::io;
use umcg_core::{Granted, granted};

/// Makes forks known to this module.
pub(super) fn install() -> io::Result<()> {
    static INSTALLED: Granted<()> = Granted::new();
    // SAFETY: the handlers are functions of ours that may run in any thread.
    let install =
        || granted(unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) });
    INSTALLED
        .get_or_ask(install)
        .copied()
        .map_err(io::Error::from_raw_os_error)
}

// The two locks never nest.
unsafe extern "C" fn prepare() {
    clock::before_fork();
    owner::before_fork();
}

unsafe extern "C" fn parent() {
    // SAFETY: `prepare` ran in this thread.
    unsafe { owner::forked() };
    // SAFETY: likewise.
    unsafe { clock::forked(false) };
}

unsafe extern "C" fn child() {
    // SAFETY: `prepare` ran in the thread that this one is a copy of.
    unsafe { owner::forked() };
    // SAFETY: likewise.
    unsafe { clock::forked(true) };
}
