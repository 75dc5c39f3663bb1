//! Children by `fork`.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::panic::{AssertUnwindSafe, catch_unwind};
use umcg_core::kernel_thread;

/// A child that was forked.
pub(crate) struct Forked(Pid);

/// Makes a child that runs `f` and ends with its result; with 101, as tests do, if that panics.
///
/// The child has a copy of all memory and none of the other threads. Locks that those held stay
/// locked, so `f` takes no locks that they may have had. The allocator's locks are free, as the C
/// library sees to that.
pub(crate) fn fork(f: impl FnOnce() -> i32) -> Forked {
    // SAFETY: the child ends in the branch that is its own, so nothing of its parent's frames is
    // left or dropped twice. A lock that is never unlocked would only stop it.
    match unsafe { libc::fork() } {
        0 => {
            let code = catch_unwind(AssertUnwindSafe(f)).unwrap_or(101);
            // SAFETY: it ends the process, without the functions registered for the end of the
            // parent.
            unsafe { libc::_exit(code) }
        }
        child => {
            assert!(child > 0, "no fork: {}", std::io::Error::last_os_error());
            Forked(Pid::from_raw(child).unwrap())
        }
    }
}

impl Forked {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.0, signal).unwrap();
    }

    /// Waits for its end, which is to be good.
    #[track_caller]
    pub(crate) fn ends_well(self) {
        let (_, status) = waitpid(Some(self.0), WaitOptions::empty())
            .unwrap()
            .unwrap();
        assert_eq!(status.exit_status(), Some(0), "{status:?}");
    }
}

/// Calls `f` in a thread that the standard library did not make: that has a lock while it begins,
/// which a child that makes threads may find taken.
pub(crate) fn in_plain_thread(f: fn()) {
    kernel_thread::spawn("plain", f).unwrap().join().unwrap();
}
