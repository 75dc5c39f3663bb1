//! Park and unpark: the one protocol by which a known party stops and is made to go on. Everything
//! that waits is built on it.
//!
//! # The word
//!
//! ```text
//!      7      5 4      2 1   0
//!     |  ENDS  | SIGNALS | HOW |
//!
//!                      a signal that ends the park
//!   RUNNING <------------------------------------------ PARKED     a worker: the thread that makes this step has the right to run it
//!      | ^ \____________ park (worker) ____________________^
//!      | |  \
//!      | |   \___________ park (thread) ________________> SLEEPING   a kernel thread: the thread that makes this step wakes it by futex
//!      | '------------ a signal that ends the park -----------'
//!      '-- any other signal is remembered: in RUNNING, and beside PARKED and SLEEPING
//! ```
//!
//! There are three signals, because waits of three sorts nest: OWN for the library's waits (sleep,
//! join, input and output), TOKEN for [`park`] of users, WAKER for
//! [`block_on`](crate::rt::block_on). A park says which signals end it (ENDS, in the word while the
//! park lasts); OWN always does. So a sleep does not consume an unpark that is meant for the park
//! after it, nor a waker's call that comes while a future is polled.
//!
//! - P1: a worker's word is PARKED only after its context was saved: the server that it left makes
//!   that step (`commit`), on its own stack.
//! - P2: the right to run a worker goes with the word. The thread that changes PARKED to RUNNING
//!   has it, and no other. The thread that fails to change the word to PARKED keeps it.
//! - P3: a signal that comes before a park which it ends is remembered, once. Only such a park
//!   takes it. The party that returns from that park sees everything that happened before the
//!   signal.
//! - P4: while a word is PARKED or SLEEPING no signal is remembered that ends the park.
//!
//! One locked operation to park, one to unpark. If a signal is there already, parking takes only
//! the operation that consumes it. Returns without a reason are allowed, so callers check their
//! condition again; stale handles cause such returns.
//!
//! The whole of it, with a proof sketch: docs/protocols/park.md. Not chosen: std's order (swap to
//! NOTIFIED, and swap back on waking), which takes two locked operations more for a hop; a word for
//! each signal, for the same cost.

use super::{cancel, deadline};
use crate::rt::base::clock;
use crate::rt::engine::runtime;
use crate::rt::engine::server::{self, ServerState};
use crate::rt::scheduler::Why;
use crate::rt::task::runnable::Runnable;
use crate::rt::task::{EMPTY, Handle, Task};
use rustix::thread::Timespec;
use rustix::thread::futex::{self, Flags};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::*;
use std::time::{Duration, Instant};

const HOW: u32 = 0b11;
const RUNNING: u32 = EMPTY;
const PARKED: u32 = 1;
const SLEEPING: u32 = 2;

const SIGNALS: u32 = OWN | TOKEN | WAKER;
const OWN: u32 = 1 << 2;
const TOKEN: u32 = 1 << 3;
const WAKER: u32 = 1 << 4;

/// Shift from a signal to the bit which says that the signal ends the park.
const ENDS: u32 = 3;

/// The sorts of parks, by the signals that end them.
const BY_OWN: u32 = OWN;
const BY_TOKEN: u32 = OWN | TOKEN;
const BY_WAKER: u32 = OWN | WAKER;

impl Handle {
    /// Makes the named party go on: its [`park`](park()) returns, or its next one returns at once.
    /// If it waits for something else first, that wait goes on, and the unpark is kept. Does not
    /// switch.
    #[inline]
    pub fn unpark(self) {
        unpark(self.task());
    }
}

/// Stops the caller until it is unparked. Returns at once if it was unparked since it last stopped
/// here. Waits of the caller elsewhere in between, by [`sleep`](crate::rt::sleep()) or for a
/// socket, do not use up an unpark. May return without a reason. A worker switches. A plain thread,
/// or a worker in [`blocking`](crate::blocking), sleeps in the kernel. A point of cancellation.
pub fn park() {
    park_by::<BY_TOKEN>(&"park");
}

/// Like [`park`], until `deadline` at most. False if the deadline has passed.
pub fn park_deadline(deadline: Instant) -> bool {
    park_until_by::<BY_TOKEN>(&"park", clock::nanos(deadline))
}

/// Like [`park`], for `timeout` at most. False if the timeout has passed.
pub fn park_timeout(timeout: Duration) -> bool {
    park_until_by::<BY_TOKEN>(&"park", clock::after(timeout))
}

/// Unparks `next` and parks. With a scheduler that follows the hint, `next` runs next on this
/// server. Otherwise as [`park`].
pub fn hand_over(next: Handle) {
    next.unpark();
    park_by::<BY_TOKEN>(&"hand_over");
}

/// [`park_deadline`], with the deadline in nanoseconds.
pub(crate) fn park_nanos(deadline: u64) -> bool {
    park_until_by::<BY_TOKEN>(&"park", deadline)
}

/// Parks until one of the caller's wakers is called. Otherwise as [`park`].
pub(crate) fn park_for_waker(reason: &'static &'static str) {
    park_by::<BY_WAKER>(reason);
}

/// Parks for one of the library's own waits, with a reason that a dump shows. Otherwise as
/// [`park`].
#[inline]
pub(crate) fn park_for(reason: &'static &'static str) {
    park_by::<BY_OWN>(reason);
}

/// Like [`park_for`], until `deadline` at most. False if the deadline has passed.
pub(crate) fn park_until(reason: &'static &'static str, deadline: u64) -> bool {
    park_until_by::<BY_OWN>(reason, deadline)
}

/// Like [`park_for`], not cut short by cancellation.
pub(crate) fn park_shielded(reason: &'static &'static str) {
    park_by_shielded::<BY_OWN>(reason);
}

/// Like [`park_shielded`], until `deadline` at most. False if the deadline has passed.
pub(crate) fn park_shielded_until(reason: &'static &'static str, deadline: u64) -> bool {
    park_until_by_shielded::<BY_OWN>(reason, deadline)
}

#[inline]
fn park_by<const BY: u32>(reason: &'static &'static str) {
    match server::running() {
        Some(running) => {
            let task = running.task();
            if cancel::is_asked(task) {
                drop(running);
                cancel::unwind(task);
                // Not cancelled now: the caller is already unwinding, or shields itself.
                return park_by_shielded::<BY>(reason);
            }
            park_worker::<BY>(running, reason);
            cancel::check(task);
        }
        None => {
            let task = Handle::current().task();
            cancel::check(task);
            park_thread::<BY>(task, reason, u64::MAX);
            cancel::check(task);
        }
    }
}

fn park_until_by<const BY: u32>(reason: &'static &'static str, deadline: u64) -> bool {
    let task = Handle::current().task();
    cancel::check(task);
    let in_time = park_until_by_shielded::<BY>(reason, deadline);
    cancel::check(task);
    in_time
}

fn park_until_by_shielded<const BY: u32>(reason: &'static &'static str, deadline: u64) -> bool {
    deadline::with_deadline(deadline, |deadline| match server::running() {
        Some(running) => {
            park_worker::<BY>(running, reason);
            true
        }
        None => park_thread::<BY>(Handle::current().task(), reason, deadline),
    })
}

fn park_by_shielded<const BY: u32>(reason: &'static &'static str) {
    match server::running() {
        Some(running) => park_worker::<BY>(running, reason),
        None => {
            park_thread::<BY>(Handle::current().task(), reason, u64::MAX);
        }
    }
}

#[inline(always)]
fn park_worker<const BY: u32>(running: server::Running, reason: &'static &'static str) {
    let task = running.task();
    // Check first: if the signal is there, taking it saves a switch.
    if task.state.load(Relaxed) & BY != 0 {
        return take::<BY>(task);
    }
    task.set_reason(reason);
    running.suspend(commit::<BY>);
}

/// Runs on the server's stack. The worker is wholly suspended, and may be unparked from here on.
fn commit<const BY: u32>(local: &ServerState, worker: Runnable) {
    let task = worker.into_task();
    if !stop::<BY>(task, PARKED) {
        take::<BY>(task);
        // SAFETY: the step failed, so the right to run the worker is still ours.
        local.make_ready(unsafe { Runnable::new(task) }, Why::Woken);
    }
}

/// Takes the signals that end a park of this sort.
#[inline]
fn take<const BY: u32>(task: &Task) {
    // ORDERING(park.3): Acquire, pairs with park.1: everything before the signal is seen.
    task.state.fetch_and(!BY, Acquire);
}

/// Changes the word of a party that stops. False if there is already a signal that ends the park.
#[inline]
fn stop<const BY: u32>(task: &Task, how: u32) -> bool {
    // Usually no signal has come.
    let mut state = RUNNING;
    loop {
        // ORDERING(park.2): Release, pairs with park.4: the thread that takes the right to run the
        // worker sees the saved context.
        match task
            .state
            .compare_exchange(state, state | how | BY << ENDS, Release, Relaxed)
        {
            Ok(_) => return true,
            Err(now) if now & BY != 0 => return false,
            Err(now) => state = now,
        }
    }
}

/// Makes `task` return from its [`park`], this one or the next.
#[inline]
pub(crate) fn unpark(task: &'static Task) {
    signal::<TOKEN>(task);
}

/// Like [`unpark`], for a future that the task runs: the task polls it once more.
pub(crate) fn call_waker(task: &'static Task) {
    signal::<WAKER>(task);
}

/// Makes `task` check again the condition of its wait in the library. Ends a park of any sort.
#[inline]
pub(crate) fn wake(task: &'static Task) {
    signal::<OWN>(task);
}

/// Like [`wake`], called in a step: does not ask for the caller's role.
pub(crate) fn wake_in_step(local: &ServerState, task: &'static Task) {
    if let Some(worker) = release::<OWN>(task) {
        runtime::ready_in_step(local, worker, Why::Woken);
    }
}

#[inline]
fn signal<const SIGNAL: u32>(task: &'static Task) {
    if let Some(worker) = release::<SIGNAL>(task) {
        runtime::ready(worker, Why::Woken);
    }
}

/// Ends the park of `task`, or remembers the signal. Wakes a thread. Returns a parked worker, which
/// the caller makes ready.
#[inline]
fn release<const SIGNAL: u32>(task: &'static Task) -> Option<Runnable> {
    // Usually it is a worker that waits for this signal.
    let parked = const { PARKED | ((OWN | SIGNAL) << ENDS) };
    // ORDERING(park.1): Release, pairs with park.3.
    // ORDERING(park.4): Acquire, pairs with park.2.
    if task.state.load(Relaxed) == parked
        && task
            .state
            .compare_exchange(parked, EMPTY, AcqRel, Relaxed)
            .is_ok()
    {
        // SAFETY: that step gave us the right to run the worker.
        return Some(unsafe { Runnable::new(task) });
    }
    release_slow::<SIGNAL>(task)
}

/// [`release`] from any value of the word.
fn release_slow<const SIGNAL: u32>(task: &'static Task) -> Option<Runnable> {
    let mut state = task.state.load(Relaxed);
    loop {
        let ends = (state >> ENDS) & SIGNAL != 0;
        let next = if ends {
            state & SIGNALS
        } else {
            state | SIGNAL
        };
        // ORDERING(park.1): Release, pairs with park.3, also where the word stays as it is.
        // ORDERING(park.4): Acquire, pairs with park.2.
        match task.state.compare_exchange(state, next, AcqRel, Relaxed) {
            Ok(_) if !ends => return None,
            // SAFETY: that step gave us the right to run the worker.
            Ok(state) if state & HOW == PARKED => return Some(unsafe { Runnable::new(task) }),
            Ok(_) => {
                let _ = futex::wake(&task.state, Flags::PRIVATE, 1);
                return None;
            }
            Err(now) => state = now,
        }
    }
}

/// Whether a signal has come that the task has not taken yet.
pub(crate) fn is_notified(task: &Task) -> bool {
    let state = task.state.load(Relaxed);
    state & HOW == RUNNING && state & SIGNALS != 0
}

/// Puts a kernel thread to sleep until a signal ends its park, or until the deadline. False if the
/// deadline has passed.
fn park_thread<const BY: u32>(
    task: &'static Task,
    reason: &'static &'static str,
    deadline: u64,
) -> bool {
    task.set_reason(reason);
    if task.state.load(Relaxed) & BY != 0 || !stop::<BY>(task, SLEEPING) {
        take::<BY>(task);
        return true;
    }
    loop {
        // ORDERING(park.3): as in `take`.
        let state = task.state.load(Acquire);
        if state & HOW != SLEEPING {
            return true;
        }
        let until = clock::timespec(deadline);
        let until = until.as_ref() as Option<&Timespec>;
        let slept = futex::wait_bitset(&task.state, Flags::PRIVATE, state, until, NonZeroU32::MAX);
        if slept == Err(rustix::io::Errno::TIMEDOUT) {
            // ORDERING(park.3): as in `take`.
            return task.state.fetch_and(SIGNALS & !BY, Acquire) & HOW != SLEEPING;
        }
    }
}
