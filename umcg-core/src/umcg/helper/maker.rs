//! The maker: one kernel thread that makes helpers.
//!
//! A thread inherits affinity, nice value and scheduling class from the thread that makes it. A
//! helper serves all runtimes, so it needs the process's attributes, and not those of the first
//! server that needed a helper: that one may be pinned, or of low priority. The process's
//! attributes are those of its main thread ([`identity::process`](crate::identity::process)).
//! Raising a nice value takes a privilege, so the maker is made early, when a runtime starts,
//! before any of its servers has changed its own.
//!
//! The maker also prevents the bound from stopping the program for good: see `pool`.

use super::pool::HelperPool;
use crate::base::sync::{
    AtomicU32, HoldLock, futex_wait_until, futex_wake, futex_wake_at, monotonic,
};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering::*};

/// If no helper has come back for so many nanoseconds, one is made beyond the bound.
pub(crate) const PATIENCE: u64 = 10_000_000;

/// The state that the maker shares with its callers.
pub(super) struct Maker {
    /// Whether there is a maker.
    is_there: AtomicU32,
    /// Counts calls. The maker sleeps on it.
    called: AtomicU32,
    /// The requests of workers that wait for a helper to be made.
    requests: HoldLock<AtomicPtr<Request>>,
}

const NONE: u32 = 0;
const BEGINS: u32 = 1;
const THERE: u32 = 2;

/// A request, on the waiter's stack.
struct Request {
    answer: AtomicU32,
    next: *mut Request,
}

const MADE: u32 = 1;
const REFUSED: u32 = 2;

impl Maker {
    pub(super) const fn new() -> Maker {
        let requests = HoldLock::new(AtomicPtr::new(null_mut()));
        Maker {
            is_there: AtomicU32::new(NONE),
            called: AtomicU32::new(0),
            requests,
        }
    }

    /// Takes the last request.
    fn next_request(&self) -> Option<*mut Request> {
        let requests = self.requests.lock();
        let request = requests.load(Relaxed);
        // SAFETY: null, or on the stack of a caller that waits for an answer.
        requests.store(unsafe { request.as_ref() }?.next, Relaxed);
        Some(request)
    }

    pub(super) fn before_fork(&self) {
        self.requests.take();
    }

    /// # Safety
    /// Called once after each `before_fork`, by the thread that called that.
    pub(super) unsafe fn forked(&self, in_child: bool) {
        // SAFETY: passed on.
        let requests = unsafe { self.requests.adopt() };
        if in_child {
            requests.store(null_mut(), Relaxed);
            self.is_there.store(NONE, Relaxed);
        }
    }
}

/// Makes sure that there is a maker. Returns false if the system gives no thread.
pub(super) fn ensure(pool: &'static HelperPool) -> bool {
    let is_there = &pool.maker.is_there;
    loop {
        match is_there.compare_exchange(NONE, BEGINS, Relaxed, Relaxed) {
            Ok(_) => {
                let made = (pool.callbacks.make_maker)(pool);
                is_there.store(if made { THERE } else { NONE }, Relaxed);
                futex_wake(is_there, u32::MAX >> 1);
                return made;
            }
            Err(THERE) => return true,
            Err(state) => {
                let _ = futex_wait_until(is_there, state, u64::MAX);
            }
        }
    }
}

/// Makes the maker look after waiting workers. Returns false if there is no maker.
pub(super) fn call(pool: &'static HelperPool) -> bool {
    let there = ensure(pool);
    pool.maker.called.fetch_add(1, Relaxed);
    futex_wake(&pool.maker.called, 1);
    there
}

/// Lets the maker make a helper, and waits for that. Returns false if the system gives no thread.
pub(super) fn make(pool: &'static HelperPool) -> bool {
    if !ensure(pool) {
        return false;
    }
    let mut request = Request {
        answer: AtomicU32::new(0),
        next: null_mut(),
    };
    let requests = pool.maker.requests.lock();
    request.next = requests.load(Relaxed);
    let request = &raw mut request;
    requests.store(request, Relaxed);
    drop(requests);
    call(pool);
    // SAFETY: it is on this stack, and the maker does not read it any more once it has answered.
    let answer = unsafe { &(*request).answer };
    loop {
        // ORDERING(maker.2): Acquire, pairs with maker.1.
        match answer.load(Acquire) {
            0 => {
                let _ = futex_wait_until(answer, 0, u64::MAX);
            }
            answer => return answer == MADE,
        }
    }
}

/// The body of the maker's kernel thread, which lives as long as the process.
pub(crate) fn main(pool: &'static HelperPool) {
    // How often a helper had come back when workers began to wait, and the time at which they have
    // waited too long.
    let mut since: Option<(u64, u64)> = None;
    loop {
        // ORDERING: none is needed: the lists have locks, and the count is read before them.
        let called = pool.maker.called.load(Relaxed);
        while let Some(request) = pool.maker.next_request() {
            let answer = if (pool.callbacks.make_helper)(pool) {
                MADE
            } else {
                REFUSED
            };
            // SAFETY: as in `next_request`.
            let word = unsafe { &raw const (*request).answer };
            // ORDERING(maker.1): Release, pairs with maker.2. The request is its owner's again.
            // SAFETY: likewise. This is the last access to it.
            unsafe { (*word).store(answer, Release) };
            futex_wake_at(word);
        }
        let now = monotonic();
        since = pool.waits_since().map(|came_back| match since {
            Some((before, deadline)) if before == came_back => (before, deadline),
            _ => (came_back, now + PATIENCE),
        });
        let deadline = since.map_or(u64::MAX, |(_, deadline)| deadline);
        if now >= deadline {
            pool.exceed();
            since = None;
        } else {
            let _ = futex_wait_until(&pool.maker.called, called, deadline);
        }
    }
}
