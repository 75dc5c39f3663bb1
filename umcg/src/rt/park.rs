//! Park and unpark: the one protocol by which a known party stops and is made to go on, under everything that waits.
//!
//! # States of the word
//!
//! ```text
//!             unpark                     unpark
//!   NOTIFIED <------- EMPTY <---------------------- PARKED      a worker: who makes this step has the right to run it
//!      |   park        ^ ^ \ \___ park (worker) ______^
//!      `---------------' |  \
//!                        |   \____ park (thread) ___> SLEEPING  a kernel thread: who makes this step wakes it by futex
//!                        `------------ unpark ----------'
//! ```
//!
//! - P1: a worker's word is PARKED only after its context was saved: the server that it left makes that step (`commit`), on its own stack.
//! - P2: the right to run a worker goes with the word: who changes PARKED to EMPTY has it, and nobody else; who fails to make it PARKED keeps it.
//! - P3: an unpark that comes before the park is remembered (NOTIFIED), once. What happened before it is seen by who returns from park.
//!
//! One locked operation to park, one to unpark; none to park where a notification is there already but the one that takes it. Returns without
//! a reason are allowed, so callers look again; stale handles cause them.
//!
//! The whole of it, with a proof sketch: docs/protocols/park.md. Not chosen: std's order (swap to NOTIFIED, and swap back on waking) takes two
//! locked operations a hop more.

use super::cancel;
use super::handle::Handle;
use super::runnable::Runnable;
use super::scheduler::Why;
use super::server::{self, Local};
use super::task::Task;
use super::time;
use rustix::thread::Timespec;
use rustix::thread::futex::{self, Flags};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

pub(crate) const EMPTY: u32 = 0;
pub(crate) const PARKED: u32 = 1;
pub(crate) const NOTIFIED: u32 = 2;
pub(crate) const SLEEPING: u32 = 3;

/// Stops the caller until somebody unparks it; at once if somebody has since it was last stopped. May return without a reason. A worker
/// switches; a plain thread, or a worker in [`blocking`](crate::blocking), sleeps in the kernel. A point of cancellation.
pub fn park() {
    park_for(&"park");
}

/// Like [`park`], until `deadline` at most. False when that has passed.
pub fn park_deadline(deadline: Instant) -> bool {
    park_until(&"park", time::nanos(deadline))
}

/// Like [`park`], for `timeout` at most. False when that has passed.
pub fn park_timeout(timeout: Duration) -> bool {
    park_until(&"park", time::after(timeout))
}

/// Unparks `next` and parks: with a scheduler that follows the hint `next` is who runs next on this server. As [`park`].
pub fn hand_over(next: Handle) {
    next.unpark();
    park_for(&"hand_over");
}

/// [`park`] with a reason, which a dump shows.
#[inline]
pub(crate) fn park_for(reason: &'static &'static str) {
    match server::running() {
        Some(running) => {
            let task = running.task();
            if cancel::is_asked(task) {
                drop(running);
                cancel::unwind(task);
                // Not now: the caller is unwinding already, or shields itself.
                return park_shielded(reason);
            }
            park_worker(running, reason);
            cancel::check(task);
        }
        None => {
            let task = Handle::current().task();
            cancel::check(task);
            park_thread(task, reason, u64::MAX);
            cancel::check(task);
        }
    }
}

/// [`park_deadline`] with a reason.
pub(crate) fn park_until(reason: &'static &'static str, deadline: u64) -> bool {
    let task = Handle::current().task();
    cancel::check(task);
    let in_time = park_shielded_until(reason, deadline);
    cancel::check(task);
    in_time
}

/// [`park_shielded`] until `deadline`. False when that has passed.
pub(crate) fn park_shielded_until(reason: &'static &'static str, deadline: u64) -> bool {
    time::with_deadline(deadline, |deadline| match server::running() {
        Some(running) => {
            park_worker(running, reason);
            true
        }
        None => park_thread(Handle::current().task(), reason, deadline),
    })
}

/// Parks, whatever has been asked of the caller.
pub(crate) fn park_shielded(reason: &'static &'static str) {
    match server::running() {
        Some(running) => park_worker(running, reason),
        None => {
            park_thread(Handle::current().task(), reason, u64::MAX);
        }
    }
}

#[inline(always)]
fn park_worker(running: server::Running, reason: &'static &'static str) {
    let task = running.task();
    // A look first: where the notification is there, the swap saves a switch.
    if task.state.load(Relaxed) == NOTIFIED {
        // ORDERING(park.3): Acquire, pairs with park.1: what came before the unpark is seen.
        task.state.swap(EMPTY, Acquire);
        return;
    }
    task.set_reason(reason);
    running.suspend(commit);
}

/// On the server's stack: the worker is wholly suspended, and may be unparked from here on.
fn commit(local: &Local, worker: Runnable) {
    let task = worker.into_task();
    // ORDERING(park.2): Release, pairs with park.4: who takes the right sees the saved context.
    if task.state.compare_exchange(EMPTY, PARKED, Release, Relaxed).is_err() {
        // ORDERING(park.3): as there.
        task.state.swap(EMPTY, Acquire);
        // SAFETY: the step failed, so the right to run the worker is still ours.
        local.make_ready(unsafe { Runnable::new(task) }, Why::Woken);
    }
}

/// Makes `task` go on.
#[inline]
pub(crate) fn unpark(task: &'static Task) {
    if let Some(worker) = release(task) {
        super::runtime::ready(worker, Why::Woken);
    }
}

/// The same in a step, which does not ask who the caller is.
pub(crate) fn unpark_in_step(local: &Local, task: &'static Task) {
    if let Some(worker) = release(task) {
        super::runtime::ready_in_step(local, worker, Why::Woken);
    }
}

/// Notes that `task` is to go on, and wakes it if it is a thread; a parked worker is the caller's to make ready.
#[inline]
fn release(task: &'static Task) -> Option<Runnable> {
    let mut state = task.state.load(Relaxed);
    loop {
        let next = if state == EMPTY { NOTIFIED } else { state };
        let next = if state == PARKED || state == SLEEPING { EMPTY } else { next };
        // ORDERING(park.1): Release, pairs with park.3, also where the word stays NOTIFIED.
        // ORDERING(park.4): Acquire, pairs with park.2.
        match task.state.compare_exchange(state, next, AcqRel, Relaxed) {
            // SAFETY: that step gave us the right to run the worker.
            Ok(PARKED) => return Some(unsafe { Runnable::new(task) }),
            Ok(SLEEPING) => {
                let _ = futex::wake(&task.state, Flags::PRIVATE, 1);
                return None;
            }
            Ok(_) => return None,
            Err(now) => state = now,
        }
    }
}

/// Whether it was unparked since it last parked.
pub(crate) fn is_notified(task: &Task) -> bool {
    task.state.load(Relaxed) == NOTIFIED
}

/// A kernel thread sleeps until it is unparked, or until the deadline. False when that has passed.
fn park_thread(task: &'static Task, reason: &'static &'static str, deadline: u64) -> bool {
    task.set_reason(reason);
    // ORDERING(park.3): as there; the sleeper's own step publishes nothing.
    if task.state.compare_exchange(EMPTY, SLEEPING, Relaxed, Relaxed).is_err() {
        task.state.swap(EMPTY, Acquire);
        return true;
    }
    loop {
        let until = time::timespec(deadline);
        let slept =
            futex::wait_bitset(&task.state, Flags::PRIVATE, SLEEPING, until.as_ref() as Option<&Timespec>, NonZeroU32::MAX);
        // ORDERING(park.3): as there.
        if task.state.load(Acquire) != SLEEPING {
            // EMPTY, or NOTIFIED by another unpark since.
            return true;
        }
        if slept == Err(rustix::io::Errno::TIMEDOUT) {
            // ORDERING(park.3): as there.
            return task.state.swap(EMPTY, Acquire) != SLEEPING;
        }
    }
}
