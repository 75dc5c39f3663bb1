//! Which flow makes a system call, for a layer that notices calls that block.

use super::Worker;
use crate::umcg::guest::GuestHead;
use crate::umcg::worker::Carrier;
use crate::umcg::{Role, is_apart, role};
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::Ordering::Relaxed;
use umcg_context::local;

/// The flow that makes a system call.
#[derive(Clone, Copy, Debug)]
pub enum CallOrigin {
    /// The library, or code that it has called, also for the layer that asks: it may hold locks of
    /// the library's.
    Library,
    /// Code that does not leave its kernel thread: a plain thread's; that of a worker which shares
    /// its server's storage, which is in a blocking scope, or in a critical section.
    Thread,
    /// The own code of a worker that has storage of its own, and that a server runs.
    Worker(Worker),
    /// A process that runs in the caller's memory, with the caller's storage, until it calls exec.
    Child,
}

/// The word for the layer's state says that the flow is in the layer.
static WITHIN: GuestHead = GuestHead::new(true);
/// The word says that a child may run with this storage.
static SHARED: GuestHead = GuestHead::new(false);

fn word(head: &'static GuestHead) -> *mut () {
    from_ref(head).cast_mut().cast()
}

impl CallOrigin {
    /// The caller's. `is_child` says whether the calling process is another one than that of the
    /// library; it is asked only after [`share_with_child`]. Async-signal-safe.
    #[inline(always)]
    pub fn of_caller(is_child: impl FnOnce() -> bool) -> CallOrigin {
        if local::holds() != 0 {
            return CallOrigin::Library;
        }
        if !local::guest().is_null() && !is_own_code(is_child) {
            return if local::guest() == word(&WITHIN) {
                CallOrigin::Library
            } else {
                CallOrigin::Child
            };
        }
        if is_apart() {
            return CallOrigin::Library;
        }
        match role() {
            Role::Worker(worker, _)
                if worker.carrier() != Carrier::Sharing && worker.critical.load(Relaxed) == 0 =>
            {
                CallOrigin::Worker(Worker(worker))
            }
            Role::Server(_) => CallOrigin::Library,
            Role::Worker(..) | Role::Plain | Role::Blocked(_) => CallOrigin::Thread,
        }
    }
}

#[cold]
fn is_own_code(is_child: impl FnOnce() -> bool) -> bool {
    let is_own = local::guest() == word(&SHARED) && !is_child();
    if is_own {
        local::set_guest(null_mut());
    }
    is_own
}

/// Calls `f` in the layer: meanwhile the caller's system calls are the library's, and it is not
/// preempted. `f` may switch, and does not unwind.
#[inline(always)]
pub fn within<R>(f: impl FnOnce() -> R) -> R {
    local::set_guest(word(&WITHIN));
    let result = f();
    local::set_guest(null_mut());
    result
}

/// The caller is about to make a process that runs in this memory, with the caller's storage.
pub fn share_with_child() {
    local::set_guest(word(&SHARED));
}
