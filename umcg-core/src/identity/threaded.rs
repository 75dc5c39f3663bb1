//! Whether the C library knows that the process has more than one thread.
//!
//! While it does not, glibc's malloc takes no locks, so workers that are preempted in it would
//! corrupt it. Also the handler that [`credentials`](super::credentials) stands before is not
//! installed. Making the first thread does both.

use crate::os::kernel_thread;
use std::sync::atomic::{AtomicBool, Ordering::*};

static THREADED: AtomicBool = AtomicBool::new(false);

/// Makes sure that it knows. Returns false where the system gives no thread.
pub(crate) fn ensure() -> bool {
    if !THREADED.load(Relaxed) {
        let Ok(thread) = kernel_thread::spawn("umcg-second", || ()) else {
            return false;
        };
        let _ = thread.join();
        THREADED.store(true, Relaxed);
    }
    true
}

/// A thread was made.
#[allow(
    dead_code,
    reason = "it is by the probe of blocks, which is not everywhere"
)]
pub(crate) fn note() {
    THREADED.store(true, Relaxed);
}

/// The child of a fork has one thread again.
pub(crate) fn forget() {
    THREADED.store(false, Relaxed);
}
