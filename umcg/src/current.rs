//! Operations of a worker of either kind on itself.

use crate::server::nanoseconds;
use crate::{NotAWorker, Ready, TimedOut, WorkerId};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};
use umcg_core::raw::{RunningWorker, Worker};

/// The calling worker, if a server runs it.
#[inline]
fn running() -> Result<RunningWorker, NotAWorker> {
    RunningWorker::here().ok_or(NotAWorker)
}

/// The id of the calling worker, also in a blocking scope. None if the caller is not a worker.
pub fn current_id() -> Option<WorkerId> {
    Worker::current().map(|worker| WorkerId::from_raw(worker.id()))
}

/// The name of the calling worker, also in a blocking scope. None if it has no name, or the caller
/// is not a worker.
///
/// ```
/// let named = umcg::Builder::new().name("teller").spawn(umcg::current_name).unwrap();
/// assert_eq!(named.join().unwrap().as_deref(), Some("teller"));
/// assert_eq!(umcg::current_name(), None);
/// ```
pub fn current_name() -> Option<String> {
    Worker::current()
        .map(Worker::name)
        .filter(|name| !name.is_empty())
}

/// Gives the processor back: the server gets [`Event::Wait`](crate::Event::Wait). Returns when a
/// server switches to the worker again.
///
/// # Errors
/// [`NotAWorker`].
// Inlined: the processor would predict a return behind a switch as one of the other flow.
#[inline(always)]
pub fn wait() -> Result<(), NotAWorker> {
    let worker = running()?;
    // SAFETY: the caller is that worker, running.
    unsafe { worker.wait(None) };
    Ok(())
}

/// Like [`wait`]. If `deadline` passes first, some server gets
/// [`Event::Timeout`](crate::Event::Timeout). The call still returns only once a server has
/// switched to the worker.
///
/// # Errors
/// [`TimedOut::Passed`] if the deadline had passed by then.
pub fn wait_deadline(deadline: Instant) -> Result<(), TimedOut> {
    let worker = running().map_err(|NotAWorker| TimedOut::NotAWorker)?;
    // SAFETY: the caller is that worker, running.
    let in_time = unsafe { worker.wait(Some(nanoseconds(deadline))) };
    if in_time {
        Ok(())
    } else {
        Err(TimedOut::Passed)
    }
}

/// Like [`wait_deadline`], with the deadline `timeout` from now.
///
/// # Errors
/// As [`wait_deadline`].
pub fn wait_timeout(timeout: Duration) -> Result<(), TimedOut> {
    match Instant::now().checked_add(timeout) {
        Some(deadline) => wait_deadline(deadline),
        None => wait().map_err(|NotAWorker| TimedOut::NotAWorker),
    }
}

/// Lets another worker run at once in the caller's place. The caller becomes idle, and some server
/// gets [`Event::Wait`](crate::Event::Wait) for it.
///
/// # Errors
/// If the caller is not a worker, `next` is returned.
#[inline(always)]
pub fn switch_to(next: Ready) -> Result<(), Ready> {
    let Ok(worker) = running() else {
        return Err(next);
    };
    // SAFETY: the caller is that worker, running, and the value was the right to run the other.
    unsafe { worker.switch_to(next.into_raw(), None) };
    Ok(())
}

/// Like [`switch_to`], with a deadline as in [`wait_deadline`].
///
/// # Errors
/// As [`wait_deadline`]. If the caller is not a worker, `next` is dropped, so that a server gets it
/// as [`Event::Wake`](crate::Event::Wake).
pub fn switch_to_deadline(next: Ready, deadline: Instant) -> Result<(), TimedOut> {
    let worker = running().map_err(|NotAWorker| TimedOut::NotAWorker)?;
    // SAFETY: as in `switch_to`.
    let in_time = unsafe { worker.switch_to(next.into_raw(), Some(nanoseconds(deadline))) };
    if in_time {
        Ok(())
    } else {
        Err(TimedOut::Passed)
    }
}

/// Calls `f`, which may block in the kernel. The calling worker's server gets
/// [`Event::Block`](crate::Event::Block) and runs on. `f` runs on the worker's home thread, or on a
/// helper thread for a light worker. Then some server gets [`Event::Wake`](crate::Event::Wake), and
/// the call returns when a server switches to the worker. If the caller is not a worker, this just
/// calls `f`.
///
/// If the system gives no thread for a helper, `f` runs where it is called, and keeps the server. A
/// runtime reports that as a lack of helpers
/// ([`StallCause::NoHelper`](crate::rt::StallCause::NoHelper)).
pub fn blocking<R>(f: impl FnOnce() -> R) -> R {
    let Some(worker) = Worker::current() else {
        return f();
    };
    // SAFETY: the caller is that worker.
    unsafe { worker.begin_blocking() };
    // A kernel thread counts its panics: one that began on the helper must end there, not on the
    // server.
    let result = catch_unwind(AssertUnwindSafe(f));
    // Looked up again: `f` may have unregistered the worker.
    if let Some(worker) = Worker::current() {
        // SAFETY: the caller is that worker. A new worker, which is in no scope, is left as it is.
        unsafe { worker.end_blocking() };
    }
    result.unwrap_or_else(|payload| resume_unwind(payload))
}

/// Calls `f`. The calling worker is not preempted meanwhile. If a preemption was due, the worker
/// gives way right afterwards. If the caller is not a worker, this just calls `f`.
#[inline]
pub fn critical<R>(f: impl FnOnce() -> R) -> R {
    let Some(worker) = Worker::current() else {
        return f();
    };
    // SAFETY: the caller is that worker.
    unsafe { worker.begin_critical() };
    // As in `blocking`: giving way at the end may bring a light worker to another kernel thread, so
    // no panic may unwind through that.
    let result = catch_unwind(AssertUnwindSafe(f));
    if let Some(worker) = Worker::current() {
        // SAFETY: the caller is that worker. A new worker, which is in no section, is left as it
        // is.
        unsafe { worker.end_critical() };
    }
    result.unwrap_or_else(|payload| resume_unwind(payload))
}
