//! Workers that are uths: a pooled stack and no kernel thread.
//!
//! An owning worker also has a [block](crate::storage) of thread-local storage, from the same
//! processor's pool. A sharing worker uses the storage of its server.
//!
//! ```text
//!   … frames | the function's captures | Worker | upper part | UthRecord | top of the stack
//! ```
//!
//! All of it lies in the page that the first frame touches anyway.

use super::group::{self, Group};
use super::idle::{EventKind, state};
use super::worker::{Carrier, Inside, Worker};
use super::{CallerRole, Owner, WORKERS, blocking, caller, role_word};
use crate::os::unwinder::each_caller;
use crate::storage::{self, Block};
use crate::uth::inspect::inspect;
use crate::uth::record::{EXTENSION_BYTES, UthRecord};
use crate::uth::{self, Method, vp::Vp};
use rustix::io::Errno;
use std::alloc::Layout;
use std::mem::ManuallyDrop;
use std::ops::ControlFlow;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::Ordering::*;
use umcg_context::annotate::Flow;
use umcg_context::local::{self, Hold};
use umcg_context::lock::HoldLock;
use umcg_context::stack::SizeClass;

/// Bytes of a light worker's descriptor for the layer above.
pub const UPPER_BYTES: usize = 192;
const UPPER_OFFSET: usize = EXTENSION_BYTES - UPPER_BYTES;

const _: () = assert!(
    size_of::<Worker>() <= UPPER_OFFSET
        && EXTENSION_BYTES % align_of::<Worker>() == 0
        && UPPER_OFFSET % 64 == 0
);

/// Captures larger than this go to the heap, to leave the stack to the frames.
const CAPTURES_IN_PLACE: usize = 512;

/// The kernel's tids are smaller (PID_MAX_LIMIT).
const FIRST_TID: u32 = 1 << 22;

/// Tids of light workers: those given back, and the first that was never used.
static TIDS: HoldLock<(Vec<u32>, u32)> = HoldLock::new((Vec::new(), FIRST_TID));

/// The properties of a new light worker.
#[derive(Clone, Copy)]
pub(crate) struct LightSpec<'a> {
    pub(crate) group: &'static Group,
    pub(crate) class: SizeClass,
    pub(crate) name: &'a str,
    /// Its id; `None` for the address of its upper part.
    pub(crate) id: Option<u64>,
    /// 0 if no tid is to name it.
    pub(crate) tid: u32,
    /// `Sharing` or `Owning`.
    pub(crate) carrier: Carrier,
}

/// Makes a light worker that will run `f`. It is in no list yet: the caller hands it over or posts
/// it.
///
/// # Safety
/// `f` is sound although, after any call that switches or blocks, it may continue on another kernel
/// thread, with another thread-local storage.
pub(crate) unsafe fn create<F: FnOnce() + 'static>(
    spec: LightSpec<'_>,
    f: F,
) -> Result<&'static Worker, uth::UthError> {
    if size_of::<F>() > CAPTURES_IN_PLACE {
        let boxed: Box<dyn FnOnce()> = Box::new(f);
        // SAFETY: passed on.
        return unsafe { create_in_place(spec, boxed) };
    }
    // SAFETY: passed on.
    unsafe { create_in_place(spec, f) }
}

/// # Safety
/// As `create`.
#[inline]
unsafe fn create_in_place<F: FnOnce() + 'static>(
    spec: LightSpec<'_>,
    f: F,
) -> Result<&'static Worker, uth::UthError> {
    let worker = carve(spec, Layout::new::<F>(), first_frame::<F>)?;
    // SAFETY: the place is below the worker, aligned for F, and the stack is new.
    unsafe { reserved(worker, Layout::new::<F>()).cast::<F>().write(f) };
    Ok(worker)
}

/// Makes a light worker that will run `entry(worker)`. The caller gets this much room in
/// [`reserved`], below which the frames begin.
#[inline]
pub(crate) fn carve(
    spec: LightSpec<'_>,
    room: Layout,
    entry: umcg_context::EntryFn,
) -> Result<&'static Worker, uth::UthError> {
    // the processor is the caller's until stack and storage are out of its pools
    let hold = Hold::begin();
    let vp = Vp::here();
    let record = uth::make(vp, spec.class, Method::Asm)?;
    let block = match spec.carrier {
        Carrier::Owning => Some(take_block(vp, record)?),
        _ => None,
    };
    drop(hold);
    if !spec.name.is_empty() {
        record.set_name(spec.name);
    }
    let place = record.extension_place();
    // SAFETY: the extension only ever holds workers, and zeros are a valid one without a home.
    let worker: &'static Worker = unsafe { &*place.cast::<Worker>() };
    let id = spec.id.unwrap_or_else(|| upper(worker).addr() as u64);
    let tp = block.as_ref().map_or(0, Block::thread_pointer);
    worker.reset(
        spec.group,
        spec.carrier,
        spec.tid,
        id,
        tp,
        (record as *const UthRecord).cast_mut(),
    );
    if let Some(block) = block {
        worker.own(block);
    }
    record.extension.store(place.cast(), Relaxed);
    record.state.store(uth::record::state::WORKER, Relaxed);
    // SAFETY: the worker is new, and its maker's.
    unsafe { rearm(worker, room, entry) };
    Ok(worker)
}

/// Makes a carved worker that has ended begin anew, with another function. This is cheaper than to
/// discard it and carve another.
///
/// # Safety
/// The caller has the right to run it. No destructors run for its frames. An owning worker's
/// storage was finished.
#[inline]
pub(crate) unsafe fn rearm(worker: &'static Worker, room: Layout, entry: umcg_context::EntryFn) {
    // SAFETY: a light worker has a record.
    let record = unsafe { &*worker.record.load(Relaxed) };
    // SAFETY: by the contract, nothing runs on the stack.
    unsafe { record.start_flow() };
    // SAFETY: by the contract, the context is the caller's.
    let context = unsafe { &mut *worker.context.get() };
    // SAFETY: the stack below that place is the worker's own.
    unsafe {
        context.prepare(
            reserved(worker, room),
            entry,
            (worker as *const Worker).cast_mut().cast(),
        )
    };
}

/// Storage for a worker on this record. If there is none, the record is given back. The caller
/// holds.
fn take_block(vp: Option<&'static Vp>, record: &'static UthRecord) -> Result<Block, uth::UthError> {
    vp.map_or_else(storage::take, Vp::take_block)
        .map_err(|error| {
            // SAFETY: nothing has run on the new stack.
            unsafe { uth::discard(vp, record) };
            error.into()
        })
}

impl Worker {
    /// Gives a new worker its storage.
    fn own(&'static self, block: Block) {
        // SAFETY: no flow runs with the block yet.
        let words = unsafe { local::Words::of(block.thread_pointer()) };
        words.set_task(role_word(Owner::Worker(self)));
        words.set_holds(1); // see `Inside`
        self.block.store(block.into_raw().as_ptr(), Relaxed);
    }

    /// Takes it away again.
    fn disown(&self) -> Option<Block> {
        let block = NonNull::new(self.block.load(Relaxed))?;
        self.block.store(std::ptr::null_mut(), Relaxed);
        // SAFETY: `own` stored it, and it was just taken out.
        Some(unsafe { Block::from_raw(block) })
    }

    /// The storage of an owning worker, for the worker itself.
    fn block(&self) -> Option<ManuallyDrop<Block>> {
        let block = NonNull::new(self.block.load(Relaxed))?;
        // SAFETY: `own` stored it. Dropping a block does nothing, and this is not even dropped.
        Some(ManuallyDrop::new(unsafe { Block::from_raw(block) }))
    }
}

/// The upper layer's part of a light worker's descriptor: [`UPPER_BYTES`], 64-aligned. It holds the
/// same type for ever, as the descriptor does, and zeros on a new stack.
#[inline(always)]
pub(crate) fn upper(worker: &Worker) -> *mut u8 {
    (worker as *const Worker)
        .cast::<u8>()
        .cast_mut()
        .wrapping_add(UPPER_OFFSET)
}

/// The room below a light worker that was made with this layout.
#[inline(always)]
pub(crate) fn reserved(worker: &Worker, room: Layout) -> *mut u8 {
    let below = (worker as *const Worker)
        .cast::<u8>()
        .wrapping_sub(room.size());
    let padding = below.addr() % room.align().max(16);
    below.wrapping_sub(padding).cast_mut()
}

/// Makes a light worker that a tid names, and posts its WAKE.
///
/// # Safety
/// As `create`.
pub(crate) unsafe fn create_named<F: FnOnce() + 'static>(
    class: SizeClass,
    name: &str,
    id: u64,
    f: F,
) -> Result<u32, Errno> {
    let tid = take_tid().ok_or(Errno::AGAIN)?;
    let spec = LightSpec {
        group: &group::FIRST,
        class,
        name,
        id: Some(id),
        tid,
        carrier: Carrier::Sharing,
    };
    // SAFETY: passed on.
    let Ok(worker) = (unsafe { create(spec, f) }) else {
        TIDS.lock().0.push(tid);
        return Err(Errno::NOMEM);
    };
    if !WORKERS.set(tid, Some(worker)) {
        discard(worker);
        return Err(Errno::NOMEM);
    }
    let _hold = Hold::begin();
    worker.post(EventKind::Wake, None);
    Ok(tid)
}

fn take_tid() -> Option<u32> {
    let mut tids = TIDS.lock();
    if let Some(tid) = tids.0.pop() {
        return Some(tid);
    }
    let tid = tids.1;
    if tid > i32::MAX as u32 {
        return None;
    }
    tids.1 += 1;
    Some(tid)
}

/// The first frame of a light worker: runs its function, and ends it.
unsafe extern "C" fn first_frame<F: FnOnce() + 'static>(worker: *mut ()) -> ! {
    // SAFETY: `create` passed the worker, and this is its first frame.
    let worker = unsafe { arrive(worker) };
    // SAFETY: `create` wrote the captures there; they are read once.
    let f = unsafe { reserved(worker, Layout::new::<F>()).cast::<F>().read() };
    // SAFETY: a light worker has a record.
    let record = unsafe { &*worker.record.load(Relaxed) };
    run(worker, || uth::bounded(record, f));
    end(worker)
}

/// Called first by a light worker's entry function, with its argument.
///
/// # Safety
/// As it says.
#[inline(always)]
pub(crate) unsafe fn arrive(worker: *mut ()) -> &'static Worker {
    // SAFETY: `carve` passed the worker, which lives as long as this stack.
    let worker: &'static Worker = unsafe { &*worker.cast::<Worker>() };
    // SAFETY: first thing on the new stack.
    unsafe { Flow::arrive(worker.flow()) };
    if let Some(block) = worker.block() {
        // SAFETY: the worker runs with its block.
        unsafe { block.begin() };
    }
    worker
}

/// Calls `f`, the function of the calling worker, which may be preempted from here on. A panic that
/// leaves `f` ends the process. A storage of the worker's own ends with `f`: destructors of
/// thread-locals run, and the worker uses none afterwards.
pub(crate) fn run(worker: &'static Worker, f: impl FnOnce()) {
    drop(Inside(worker));
    // SAFETY: a light worker has a record.
    let record = unsafe { &*worker.record.load(Relaxed) };
    uth::caught(record, f);
    if let Some(block) = worker.block() {
        // SAFETY: the worker runs with its block.
        unsafe { block.finish() };
    }
}

fn end(worker: &'static Worker) -> ! {
    while blocking::end(worker) {}
    let CallerRole::Worker(inside, server) = caller() else {
        // If this worker was the only thread of a forked child, the child ends with it, as with any
        // last thread.
        std::process::exit(0)
    };
    std::mem::forget(inside);
    // SAFETY: the caller is the worker, running, inside. Its server recycles the stack, so this
    // never returns.
    unsafe { worker.leave(server, EventKind::Exit, None) };
    std::process::abort()
}

/// The worker's server has seen it exit: recycles its stack, and its descriptor with it.
#[inline]
pub(crate) fn settle_exit(worker: &'static Worker) {
    discard(worker);
}

/// Recycles the stack and descriptor of a worker that no longer runs. No destructors run for its
/// frames.
pub(crate) fn discard(worker: &Worker) {
    let tid = worker.node.tid();
    if tid != 0 {
        WORKERS.set(tid, None);
        TIDS.lock().0.push(tid);
    }
    worker.node.set_state(state::GONE);
    // SAFETY: a light worker has a record; nothing runs on its stack any more.
    let record = unsafe { &*worker.record.load(Relaxed) };
    let _hold = Hold::begin();
    let vp = Vp::here();
    if let Some(block) = worker.disown() {
        match vp {
            Some(vp) => vp.give_block(block),
            None => storage::give(block),
        }
    }
    // SAFETY: as above.
    unsafe { uth::discard(vp, record) };
}

/// Calls `f` with each light worker that has not ended.
pub(crate) fn each(f: &mut dyn FnMut(&'static Worker)) {
    umcg_context::stack::each(&mut |top| {
        // SAFETY: the tops of stacks are for records, or zeros, and are never unmapped.
        let record = unsafe { UthRecord::at_top(top) };
        if record.state.load(Relaxed) != uth::record::state::WORKER
            || record.extension.load(Relaxed).is_null()
        {
            return;
        }
        // SAFETY: the extension of such a record is a worker.
        let worker: &'static Worker = unsafe { &*record.extension_place().cast::<Worker>() };
        if worker.node.state() != state::GONE {
            f(worker);
        }
    });
}

/// Calls `f` with the addresses at which a suspended worker's functions continue, from the
/// innermost outwards, until it breaks. Does nothing if its stack has no room for the look, nor
/// under sanitizers.
///
/// # Safety
/// The worker is suspended and no server runs it. `f` does not unwind.
pub(crate) unsafe fn callers(
    worker: &'static Worker,
    room: usize,
    f: &mut dyn FnMut(usize) -> ControlFlow<()>,
) {
    // SAFETY: a light worker has a record.
    let record = unsafe { &*worker.record.load(Relaxed) };
    // SAFETY: no server runs the worker, so its context does not change.
    let context = unsafe { &*worker.context.get() };
    let low = context.stack_pointer();
    if umcg_context::annotate::ON || low.saturating_sub(record.stack_base() as usize) < room {
        return;
    }
    let mut look = || {
        each_caller(&mut |caller| {
            // The frames below are those of the look.
            if caller.stack_pointer >= low && caller.pc != 0 {
                f(caller.pc)
            } else {
                ControlFlow::Continue(())
            }
        });
    };
    // SAFETY: no server runs the worker, and there is room. No sanitizer is told.
    unsafe { inspect((null_mut(), null_mut()), context, &mut look) };
}

/// Takes the lock of the tids. In a forked child no tid names a light worker.
pub(crate) fn before_fork() {
    TIDS.take();
}

/// # Safety
/// Called once after each `before_fork`, by the thread that called that.
pub(crate) unsafe fn forked() {
    // SAFETY: passed on.
    drop(unsafe { TIDS.adopt() });
}
