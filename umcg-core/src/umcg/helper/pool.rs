//! The helpers that are free, and the workers that wait for one.
//!
//! A worker that is about to block calls [`reserve`] on its server, leaves, and is given to the pool
//! by [`submit`]. In between it has a claim, of one of two sorts:
//!
//! - A helper is *reserved*: one that was free, or one made for it. It is not counted in `free`.
//! - It is *waiting*: there are as many helpers as there may be ([`set_most`]), so it has the next one
//!   that comes back.
//!
//! Invariant: there are as many claims as workers that are in the queue or are on their way to it. So
//! each helper that is reserved finds a worker in the queue, whichever one that is.
//!
//! A helper may block until some other worker has blocked, which waits for a helper: a worker that
//! reads from a pipe, and the one that is to write to it. So the bound gives way. While workers wait
//! and no helper has come back for [`maker::PATIENCE`], one more is made. Those beyond the bound end as
//! soon as they are free.
//!
//! Where the system gives no thread a claim is refused, and the worker blocks its server.

use super::super::clock;
use super::super::worker::Worker;
use super::{IDLE_SECONDS, maker};
use crate::link::Link;
use crate::sync::{AtomicU32, futex_wait, futex_wake};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use umcg_context::lock::HoldLock;

/// How many helpers there may be where nothing is said.
const MOST: usize = 512;

pub(super) struct Pool {
    /// The queue of workers, by their `next_job`.
    first: Link<Worker>,
    last: Link<Worker>,
    /// Helpers that wait for a worker, less those that one is reserved for.
    free: usize,
    /// Helpers that there are, or are being made.
    alive: usize,
    /// Claims of the second sort.
    waiting: usize,
    /// Counts the times that a helper had its worker leave.
    came_back: u64,
}

static POOL: HoldLock<Pool> =
    HoldLock::new(Pool { first: Link::none(), last: Link::none(), free: 0, alive: 0, waiting: 0, came_back: 0 });
/// Counts submissions: what idle helpers sleep on.
static SUBMITTED: AtomicU32 = AtomicU32::new(0);
/// What the program says of the bound; 0 for nothing.
static SET: AtomicUsize = AtomicUsize::new(0);
/// A [`Notice`], or null.
static NOTICE: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Is told that all helpers block and workers wait: how many helpers there are, and how many workers
/// wait. On a kernel thread of the library's that has nothing else to do at the time.
pub(crate) type Notice = fn(usize, usize);

/// Sets how many helpers there may be; 0 for what the environment says (`UMCG_HELPERS`), or 512.
pub(crate) fn set_most(most: usize) {
    SET.store(most, Relaxed);
}

pub(crate) fn set_notice(notice: Notice) {
    NOTICE.store(notice as *mut (), Relaxed);
}

fn most() -> usize {
    static OF_ENVIRONMENT: OnceLock<usize> = OnceLock::new();
    match SET.load(Relaxed) {
        0 => *OF_ENVIRONMENT.get_or_init(|| {
            let said = std::env::var("UMCG_HELPERS").ok().and_then(|text| text.trim().parse().ok());
            said.filter(|most| *most > 0).unwrap_or(MOST)
        }),
        set => set,
    }
}

/// Makes sure that a helper will take one more worker, now or when one comes back. False when the
/// system gives no thread. Held: the caller's server waits meanwhile.
pub(crate) fn reserve() -> bool {
    let most = most();
    let mut pool = POOL.lock();
    if pool.free > 0 {
        pool.free -= 1;
        return true;
    }
    let waits = pool.alive >= most;
    pool.waiting += usize::from(waits);
    pool.alive += usize::from(!waits);
    drop(pool);
    let done = if waits { maker::call() } else { maker::make() };
    done || take_back(waits)
}

/// The system gave no thread. Whether the claim is good all the same.
#[cold]
fn take_back(waits: bool) -> bool {
    let mut pool = POOL.lock();
    if !waits {
        pool.alive -= 1;
        return false;
    }
    // If none waits any more a helper has come back, and is reserved for the caller.
    let still = pool.waiting > 0;
    pool.waiting -= usize::from(still);
    !still
}

/// Gives a worker that has a claim to the pool.
pub(crate) fn submit(worker: &'static Worker) {
    let pool = POOL.lock();
    match pool.last.get() {
        Some(last) => last.next_job.set(Some(worker)),
        None => pool.first.set(Some(worker)),
    }
    pool.last.set(Some(worker));
    drop(pool);
    SUBMITTED.fetch_add(1, Relaxed);
    futex_wake(&SUBMITTED, 1);
}

impl Pool {
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

/// The calling helper's worker has left.
pub(super) fn came_back() {
    let mut pool = POOL.lock();
    pool.came_back += 1;
    if pool.waiting > 0 {
        pool.waiting -= 1;
    } else {
        pool.free += 1;
    }
}

/// Waits for a worker; none after a time without one, or where there are too many helpers.
pub(super) fn next_job() -> Option<&'static Worker> {
    let most = most();
    let deadline = clock() + IDLE_SECONDS * 1_000_000_000;
    loop {
        // ORDERING: the lock orders the queue; the count is read before it, so a submission in between ends the wait at once.
        let submitted = SUBMITTED.load(Relaxed);
        let mut pool = POOL.lock();
        if let Some(worker) = pool.pop() {
            return Some(worker);
        }
        let is_over = clock() >= deadline;
        if pool.free > 0 && (is_over || pool.alive > most) {
            pool.free -= 1;
            pool.alive -= 1;
            return None;
        }
        drop(pool);
        let until = if is_over { u64::MAX } else { deadline };
        let _ = futex_wait(&SUBMITTED, submitted, until);
    }
}

/// Whether workers wait for a helper to come back; then how often one has.
pub(super) fn waits_since() -> Option<u64> {
    let pool = POOL.lock();
    (pool.waiting > 0).then_some(pool.came_back)
}

/// Makes a helper beyond the bound, by `make`, for a worker that waits.
pub(super) fn exceed(make: fn() -> bool) {
    let mut pool = POOL.lock();
    if pool.waiting == 0 {
        return;
    }
    let (alive, waiting) = (pool.alive, pool.waiting);
    pool.waiting -= 1;
    pool.alive += 1;
    drop(pool);
    // SAFETY: null or a notice; `Option<fn>` represents null as None.
    if let Some(notice) = unsafe { std::mem::transmute::<*mut (), Option<Notice>>(NOTICE.load(Relaxed)) } {
        notice(alive, waiting);
    }
    if make() {
        return;
    }
    let mut pool = POOL.lock();
    pool.alive -= 1;
    if pool.free > 0 {
        pool.free -= 1; // one has come back since, and the claim is for that one
    } else {
        pool.waiting += 1;
    }
}

/// In a forked child there are none.
pub(crate) fn before_fork() {
    POOL.take();
    maker::before_fork();
}

/// # Safety
/// Called once after each `before_fork`, by the thread that called that.
pub(crate) unsafe fn forked(in_child: bool) {
    // SAFETY: passed on.
    unsafe { maker::forked(in_child) };
    // SAFETY: passed on.
    let mut pool = unsafe { POOL.adopt() };
    if in_child {
        while pool.pop().is_some() {}
        (pool.free, pool.alive, pool.waiting) = (0, 0, 0);
    }
}
