//! The party that calls: the worker or thread that is about to wait, or that serves waiters.
//!
//! What it does to a queue it does with preemption off (W2), and without unwinding (W6). The
//! waiters that it serves meanwhile are resumed after that.

use super::places::{Claimed, ClaimedList};
use super::{Waiter, departed, departed_from_home, thread};
use crate::rt::base::sync::{Firm, Hold};
use crate::rt::engine::{guest, server};
use crate::rt::task::{Handle, Task};

/// The worker or thread that is about to wait, or to serve.
pub(super) struct Caller(pub(super) Option<server::Running>);

impl Caller {
    #[inline(always)]
    pub(super) fn new() -> Caller {
        Caller(server::running())
    }

    /// Whether it waits as a worker: a server runs it, or it is an adopted worker at home.
    #[inline(always)]
    pub(super) fn is_worker(&self) -> bool {
        self.0.is_some() || guest::at_home().is_some()
    }

    #[inline(always)]
    pub(super) fn task(&self) -> &'static Task {
        match &self.0 {
            Some(running) => running.task(),
            None => Handle::current().task(),
        }
    }

    /// Calls `f` with preemption off, and resumes the waiters that it has served. (A worker that is
    /// `Running` is not preempted anyway.) They are resumed after that, because resuming looks up
    /// the caller. `f` does not unwind, and runs none of the program's code (U2 of
    /// [`last`](crate::rt::base::last)).
    #[inline(always)]
    pub(super) fn enter<R>(&self, f: impl FnOnce(&mut ClaimedList) -> R) -> R {
        let mut served = ClaimedList::new();
        let hold = self.0.is_none().then(Hold::begin);
        let firm = Firm;
        let result = f(&mut served);
        firm.end();
        drop(hold);
        served.resume(self.0.as_ref().map(server::Running::local));
        result
    }

    /// For a thread: publishes whether it will spin or sleep, if it has to wait. Returns the spin
    /// count.
    #[inline(always)]
    pub(super) fn announce(&self, task: &Task, hands_over: impl FnOnce() -> bool) -> u32 {
        if self.is_worker() {
            0
        } else {
            thread::announce(task, hands_over())
        }
    }

    #[inline(always)]
    pub(super) fn stop(self, waiter: &Waiter, reason: &'static &'static str, looks: u32) {
        waiter.task.get().set_reason(reason);
        match self.0 {
            Some(running) => {
                running.suspend(departed);
                waiter.go_on();
            }
            None => match guest::at_home() {
                Some(home) => {
                    // SAFETY: the caller is that worker, and the step is one for leaving home.
                    unsafe { home.leave(departed_from_home) };
                    waiter.go_on();
                }
                None => {
                    waiter.sleep(looks);
                    waiter.go_on_outside();
                }
            },
        }
    }
}

/// Calls `f` with preemption off, and resumes the waiters that it has served.
#[inline(always)]
pub(crate) fn undisturbed<R>(f: impl FnOnce(&mut ClaimedList) -> R) -> R {
    Caller::new().enter(f)
}

/// Calls `f` with preemption off, and resumes the waiter that it has claimed. Returns whether there
/// was one.
#[inline(always)]
pub(crate) fn hand_over(f: impl FnOnce() -> Option<Claimed>) -> bool {
    let caller = Caller::new();
    let hold = caller.0.is_none().then(Hold::begin);
    let firm = Firm;
    let claimed = f();
    firm.end();
    drop(hold);
    let Some(claimed) = claimed else { return false };
    claimed.resume(caller.0.as_ref().map(server::Running::local));
    true
}
