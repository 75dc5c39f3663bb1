//! Helper threads: where light workers block.
//!
//! A light worker in a blocking scope has its whole flow on a helper. A helper takes one at a time; there is always one for each worker in
//! a scope, unless the system refuses threads. One that has had nothing to do for [`IDLE_SECONDS`] ends.

use super::worker::{Carrier, Worker};
use super::{Owner, blocking, clock, home_of_storage, set_role};
use crate::identity::Carrying;
use crate::link::Link;
use crate::sync::{AtomicU32, futex_wait, futex_wake};
use crate::uth::{self, vp::Vp};
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::*;
use umcg_context::annotate::Flow;
use umcg_context::lock::HoldLock;
use umcg_context::{Context, local};

const IDLE_SECONDS: u64 = 10;

pub(crate) struct Helper {
    pub(crate) context: UnsafeCell<Context>,
    pub(crate) flow: UnsafeCell<Flow>,
    pub(crate) tp: usize,
    /// The worker that blocks here.
    pub(crate) current: Link<Worker>,
}

// SAFETY: the context is touched by the helper's kernel thread only.
unsafe impl Sync for Helper {}

struct Pool {
    jobs: VecDeque<&'static Worker>,
    /// Helpers that wait for a job, less those that one is reserved for.
    free: usize,
}

static POOL: HoldLock<Pool> = HoldLock::new(Pool { jobs: VecDeque::new(), free: 0 });
/// Counts submissions: what idle helpers sleep on.
static SUBMITTED: AtomicU32 = AtomicU32::new(0);

/// Makes sure that a helper will take one more job. False when the system gives no thread.
pub(crate) fn reserve() -> bool {
    let mut pool = POOL.lock();
    if pool.free > 0 {
        pool.free -= 1;
        return true;
    }
    drop(pool);
    std::thread::Builder::new().name("umcg-helper".into()).spawn(main).is_ok()
}

/// Gives a worker to the helper that was reserved for it.
pub(crate) fn submit(worker: &'static Worker) {
    POOL.lock().jobs.push_back(worker);
    SUBMITTED.fetch_add(1, Relaxed);
    futex_wake(&SUBMITTED, 1);
}

/// In a forked child there are none.
pub(crate) fn before_fork() {
    POOL.take();
}

/// # Safety
/// Called once after each `before_fork`, by the thread that called that.
pub(crate) unsafe fn forked(in_child: bool) {
    // SAFETY: passed on.
    let mut pool = unsafe { POOL.adopt() };
    if in_child {
        pool.jobs.clear();
        pool.free = 0;
    }
}

fn main() {
    // Without memory for a virtual processor the worker still gets its thread; only `uth::current` is blind there.
    let _ = uth::vp_init_with(None, uth::Method::Asm);
    let helper: &'static Helper = Box::leak(Box::new(Helper {
        context: UnsafeCell::new(Context::empty()),
        flow: UnsafeCell::new(Flow::of_this_thread()),
        tp: umcg_context::thread_pointer(),
        current: Link::none(),
    }));
    let carrying = Carrying::begin(home_of_storage);
    set_role(Owner::Helper(helper));
    local::set_holds(1); // as a server's
    while let Some(worker) = next_job() {
        run(helper, worker);
        POOL.lock().free += 1;
    }
    set_role(Owner::Nobody);
    carrying.end();
    let helper = (helper as *const Helper).cast_mut();
    // SAFETY: it came from a box, and no worker or storage names it any more.
    drop(unsafe { Box::from_raw(helper) });
}

/// Carries the flow of a light worker until its blocking scope ends.
fn run(helper: &'static Helper, worker: &'static Worker) {
    helper.current.set(Some(worker));
    let vp = Vp::here();
    if let Some(vp) = vp {
        vp.current.store(worker.record.load(Relaxed), Relaxed);
    }
    if worker.carrier() == Carrier::Owning {
        worker.helper.set(Some(helper));
        // SAFETY: its server saw it leave for here, and nobody else may resume it.
        unsafe { worker.set_vp(vp) };
        // SAFETY: as above; nothing touches thread-local storage before the switch. Who comes back sets our own again.
        unsafe { umcg_context::set_thread_pointer(worker.tp.load(Relaxed)) };
    }
    // SAFETY: its server saw it leave for here, and nobody else may resume it.
    unsafe { Flow::leave(helper.flow.get(), worker.flow()) };
    // SAFETY: as above.
    unsafe { umcg_context::switch(helper.context.get(), worker.context.get()) };
    // SAFETY: back on the helper's stack.
    unsafe { Flow::arrive(helper.flow.get()) };
    if let Some(vp) = vp {
        vp.current.store((&raw const vp.native).cast_mut(), Relaxed);
    }
    helper.current.set(None);
    blocking::ended(worker);
}

/// Waits for a job; none after a time without one.
fn next_job() -> Option<&'static Worker> {
    let deadline = clock() + IDLE_SECONDS * 1_000_000_000;
    loop {
        // ORDERING: the lock orders the queue; the count is read before it, so a submission in between ends the wait at once.
        let submitted = SUBMITTED.load(Relaxed);
        let mut pool = POOL.lock();
        if let Some(worker) = pool.jobs.pop_front() {
            return Some(worker);
        }
        if clock() >= deadline && pool.free > 0 {
            pool.free -= 1;
            return None;
        }
        drop(pool);
        let until = if clock() >= deadline { u64::MAX } else { deadline };
        let _ = futex_wait(&SUBMITTED, submitted, until);
    }
}
