//! The helpers that are free, and the workers that wait for one.
//!
//! A worker that is about to block calls [`HelperPool::reserve`] on its server, leaves, and is
//! given to the pool by [`HelperPool::submit`]. In between the worker has a claim, of one of two
//! sorts:
//!
//! - A helper is *reserved*: one that was free, or one made for the worker. `free` does not count
//!   it.
//! - The claim is *waiting*: there are as many helpers as there may be, so it gets the next one
//!   that comes back.
//!
//! Invariants:
//!
//! - P1: there are as many claims as workers in the queue or on their way to it. So each reserved
//!   helper finds some worker in the queue.
//! - P2: while a claim waits, no helper is free.
//!
//! A worker on a helper may block until another worker acts that itself waits for a helper. An
//! example is a worker that reads from a pipe, and the one that is to write to it. So the bound
//! gives way. While workers wait and no helper has come back for [`maker::PATIENCE`], one more is
//! made. Helpers beyond the bound end as soon as they are free.
//!
//! If the system gives no thread, a claim is refused, and the worker blocks its server. The notice
//! reports that.
//!
//! Model: `umcg-core/tests/model/helpers.rs`.

use super::super::worker::Worker;
use super::maker::{self, Maker};
use crate::base::link::Link;
use crate::base::sync::{AtomicU32, HoldLock, futex_wait_until, futex_wake, monotonic};
use std::sync::atomic::Ordering::*;

/// A helper ends after so many nanoseconds without a worker.
pub(crate) const IDLE: u64 = 10_000_000_000;

/// All helpers, the workers that wait for them, and the maker.
pub(crate) struct HelperPool {
    state: HoldLock<PoolState>,
    /// Counts submissions. Idle helpers sleep on it.
    submitted: AtomicU32,
    pub(super) maker: Maker,
    pub(super) callbacks: PoolCallbacks,
}

/// Functions of other modules that the pool needs.
pub(crate) struct PoolCallbacks {
    /// How many helpers there may be.
    pub(crate) most: fn() -> usize,
    /// Makes the kernel thread that is to call [`maker::main`]. Returns false if the system gives
    /// none.
    pub(crate) make_maker: fn(&'static HelperPool) -> bool,
    /// Makes a helper, likewise: a kernel thread that calls [`HelperPool::next_job`], and
    /// [`HelperPool::came_back`] after each.
    pub(crate) make_helper: fn(&'static HelperPool) -> bool,
    /// Called by the maker, which has nothing else to do then, when it makes one more helper than
    /// there may be, with the number of helpers and the number of waiting workers. If a claim was
    /// refused, the worker's server calls it, with 0 for the second number; so it is to be short.
    pub(crate) notice: fn(usize, usize),
}

struct PoolState {
    /// The queue of workers, by their `next_job`.
    first: Link<Worker>,
    last: Link<Worker>,
    /// Helpers that wait for a worker, less those that are reserved.
    free: usize,
    /// Helpers that exist or are being made.
    alive: usize,
    /// Claims of the second sort: waiting.
    waiting: usize,
    /// Counts how often a helper's worker has left.
    came_back: u64,
}

impl PoolState {
    fn pop(&self) -> Option<&'static Worker> {
        let first = self.first.get()?;
        let next = first.next_job.take();
        self.first.set(next);
        if next.is_none() {
            self.last.set(None);
        }
        Some(first)
    }
}

impl HelperPool {
    pub(crate) const fn new(callbacks: PoolCallbacks) -> HelperPool {
        let (first, last) = (Link::none(), Link::none());
        let state = PoolState {
            first,
            last,
            free: 0,
            alive: 0,
            waiting: 0,
            came_back: 0,
        };
        HelperPool {
            state: HoldLock::new(state),
            submitted: AtomicU32::new(0),
            maker: Maker::new(),
            callbacks,
        }
    }

    /// Makes sure that there is a maker. Returns false if the system gives no thread.
    pub(crate) fn prepare(&'static self) -> bool {
        maker::ensure(self)
    }

    /// Makes sure that a helper will take one more worker, now or when one comes back. Returns
    /// false when the system gives no thread. The caller holds: its server waits meanwhile.
    pub(crate) fn reserve(&'static self) -> bool {
        let most = (self.callbacks.most)();
        let mut state = self.state.lock();
        if state.free > 0 {
            state.free -= 1;
            return true;
        }
        let waits = state.alive >= most;
        state.waiting += usize::from(waits);
        state.alive += usize::from(!waits);
        drop(state);
        let done = if waits {
            maker::call(self)
        } else {
            maker::make(self)
        };
        done || self.take_back(waits)
    }

    /// Called when the system gave no thread. Returns whether the claim is valid anyway.
    #[cold]
    fn take_back(&self, waits: bool) -> bool {
        let mut state = self.state.lock();
        // If no claim waits any more, a helper has come back, and is reserved for the caller.
        let is_good = waits && state.waiting == 0;
        state.waiting -= usize::from(waits && !is_good);
        state.alive -= usize::from(!waits);
        let alive = state.alive;
        drop(state);
        if !is_good {
            (self.callbacks.notice)(alive, 0);
        }
        is_good
    }

    /// Gives a worker that has a claim to the pool.
    pub(crate) fn submit(&self, worker: &'static Worker) {
        let state = self.state.lock();
        match state.last.get() {
            Some(last) => last.next_job.set(Some(worker)),
            None => state.first.set(Some(worker)),
        }
        state.last.set(Some(worker));
        drop(state);
        self.submitted.fetch_add(1, Relaxed);
        futex_wake(&self.submitted, 1);
    }

    /// The calling helper's worker has left.
    pub(crate) fn came_back(&self) {
        let mut state = self.state.lock();
        state.came_back += 1;
        if state.waiting > 0 {
            state.waiting -= 1;
        } else {
            state.free += 1;
        }
    }

    /// Waits for a worker. None after a time without one, or if there are too many helpers.
    pub(crate) fn next_job(&self) -> Option<&'static Worker> {
        let most = (self.callbacks.most)();
        let deadline = monotonic() + IDLE;
        loop {
            // ORDERING: the lock orders the queue; the count is read before it, so a submission in
            // between ends the wait at once.
            let submitted = self.submitted.load(Relaxed);
            let mut state = self.state.lock();
            if let Some(worker) = state.pop() {
                return Some(worker);
            }
            let is_over = monotonic() >= deadline;
            if state.free > 0 && (is_over || state.alive > most) {
                state.free -= 1;
                state.alive -= 1;
                return None;
            }
            drop(state);
            let until = if is_over { u64::MAX } else { deadline };
            let _ = futex_wait_until(&self.submitted, submitted, until);
        }
    }

    /// If workers wait for a helper to come back: how often one has come back so far.
    pub(crate) fn waits_since(&self) -> Option<u64> {
        let state = self.state.lock();
        (state.waiting > 0).then_some(state.came_back)
    }

    /// Makes a helper beyond the bound, for a worker that waits.
    pub(super) fn exceed(&'static self) {
        let mut state = self.state.lock();
        if state.waiting == 0 {
            return;
        }
        let (alive, waiting) = (state.alive, state.waiting);
        state.waiting -= 1;
        state.alive += 1;
        drop(state);
        (self.callbacks.notice)(alive, waiting);
        if (self.callbacks.make_helper)(self) {
            return;
        }
        let mut state = self.state.lock();
        state.alive -= 1;
        if state.free > 0 {
            state.free -= 1; // a helper has come back since, and the claim is for that one
        } else {
            state.waiting += 1;
        }
    }

    pub(crate) fn before_fork(&self) {
        self.state.take();
        self.maker.before_fork();
    }

    /// In a forked child there are no helpers.
    ///
    /// # Safety
    /// Called once after each `before_fork`, by the thread that called that.
    pub(crate) unsafe fn forked(&self, in_child: bool) {
        // SAFETY: passed on.
        unsafe { self.maker.forked(in_child) };
        // SAFETY: passed on.
        let mut state = unsafe { self.state.adopt() };
        if in_child {
            while state.pop().is_some() {}
            (state.free, state.alive, state.waiting) = (0, 0, 0);
        }
    }
}
