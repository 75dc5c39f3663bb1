//! Watching the turns of servers, for a look inside programs under `umcg run`: which worker runs
//! where (traces, processor time), and since when a worker is off its server (lists of threads).
//!
//! The watcher is a function that a higher room leaves here. While there is none, a turn costs one
//! load and a branch. The sampler is another one, which the runtime's watch calls instead.
//!
//! A look at the clock in each turn would cost a tenth of it, even at the coarse one. So the loop
//! looks, and switches from worker to worker make do with the time that it saw last: some sixty
//! switches come between two turns of the loop at most, and a worker that runs for long is
//! preempted. A worker after which the loop goes on is stamped anew.
//!
//! Without the feature `intercept` nothing is left of this.

use crate::rt::task::Task;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};
use umcg_core::raw::{Event, EventKind, Worker};

/// What happens on a server.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) enum ServerTurn {
    /// The server's loop is about to run this worker. It has the right to.
    Begins(Worker),
    /// The worker that runs is about to switch to this one. It has the right to run that.
    Switches(Worker),
    /// The loop goes on: the worker that ran last has left with this event.
    Ends(Event),
}

/// Called with the server's number, on its kernel thread: by its loop, or by the worker that
/// switches. Neither unwinds nor switches. It returns true if the loop is to go on soon.
pub(crate) type Watcher = fn(usize, ServerTurn) -> bool;

/// Called on the thread of the runtime's watch, at each of its checks.
pub(crate) type Sampler = fn();

static WATCHER: AtomicPtr<()> = AtomicPtr::new(null_mut());
static SAMPLER: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// What a loop saw last, by the coarse clock; 0 while nobody wants to know.
static CLOCK: AtomicU64 = AtomicU64::new(0);

/// Sets the watcher. Servers call it from their next turn on.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn watch(watcher: Watcher) {
    WATCHER.store(watcher as *mut (), Relaxed);
}

/// Sets the sampler.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn sample_by(sampler: Sampler) {
    SAMPLER.store(sampler as *mut (), Relaxed);
}

/// The watch makes one of its checks.
pub(crate) fn sample() {
    let sampler = SAMPLER.load(Relaxed);
    if !sampler.is_null() {
        // SAFETY: `sample_by` has stored a `Sampler`.
        let sampler = unsafe { std::mem::transmute::<*mut (), Sampler>(sampler) };
        sampler();
    }
}

/// From here on loops look at the clock.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn keep_clock() {
    CLOCK.store(coarse(), Relaxed);
}

/// What a loop saw last: not long ago, if the caller runs on a server.
#[inline]
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn clock() -> u64 {
    CLOCK.load(Relaxed)
}

/// Nanoseconds of CLOCK_MONOTONIC_COARSE, which is milliseconds late at most.
pub(crate) fn coarse() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Looks at the clock, if it is kept, and returns the time. All servers read the word that keeps
/// it: it is written when the time is another one, some hundred times a second.
#[inline(always)]
fn see_clock() -> u64 {
    let before = CLOCK.load(Relaxed);
    if before == 0 {
        return 0;
    }
    let now = coarse();
    if now != before {
        CLOCK.store(now, Relaxed);
    }
    now
}

/// The loop is about to run this worker.
#[inline(always)]
pub(super) fn begin(server: usize, worker: Worker) {
    if cfg!(feature = "intercept") {
        see_clock();
        let _ = note(server, ServerTurn::Begins(worker));
    }
}

/// A worker has left to the loop. It has not done its step yet.
#[inline(always)]
pub(super) fn end(server: usize, event: Event) {
    if cfg!(feature = "intercept") {
        if let Event::Ready(EventKind::Wait, worker) = event {
            let now = see_clock();
            if now != 0 {
                Task::of(worker).since.store(now, Relaxed);
            }
        }
        let _ = note(server, ServerTurn::Ends(event));
    }
}

/// Tells the watcher, if there is one. True if the loop is to go on soon.
#[inline(always)]
pub(super) fn note(server: usize, turn: ServerTurn) -> bool {
    cfg!(feature = "intercept") && !WATCHER.load(Relaxed).is_null() && tell(server, turn)
}

#[cold]
#[inline(never)]
fn tell(server: usize, turn: ServerTurn) -> bool {
    // SAFETY: `watch` has stored a `Watcher`.
    let watcher = unsafe { std::mem::transmute::<*mut (), Watcher>(WATCHER.load(Relaxed)) };
    watcher(server, turn)
}
