//! Cancellation: a note stands in for the unwinding, except where a model asks for it.

use crate::rt::task::{self, Task};
use crate::rt::wait::{self, park};
use shuttle::sync::atomic::Ordering::Relaxed;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

struct Cut;

/// Calls `f`; none if it was left by unwinding, which it is if its worker is asked to end.
pub(crate) fn unwinding<R>(f: impl FnOnce() -> R) -> Option<R> {
    let task = task::current();
    task.unwinds.set(true);
    let result = catch_unwind(AssertUnwindSafe(f));
    task.unwinds.set(false);
    result
        .map_err(|payload| {
            if !payload.is::<Cut>() {
                resume_unwind(payload)
            }
        })
        .ok()
}

pub(crate) fn is_asked(task: &Task) -> bool {
    task.cancel.load(Relaxed) != 0
}

pub(crate) fn check(task: &Task) {
    if is_asked(task) {
        unwind(task);
    }
}

pub(crate) fn unwind(task: &Task) {
    task.noticed.set(true);
    if task.unwinds.replace(false) {
        resume_unwind(Box::new(Cut));
    }
}

pub(crate) fn may_be_cut(_: &Task) -> bool {
    true
}

pub(crate) fn checkpoint() {
    check(task::current());
}

pub(crate) fn ask(task: &'static Task) {
    task.cancel.store(1, Relaxed);
    if task.waiter.load(Relaxed).is_null() {
        park::wake(task);
    } else {
        wait::revoke(task);
    }
}
