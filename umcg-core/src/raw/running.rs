//! A worker in its own flow.

use super::{Server, Worker};
use crate::umcg::worker::Inside;
use crate::umcg::{CallerRole, caller, operation};
use umcg_context::local::Hold;

/// A worker in its own flow, and the server that runs it. While this exists the worker is not
/// preempted.
#[derive(Debug)]
pub struct RunningWorker {
    pub(super) inside: Inside,
    pub(super) server: &'static crate::umcg::server::Server,
}

impl RunningWorker {
    /// The server that runs it.
    #[inline(always)]
    pub fn server(&self) -> Server {
        Server(self.server)
    }

    /// The worker.
    #[inline(always)]
    pub fn worker(&self) -> Worker {
        Worker(self.inside.0)
    }

    /// The caller, if it is a worker that a server runs.
    #[inline(always)]
    pub fn here() -> Option<RunningWorker> {
        match caller() {
            CallerRole::Worker(inside, server) => Some(RunningWorker { inside, server }),
            CallerRole::Server(_) | CallerRole::Neither => None,
        }
    }

    /// Gives the processor back with WAIT. Returns false when `deadline` passed before a server ran
    /// the worker again. Switches.
    ///
    /// # Safety
    /// The caller has not switched since [`RunningWorker::here`].
    #[inline(always)]
    pub unsafe fn wait(self, deadline: Option<u64>) -> bool {
        // SAFETY: both are the caller's, by the contract.
        unsafe { operation::worker_wait(self.inside, self.server, deadline) }
    }

    /// Lets `next` run on the caller's server, and calls `f(argument)` once the caller is fully
    /// suspended. So `f` may let other servers run the caller. `f` is called on the stack of
    /// `next`, or on the server's if one of the two [stays](super::threads_move) on its own kernel
    /// thread. No server gets an event. Switches.
    ///
    /// # Safety
    /// As [`RunningWorker::wait`]. The caller has the right to run `next`, and passes the right to
    /// run itself to `f`. Neither was ever run by its tid.
    #[inline(always)]
    pub unsafe fn switch_with(
        self,
        next: Worker,
        f: unsafe extern "C" fn(*mut ()),
        argument: *mut (),
    ) {
        next.0.lists().take(&next.0.node);
        // SAFETY: both are the caller's, by the contract. A worker that is run by token, and stops
        // this way, stays HELD.
        unsafe { self.inside.0.leave_with(self.server, next.0, f, argument) };
    }

    /// Lets `next` run on the caller's server. The caller becomes idle, with WAIT. Returns false as
    /// [`RunningWorker::wait`] does. Switches.
    ///
    /// # Safety
    /// As [`RunningWorker::wait`], and the caller has the right to run `next`.
    #[inline(always)]
    pub unsafe fn switch_to(self, next: Worker, deadline: Option<u64>) -> bool {
        let hold = Hold::begin();
        next.0.lists().take(&next.0.node);
        drop(hold);
        // SAFETY: passed on.
        unsafe { operation::worker_switch(self.inside, self.server, next.0, deadline) }
    }
}
