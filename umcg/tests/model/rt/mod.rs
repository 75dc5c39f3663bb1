//! The sources of the runtime as they are, and beside them what they find in place of the rest of
//! it: a `sync` of the checker's, servers that run a worker as soon as it is ready, a scheduler
//! that is one queue.

#[path = "../../../src/rt/here.rs"]
pub(crate) mod here;
#[path = "../../../src/rt/idle.rs"]
pub(crate) mod idle;
#[path = "../../../src/rt/last.rs"]
pub(crate) mod last;
#[path = "../../../src/rt/park.rs"]
pub(crate) mod park;
#[path = "../../../src/rt/per_server.rs"]
pub(crate) mod per_server;
#[path = "../../../src/rt/rank.rs"]
pub(crate) mod rank;
pub(crate) mod runtime;
pub(crate) mod server;
#[path = "../../../src/rt/spin.rs"]
pub(crate) mod spin;
pub(crate) mod sync;
pub(crate) mod task;
pub(crate) mod time;
#[path = "../../../src/rt/wait/mod.rs"]
pub(crate) mod wait;

/// Cancellation: what the unwinding would be is a note, but where a model asks for it.
pub(crate) mod cancel {
    use super::task::{self, Task};
    use shuttle::sync::atomic::Ordering::Relaxed;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    struct Cut;

    /// Calls `f`; none if it was left by unwinding, which it is if its worker is asked to end.
    pub(crate) fn unwinding<R>(f: impl FnOnce() -> R) -> Option<R> {
        let task = task::current();
        task.unwinds.store(true, Relaxed);
        let result = catch_unwind(AssertUnwindSafe(f));
        task.unwinds.store(false, Relaxed);
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
        task.noticed.store(true, Relaxed);
        if task.unwinds.swap(false, Relaxed) {
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
            super::park::wake(task);
        } else {
            super::wait::revoke(task);
        }
    }
}

pub(crate) mod handle {
    use super::task::Task;

    #[derive(Clone, Copy)]
    pub struct Handle(&'static Task);

    impl Handle {
        pub(crate) fn current() -> Handle {
            Handle(super::task::current())
        }

        pub(crate) fn task(self) -> &'static Task {
            self.0
        }

        pub(crate) fn unpark(self) {
            super::park::unpark(self.0);
        }
    }
}

pub(crate) mod runnable {
    use super::task::Task;

    pub struct Runnable(&'static Task);

    impl Runnable {
        /// # Safety
        /// As the library's.
        pub(crate) unsafe fn new(task: &'static Task) -> Runnable {
            Runnable(task)
        }

        pub(crate) fn into_task(self) -> &'static Task {
            self.0
        }
    }
}

pub(crate) mod scheduler {
    pub(crate) enum Why {
        Woken,
    }
}
