//! Helper threads, on which light workers block.
//!
//! In a blocking scope the whole flow of such a worker is on a helper. A helper takes one worker at
//! a time. A helper that has been idle for ten seconds ends.
//!
//! | module | holds |
//! |---|---|
//! | this | a helper: how it carries a worker's flow; the program's settings for helpers |
//! | `pool` | helpers that are free, workers that wait for one, and how many helpers there may be |
//! | `maker` | the kernel thread that makes helpers |

mod maker;
mod pool;

use super::idle::EventKind;
use super::worker::{Carrier, Helper, Worker};
use super::{Owner, STORAGE_OWNERS, set_role};
use crate::base::link::Link;
use crate::identity::{Carrying, process};
use crate::os::kernel_thread;
use crate::uth::{self, vp::Vp};
use pool::{HelperPool, PoolCallbacks};
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::*};
use umcg_context::annotate::Flow;
use umcg_context::{Context, local};

/// The helpers of the process.
pub(crate) static POOL: HelperPool = HelperPool::new(PoolCallbacks {
    most,
    make_maker,
    make_helper,
    notice,
});

/// How many helpers there may be by default.
const MOST: usize = 512;
/// The bound that the program has set; 0 for none.
static SET: AtomicUsize = AtomicUsize::new(0);
/// A [`Notice`], or null.
static NOTICE: AtomicPtr<()> = AtomicPtr::new(null_mut());

/// Called on the maker's kernel thread when all helpers block and workers wait, with the number of
/// helpers and the number of waiting workers. If the system gives no thread for one more helper,
/// the worker that blocks its server instead calls it, with 0 for the second number; then it must
/// not switch.
pub(crate) type Notice = fn(usize, usize);

/// Sets how many helpers there may be; 0 for the environment's value (`UMCG_HELPERS`), or 512.
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
            let said = std::env::var("UMCG_HELPERS")
                .ok()
                .and_then(|text| text.trim().parse().ok());
            said.filter(|most| *most > 0).unwrap_or(MOST)
        }),
        set => set,
    }
}

fn notice(helpers: usize, waiting: usize) {
    if let Some(notice) =
        // SAFETY: null or a notice; `Option<fn>` represents null as None.
        unsafe { std::mem::transmute::<*mut (), Option<Notice>>(NOTICE.load(Relaxed)) }
    {
        notice(helpers, waiting);
    }
}

fn make_maker(pool: &'static HelperPool) -> bool {
    kernel_thread::spawn("umcg-maker", move || maker::main(pool)).is_ok()
}

fn make_helper(pool: &'static HelperPool) -> bool {
    process::follow();
    kernel_thread::spawn("umcg-helper", move || main(pool)).is_ok()
}

/// The body of a helper's kernel thread.
fn main(pool: &'static HelperPool) {
    // Without memory for a virtual processor the worker still gets its thread. Only `uth::current`
    // finds nothing there.
    let _ = uth::vp_init_with(None, uth::Method::Asm);
    let helper: &'static Helper = Box::leak(Box::new(Helper {
        context: UnsafeCell::new(Context::empty()),
        flow: UnsafeCell::new(Flow::of_this_thread()),
        tp: umcg_context::thread_pointer(),
        current: Link::none(),
    }));
    let carrying = Carrying::begin(&STORAGE_OWNERS);
    set_role(Owner::Helper(helper));
    local::set_holds(1); // as for a server
    while let Some(worker) = pool.next_job() {
        run(helper, worker);
        pool.came_back();
    }
    set_role(Owner::Nobody);
    carrying.end();
    let helper = (helper as *const Helper).cast_mut();
    // SAFETY: it came from a box, and no worker or storage refers to it any more.
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
        // SAFETY: its server saw it leave for here, and no other thread may resume it.
        unsafe { worker.set_vp(vp) };
        // SAFETY: as above. Nothing touches thread-local storage before the switch. The flow that
        // switches back sets our own again.
        unsafe { umcg_context::set_thread_pointer(worker.tp.load(Relaxed)) };
    }
    // SAFETY: its server saw it leave for here, and no other thread may resume it.
    unsafe { Flow::leave(helper.flow.get(), worker.flow()) };
    // SAFETY: as above.
    unsafe { umcg_context::switch(helper.context.get(), worker.context.get()) };
    // SAFETY: back on the helper's stack.
    unsafe { Flow::arrive(helper.flow.get()) };
    if let Some(vp) = vp {
        vp.current.store((&raw const vp.native).cast_mut(), Relaxed);
    }
    helper.current.set(None);
    // The worker waits for a server now.
    worker.post(EventKind::Wake, None);
}
