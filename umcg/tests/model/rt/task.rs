//! The task that parks: a thread of the checker's that is a worker, or a plain one.

use shuttle::sync::atomic::{AtomicPtr, AtomicU32};
use shuttle::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

mod handle;
pub(crate) mod runnable;

pub use handle::Handle;
use runnable::Runnable;

/// In `state`: it runs, and there is no signal.
pub(crate) const EMPTY: u32 = 0;

pub(crate) struct Task {
    pub(crate) state: AtomicU32,
    pub(crate) cancel: AtomicU32,
    pub(crate) noticed: AtomicBool,
    /// It unwinds, and does not check whether it was asked to end.
    pub(crate) unwinds: AtomicBool,
    pub(crate) waiter: AtomicPtr<()>,
    pub(crate) departed: AtomicU32,
    pub(crate) asleep: AtomicU32,
    pub(crate) interrupted: shuttle::sync::atomic::AtomicBool,
    pub(crate) patience: AtomicU32,
    is_worker: bool,
    /// Its context is saved; a thread runs it.
    saved: AtomicBool,
    runs: Mutex<bool>,
    changed: Condvar,
}

shuttle::thread_local! {
    static CURRENT: Cell<Option<&'static Task>> = const { Cell::new(None) };
}

/// Makes a task; `enter` says that the calling thread is it.
pub(crate) fn make(is_worker: bool) -> &'static Task {
    Box::leak(Box::new(Task {
        state: AtomicU32::new(EMPTY),
        cancel: AtomicU32::new(0),
        noticed: AtomicBool::new(false),
        unwinds: AtomicBool::new(false),
        waiter: AtomicPtr::new(std::ptr::null_mut()),
        departed: AtomicU32::new(0),
        asleep: AtomicU32::new(0),
        interrupted: shuttle::sync::atomic::AtomicBool::new(false),
        patience: AtomicU32::new(2),
        is_worker,
        saved: AtomicBool::new(false),
        runs: Mutex::new(true),
        changed: Condvar::new(),
    }))
}

pub(crate) fn enter(task: &'static Task) {
    CURRENT.with(|current| current.set(Some(task)));
}

pub(crate) fn current() -> &'static Task {
    CURRENT.with(Cell::get).expect("a thread without a task")
}

pub(crate) fn current_worker() -> Option<&'static Task> {
    CURRENT.with(Cell::get).filter(|task| task.is_worker)
}

impl Task {
    /// A worker that stops while it unwinds makes the checker's thread one that panics, and all of
    /// its locks look poisoned.
    fn runs(&self) -> MutexGuard<'_, bool> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread here is a worker's, in a blocking scope: its wait may be revoked.
    pub(crate) fn may_be_revoked(&self) -> bool {
        true
    }

    pub(crate) fn set_reason(&self, _reason: &'static &'static str) {}

    /// The caller's flow stops; `step` is done with the right to run it, as by a server; it goes on
    /// when that right is used.
    pub(crate) fn suspend(&'static self, step: impl FnOnce(Runnable)) {
        *self.runs() = false;
        assert!(!self.saved.swap(true, Relaxed));
        // SAFETY: it has just been taken off: that is the right to run it.
        step(unsafe { Runnable::new(self) });
        let mut runs = self.runs();
        while !*runs {
            runs = self
                .changed
                .wait(runs)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The right to run it is used, once.
    pub(crate) fn run(&self) {
        assert!(
            self.saved.swap(false, Relaxed),
            "run before its context was saved, or twice"
        );
        let mut runs = self.runs();
        assert!(!std::mem::replace(&mut *runs, true), "run twice");
        self.changed.notify_one();
    }
}
