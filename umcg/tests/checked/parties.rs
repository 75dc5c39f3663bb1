//! The parties of a scenario, and what they have in common.

use crate::checker::thread::{self, JoinHandle};
use crate::checker::{kernel, leak, pass};
use crate::rt::cancel;
use crate::rt::sync::{Ordering::SeqCst, spin};
use crate::rt::task::{self, Task};
use std::cell::Cell;

/// The deadline of those that have one.
pub(crate) const SOON: u64 = 10;
pub(crate) const NEVER: u64 = u64::MAX;

/// What is given with a wakeup, and seen by the party that takes it.
pub(crate) struct Data(Cell<u32>);

// SAFETY: the cell fails where it is not so, or threads switch only where a scenario pauses.
unsafe impl Sync for Data {}

impl Data {
    pub(crate) fn new() -> &'static Data {
        leak(Data(Cell::new(0)))
    }

    pub(crate) fn write(&self) {
        self.0.set(self.0.get() + 1);
    }

    pub(crate) fn read(&self) -> u32 {
        self.0.get()
    }
}

/// Another party, which is a worker or a plain thread.
pub(crate) fn party<R: Send + 'static>(
    is_worker: bool,
    f: impl FnOnce() -> R + Send + 'static,
) -> (&'static Task, JoinHandle<R>) {
    let task = task::make(is_worker);
    let body = move || {
        task::enter(task);
        f()
    };
    (task, thread::spawn(body))
}

/// A party that is a worker.
pub(crate) fn worker<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    party(true, f).1
}

/// So many that do the same.
pub(crate) fn parties<R: Send + 'static>(
    count: u32,
    is_worker: bool,
    f: impl FnOnce() -> R + Copy + Send + 'static,
) -> Vec<JoinHandle<R>> {
    (0..count).map(|_| party(is_worker, f).1).collect()
}

/// The first thread is a party, too.
pub(crate) fn be(is_worker: bool) {
    task::enter(task::make(is_worker));
}

pub(crate) fn join_all<R>(parties: impl IntoIterator<Item = JoinHandle<R>>) -> Vec<R> {
    parties
        .into_iter()
        .map(|party| party.join().unwrap())
        .collect()
}

/// Until it has departed from its server to wait.
pub(crate) fn until_it_waits(task: &Task) {
    while task.departed.load(SeqCst) == 0 {
        spin();
    }
}

/// The deadline of a wait that [`end`] ends.
pub(crate) fn deadline_if(by_deadline: bool) -> u64 {
    if by_deadline { SOON } else { NEVER }
}

/// A reason for the task to end its wait comes up.
pub(crate) fn end(task: &'static Task, by_deadline: bool) {
    if by_deadline {
        pass(task, SOON);
    } else {
        cancel::ask(task);
    }
}

/// A party that does that.
pub(crate) fn ender(task: &'static Task, by_deadline: bool) -> JoinHandle<()> {
    worker(move || end(task, by_deadline))
}

/// A thread that lets the deadlines pass.
pub(crate) fn clock() -> JoinHandle<()> {
    thread::spawn(|| kernel::advance(SOON))
}
