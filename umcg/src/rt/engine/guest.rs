//! Adopted threads as workers of a runtime: pthreads of a program that knows nothing of it.
//!
//! At home such a worker counts as blocked, as in a blocking scope. It waits at home by leaving it:
//! its context stays, and the party that wakes it gives it to the scheduler. So it goes on with a
//! server. [`go_home`] brings it back.

use super::runtime::{self, RuntimeState};
use super::server::{self, Running};
use crate::rt::scheduler::Why;
use crate::rt::task::runnable::Runnable;
use crate::rt::task::{IS_FULL, IS_THREAD, IS_WORKER, Task, heap};
use std::sync::atomic::Ordering::*;
use umcg_core::raw::{self, Adopted};

/// Makes the calling pthread a worker of this runtime, at home. None if that is impossible here or
/// now.
///
/// # Safety
/// The caller has no role. Its end is announced by [`end`].
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) unsafe fn adopt(shared: &RuntimeState) -> Option<&'static Task> {
    let task = heap::take()?;
    task.renew(shared.as_of(), IS_WORKER | IS_FULL | IS_THREAD);
    task.used.store(0, Relaxed);
    let id = (task as *const Task).addr() as u64;
    // SAFETY: passed on.
    match unsafe { Adopted::adopt(shared.group, id) } {
        Ok(adopted) => {
            task.carrier.store(adopted.worker().into_ptr(), Relaxed);
            shared.spawned_outside.fetch_add(1, Relaxed);
            shared.blocked.fetch_add(1, Relaxed);
            Some(task)
        }
        Err(_) => {
            heap::give_back(task);
            None
        }
    }
}

/// Makes the calling adopted worker, which is at home, a plain thread again.
///
/// # Safety
/// The caller is that worker, and waits nowhere.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) unsafe fn end(adopted: Adopted) {
    let task = Task::of(adopted.worker());
    let shared = RuntimeState::of(task);
    // SAFETY: passed on.
    unsafe { adopted.end() };
    shared.blocked.fetch_sub(1, Relaxed);
    shared.count_end_outside();
    heap::give_back(task);
}

/// Brings the calling adopted worker home, if a server runs it. It is closed there, until the
/// caller opens. Switches.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn go_home() {
    if let Some(running) = server::running() {
        running.go_home();
    }
}

impl Running {
    fn go_home(self) {
        // SAFETY: the caller has not switched since `running`, and is an adopted worker.
        unsafe { Adopted::go_home(self.into_raw()) };
    }
}

/// The caller, if it is an adopted worker at home that waits by leaving it. One that stays there
/// waits as a thread whose worker blocks.
#[inline(always)]
pub(crate) fn at_home() -> Option<Adopted> {
    if cfg!(feature = "intercept") {
        Adopted::at_home().filter(|adopted| !adopted.stays())
    } else {
        None
    }
}

/// Called in a step at home, before the right to run the worker is given away: it is no longer
/// blocked.
pub(crate) fn note_departure(task: &'static Task) {
    RuntimeState::of(task).blocked.fetch_sub(1, Relaxed);
}

/// A server of the runtime of this worker, which is at home, for its deadlines: its timers, and a
/// function that makes it look at them.
pub(crate) fn runtime_at_home(adopted: Adopted) -> (&'static RuntimeState, &'static Task) {
    let task = Task::of(adopted.worker());
    (RuntimeState::of(task), task)
}

/// The task of an adopted worker.
pub(crate) fn task_of(worker: raw::Worker) -> &'static Task {
    Task::of(worker)
}

/// Leaves a word with the task, for the step of a worker that ends.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn set_word(task: &Task, word: *mut ()) {
    task.result.store(word.cast(), Relaxed);
}

/// The word that [`set_word`] has left.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn word_of(task: &Task) -> *mut () {
    task.result.load(Relaxed).cast()
}

/// The adopted worker has ended, away.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn count_end(task: &'static Task) {
    RuntimeState::of(task).count_end_outside();
}

/// Takes the descriptor of an adopted worker whose home is retired.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn give_back(task: &'static Task) {
    heap::give_back(task);
}

/// Makes a worker at a home that was taken, and gives it to the scheduler.
///
/// # Safety
/// As [`raw::Worker::begin_again`]; the id is the task's.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) unsafe fn begin_again(task: &'static Task, start: &raw::HomeStart) {
    let shared = RuntimeState::of(task);
    task.renew(shared.as_of(), IS_WORKER | IS_FULL | IS_THREAD);
    shared.spawned_outside.fetch_add(1, Relaxed);
    // SAFETY: passed on.
    unsafe { task.worker().begin_again(start) };
    // SAFETY: the caller had the right to run it.
    runtime::ready(unsafe { Runnable::new(task) }, Why::Spawned);
}
