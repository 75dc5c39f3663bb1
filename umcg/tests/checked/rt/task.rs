//! The waiter: a thread of the checker's that is a worker, or a plain one.

use crate::checker::thread::{self, Thread};
use crate::checker::{AtomicPtr, PATIENCE, Plain, leak, thread_local};
use crate::rt::sync::{AtomicBool, AtomicU32};
use std::cell::{Cell, OnceCell};

mod handle;
pub(crate) mod runnable;

pub use handle::Handle;
use runnable::Runnable;

/// In `state`: it runs, and there is no signal.
pub(crate) const EMPTY: u32 = 0;

pub(crate) struct Task {
    pub(crate) state: AtomicU32,
    pub(crate) cancel: AtomicU32,
    pub(crate) waiter: AtomicPtr<()>,
    pub(crate) departed: AtomicU32,
    pub(crate) asleep: AtomicU32,
    pub(crate) interrupted: AtomicBool,
    pub(crate) is_cut: AtomicBool,
    pub(crate) patience: AtomicU32,
    /// What a scheduler notes. No protocol relies on it.
    pub(crate) virtual_time: std::sync::atomic::AtomicU64,
    pub(crate) was_preempted: std::sync::atomic::AtomicBool,
    pub(crate) second_looks: std::sync::atomic::AtomicU32,
    /// Its own: that it was asked to end, and has seen it.
    pub(crate) noticed: Plain<bool>,
    /// Its own: it unwinds then, rather than to note it.
    pub(crate) unwinds: Plain<bool>,
    is_worker: bool,
    /// The one server that may run it.
    pub(crate) server: Cell<Option<usize>>,
    /// Its own: a worker that no server runs, as it is at home.
    is_at_home: Plain<bool>,
    /// How often its context was saved. A server that runs it reads that, which is a race with the
    /// saving if nothing orders the two: it is for the protocols to do that.
    context: Cell<u32>,
    runs: Plain<bool>,
    thread: OnceCell<Thread>,
}

// SAFETY: a checker runs one thread at a time, and switches only at what is its own.
unsafe impl Sync for Task {}

thread_local! {
    static CURRENT: Plain<Option<&'static Task>> = Plain::new(None);
}

/// Makes a task; `enter` says that the calling thread is it.
pub(crate) fn make(is_worker: bool) -> &'static Task {
    leak(Task {
        state: AtomicU32::new(EMPTY),
        cancel: AtomicU32::new(0),
        waiter: AtomicPtr::default(),
        departed: AtomicU32::new(0),
        asleep: AtomicU32::new(0),
        interrupted: AtomicBool::new(false),
        is_cut: AtomicBool::new(false),
        patience: AtomicU32::new(PATIENCE),
        virtual_time: std::sync::atomic::AtomicU64::new(0),
        was_preempted: std::sync::atomic::AtomicBool::new(false),
        second_looks: std::sync::atomic::AtomicU32::new(0),
        noticed: Plain::new(false),
        unwinds: Plain::new(false),
        is_worker,
        server: Cell::new(None),
        is_at_home: Plain::new(false),
        context: Cell::new(0),
        runs: Plain::new(true),
        thread: OnceCell::new(),
    })
}

pub(crate) fn enter(task: &'static Task) {
    assert!(task.thread.set(thread::current()).is_ok());
    CURRENT.with(|current| current.set(Some(task)));
}

pub(crate) fn current() -> &'static Task {
    CURRENT.with(Plain::get).expect("a thread without a task")
}

pub(crate) fn current_worker() -> Option<&'static Task> {
    CURRENT
        .with(Plain::get)
        .filter(|task| task.is_worker && !task.is_at_home.get())
}

pub(crate) fn current_at_home() -> Option<&'static Task> {
    CURRENT
        .with(Plain::get)
        .filter(|task| task.is_at_home.get())
}

/// The calling party, a worker, is at home until it waits.
pub(crate) fn be_at_home() {
    current().is_at_home.set(true);
}

impl Task {
    /// A thread here is a worker's, in a blocking scope: its wait may be revoked.
    pub(crate) fn may_be_revoked(&self) -> bool {
        true
    }

    pub(crate) fn set_reason(&self, _reason: &'static &'static str) {}

    /// The caller's flow stops; `step` is done with the right to run it, as by a server; it goes on
    /// when that right is used.
    pub(crate) fn suspend(&'static self, step: impl FnOnce(Runnable)) {
        self.context.set(self.context.get() + 1);
        self.runs.set(false);
        // SAFETY: it has just been taken off: that is the right to run it.
        step(unsafe { Runnable::new(self) });
        while !self.runs.get() {
            thread::park();
        }
    }

    /// The same for one that leaves home, unless `step` says that it stays.
    pub(crate) fn leave_home(&'static self, step: impl FnOnce() -> bool) {
        self.context.set(self.context.get() + 1);
        self.runs.set(false);
        self.is_at_home.set(false);
        if !step() {
            self.is_at_home.set(true);
            self.runs.set(true);
        }
        while !self.runs.get() {
            thread::park();
        }
    }

    /// The right to run it is used, once. The worker sees the caller's changes, as it continues in
    /// the caller's place; the caller does not see the worker's.
    pub(crate) fn run(&self) {
        self.context.get();
        assert!(
            !self.runs.replace(true),
            "run before its context was saved, or twice"
        );
        self.thread.get().expect("a thread of its own").unpark();
    }
}
