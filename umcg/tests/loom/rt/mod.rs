//! The sources of the runtime as they are, and beside them what they find in place of the rest of
//! it.

#[path = "../../../src/rt/here.rs"]
pub(crate) mod here;
#[path = "../../../src/rt/last.rs"]
pub(crate) mod last;
#[path = "../../../src/rt/park.rs"]
pub(crate) mod park;
#[path = "../../../src/rt/rank.rs"]
pub(crate) mod rank;
pub(crate) mod server;
#[path = "../../../src/rt/spin.rs"]
pub(crate) mod spin;
pub(crate) mod sync;
pub(crate) mod task;
pub(crate) mod time;
#[path = "../../../src/rt/wait/mod.rs"]
pub(crate) mod wait;

/// Cancellation, without the unwinding.
pub(crate) mod cancel {
    use super::sync::Ordering::Relaxed;
    use super::task::Task;

    pub(crate) fn is_asked(task: &Task) -> bool {
        task.cancel.load(Relaxed) != 0
    }

    pub(crate) fn check(_: &Task) {}

    pub(crate) fn unwind(_: &Task) {}

    pub(crate) fn may_be_cut(_: &Task) -> bool {
        true
    }

    pub(crate) fn checkpoint() {}

    /// Asks the task to end what it waits for in a queue.
    pub(crate) fn ask(task: &'static Task) {
        task.cancel.store(1, Relaxed);
        super::wait::revoke(task);
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

/// A worker that is ready is run at once: the sooner, the worse for who is not done with it.
pub(crate) mod runtime {
    use super::runnable::Runnable;
    use super::scheduler::Why;
    use super::server::Local;

    pub(crate) fn ready_in_step(_local: &Local, worker: Runnable, why: Why) {
        ready(worker, why);
    }

    pub(crate) fn ready(worker: Runnable, _why: Why) {
        worker.into_task().run();
    }
}

pub(crate) mod scheduler {
    pub(crate) enum Why {
        Woken,
    }
}
