//! Children by `fork`.

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A child that was forked.
pub(crate) struct Forked(Pid);

/// Makes a child that does what `f` does and ends with its result; with 101, as tests do, if that panics.
///
/// The child has a copy of all memory and none of the other threads. What they had locked stays locked, so `f` takes no locks that they may have had: those of the
/// allocator are free, as the C library sees to that.
pub(crate) fn fork(f: impl FnOnce() -> i32) -> Forked {
    // SAFETY: the child ends in the branch that is its own, so nothing of its parent's frames is left or dropped twice. A lock that nobody unlocks would stop it, no more.
    match unsafe { libc::fork() } {
        0 => {
            let code = catch_unwind(AssertUnwindSafe(f)).unwrap_or(101);
            // SAFETY: it ends the process, without what was registered for the end of the parent.
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
        let (_, status) = waitpid(Some(self.0), WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0), "{status:?}");
    }
}
