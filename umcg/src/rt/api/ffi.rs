//! The runtime for bindings to languages without unwinding: the C interface is built on it, and
//! nothing else should be.
//!
//! Cancellation ends a Rust worker by unwinding, which must not pass frames of C. So a *foreign*
//! worker first of all shields itself for good ([`begin`]). Its waits return an error instead when
//! it was asked to end. There are two kinds of waits:
//!
//! - [`park`], [`sleep_until`], [`yield_now`]: the wait is done under the shield. An abort
//!   interrupts it like any other, and the wait itself checks for the request.
//! - [`interruptible`]: for deeper waits (I/O, `join`) the shield is lifted, and the unwinding is
//!   caught before it reaches the caller.
//!
//! Both work in Rust workers that call foreign code, and on plain threads, which are never
//! cancelled.
//!
//! A foreign worker that is asked to end before it has begun begins all the same, because it must
//! free its argument. So [`abort`] checks whether it has begun. There are two bits in one word of
//! its descriptor; setting the second of them shows the first.

use super::global;
use super::join::{self, JoinHandle};
use super::owner::Runtime;
use crate::rt::base::clock;
use crate::rt::engine::server;
use crate::rt::run::dump as dumps;
use crate::rt::task::{Handle, Task};
pub use crate::rt::wait::cancel::shielded;
use crate::rt::wait::cancel::{self, SHIELD, Shield, Unwinding};
use crate::rt::wait::{interrupt, park as parking, yielding};
use std::io;
use std::mem::{self, ManuallyDrop};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering::*;

/// In a task's flags, whose high bits are reserved for this module: it has begun, as a foreign
/// worker.
const BEGUN: u32 = 1 << 30;
/// Likewise: it was asked to end.
const ASKED: u32 = 1 << 31;

/// Error: the caller was asked to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// Call this first in a foreign worker.
pub fn begin() {
    let Some(task) = server::current_task() else {
        return;
    };
    mem::forget(Shield::new(task));
    if task.flags.fetch_or(BEGUN, Relaxed) & ASKED != 0 {
        interrupt::ask(task, 1);
    }
}

/// Asks a foreign worker to end.
pub fn abort<R>(worker: &JoinHandle<R>) {
    if worker.task().flags.fetch_or(ASKED, Relaxed) & BEGUN != 0 {
        interrupt::ask(worker.task(), 1);
    }
}

fn is_foreign(task: &Task) -> bool {
    task.flags.load(Relaxed) & BEGUN != 0
}

/// Whether the caller was asked to end.
pub fn is_cancelled() -> bool {
    server::current_task().is_some_and(cancel::is_asked)
}

/// Whether the request is to be obeyed now: outside sections that shield themselves.
fn is_due(task: &Task) -> bool {
    let own = if is_foreign(task) { SHIELD } else { 0 };
    cancel::is_asked(task) && task.depth.load(Relaxed) - own < SHIELD
}

/// Only a point of cancellation.
///
/// # Errors
/// [`Cancelled`].
pub fn check() -> Result<(), Cancelled> {
    if server::current_task().is_some_and(is_due) {
        Err(Cancelled)
    } else {
        Ok(())
    }
}

/// Begins a section in which waits are not cut short.
pub fn begin_shield() {
    mem::forget(Shield::new(Handle::current().task()));
}

/// Ends the section. False if there is none. Always false for a plain thread, which needs no
/// section.
pub fn end_shield() -> bool {
    let task = Handle::current().task();
    let own = if is_foreign(task) { SHIELD } else { 0 };
    let depth = task.depth.load(Relaxed);
    let is_open = depth >= SHIELD + own;
    if is_open {
        task.depth.store(depth - SHIELD, Relaxed);
    }
    is_open || server::current_task().is_none()
}

/// Calls `f`. When the caller is asked to end, the waits of `f` are cut short by unwinding up to
/// here.
///
/// # Errors
/// [`Cancelled`]: before `f` was called, or `f` was unwound.
pub fn interruptible<R>(f: impl FnOnce() -> R) -> Result<R, Cancelled> {
    /// Shields the caller again.
    struct Lifted(&'static Task);
    impl Drop for Lifted {
        fn drop(&mut self) {
            mem::forget(Shield::new(self.0));
        }
    }
    let Some(task) = server::current_task() else {
        return Ok(f());
    };
    if is_due(task) {
        return Err(Cancelled);
    }
    let lifted = is_foreign(task).then(|| {
        task.depth.store(task.depth.load(Relaxed) - SHIELD, Relaxed);
        Lifted(task)
    });
    let result = catch_unwind(AssertUnwindSafe(f));
    drop(lifted);
    result.map_err(|payload| {
        if payload.is::<Unwinding>() {
            Cancelled
        } else {
            resume_unwind(payload)
        }
    })
}

/// Lets other workers run.
///
/// # Errors
/// [`Cancelled`], afterwards.
pub fn yield_now() -> Result<(), Cancelled> {
    shielded(yielding::yield_now);
    check()
}

/// Parks until `deadline`. False if the deadline has passed.
///
/// # Errors
/// [`Cancelled`], before or afterwards.
pub fn park(deadline: u64) -> Result<bool, Cancelled> {
    check()?;
    let in_time = shielded(|| match deadline {
        u64::MAX => {
            parking::park();
            true
        }
        deadline => parking::park_nanos(deadline),
    });
    check().map(|()| in_time)
}

/// Unparks `next`, and parks.
///
/// # Errors
/// [`Cancelled`], afterwards; or before, and then only `next` was unparked.
pub fn hand_over(next: Handle) -> Result<(), Cancelled> {
    if check().is_err() {
        next.unpark();
        return Err(Cancelled);
    }
    shielded(|| parking::hand_over(next));
    check()
}

/// Waits until `deadline`.
///
/// # Errors
/// [`Cancelled`]: the wait ends early.
pub fn sleep_until(deadline: u64) -> Result<(), Cancelled> {
    check()?;
    while clock::now() < deadline {
        shielded(|| parking::park_until(&"sleep", deadline));
        check()?;
    }
    Ok(())
}

/// The moment that many nanoseconds from now.
pub fn after(nanoseconds: u64) -> u64 {
    clock::now().saturating_add(nanoseconds)
}

/// Nanoseconds of CLOCK_MONOTONIC as an instant.
pub fn instant(nanoseconds: u64) -> std::time::Instant {
    clock::instant(nanoseconds)
}

/// The right to a worker's end as a word.
pub fn into_raw<R>(worker: JoinHandle<R>) -> *const () {
    (ManuallyDrop::new(worker).task() as *const Task).cast()
}

/// The right to a worker's end, from its word.
///
/// # Safety
/// The word came from [`into_raw`] of a handle of the same type. It is used for one handle only.
pub unsafe fn from_raw<R>(word: *const ()) -> JoinHandle<R> {
    // SAFETY: by the contract; descriptors are never freed.
    let task = unsafe { &*word.cast::<Task>() };
    // SAFETY: as above.
    unsafe { JoinHandle::new(task) }
}

/// Waits for a worker's end until `deadline`. False if the deadline passed first.
///
/// # Errors
/// [`Cancelled`]: the caller was.
pub fn wait_for<R>(worker: &JoinHandle<R>, deadline: u64) -> Result<bool, Cancelled> {
    interruptible(|| join::wait_until(worker.task(), deadline))
}

/// Starts the global runtime, if the caller has no runtime.
///
/// # Errors
/// No memory or no threads.
pub fn start_global() -> io::Result<()> {
    if server::running().is_some() {
        Ok(())
    } else {
        Ok(global::shared_of_caller().map(drop)?)
    }
}

/// Whether the caller is a worker of a runtime.
pub fn is_worker() -> bool {
    server::current_task().is_some()
}

/// Whether the caller is a worker of this runtime.
pub fn is_worker_of(runtime: &Runtime) -> bool {
    server::is_worker_of(runtime.shared())
}

/// Whether the runtime was made before a fork whose child this process is.
pub fn is_left_behind(runtime: &Runtime) -> bool {
    runtime.shared().is_left_behind()
}

/// A dump of the caller's runtime if the caller is a worker, else of the global one.
///
/// # Errors
/// As [`start_global`].
pub fn dump() -> io::Result<String> {
    Ok(dumps::dump(global::shared_of_caller()?))
}
