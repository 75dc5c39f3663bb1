//! Virtual processors: kernel threads that run uths.
//!
//! A virtual processor belongs to a thread-local storage, by the word [`local::vp`]: the storage of
//! the kernel thread, or of the thread worker, that called `vp_init`. Descriptors are recycled and
//! never freed, so that `current_on` may read another thread's. Only the thread itself changes its
//! virtual processor.

use super::record::{UthRecord, state};
use super::{Method, UthError};
use crate::base::page_offset;
use crate::base::table::RefTable;
use crate::storage;
use std::cell::UnsafeCell;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering::*};
use umcg_context::annotate::{self, Flow, StackId};
use umcg_context::local;
use umcg_context::lock::HoldLock;
use umcg_context::pool::StackPool;
use umcg_context::stack::{SizeClass, Stack};

#[repr(C)]
pub(crate) struct Vp {
    /// The flow of the kernel thread itself. First: see `page_offset`.
    pub(crate) native: UthRecord,
    /// The uth that runs here.
    pub(crate) current: AtomicPtr<UthRecord>,
    rank: AtomicU32,
    /// The state of a uth that may run here next: suspended, by this processor's method.
    pub(crate) ready: AtomicU8,
    pool: UnsafeCell<StackPool>,
    blocks: UnsafeCell<storage::BlockPool>,
    /// Valgrind's name of the kernel thread's stack.
    stack_id: UnsafeCell<Option<StackId>>,
}

// SAFETY: only the processor's own thread touches `pool`, `blocks` and `stack_id` (`here` gives it
// the descriptor); the rest are atomics.
unsafe impl Sync for Vp {}

static RANKS: RefTable<Vp> = RefTable::new();
/// Descriptors that are not in use.
pub(crate) static SPARE: HoldLock<Vec<&'static Vp>> = HoldLock::new(Vec::new());

/// Called in a forked child, which has no processor but the caller's, if the caller has one.
pub(crate) fn forked_in_child() {
    let own = Vp::here().map(|vp| vp as *const Vp);
    RANKS.retain(|vp| own == Some(vp as *const Vp));
}

impl Vp {
    /// The virtual processor of the calling thread.
    #[inline(always)]
    pub(crate) fn here() -> Option<&'static Vp> {
        // SAFETY: the word is null or was set by `init`, and descriptors are never freed.
        unsafe { local::vp().cast::<Vp>().as_ref() }
    }

    pub(crate) fn of_rank(rank: u32) -> Option<&'static Vp> {
        RANKS.get(rank)
    }

    pub(crate) fn rank(&self) -> u32 {
        self.rank.load(Relaxed)
    }

    pub(crate) fn method(&self) -> Method {
        Method::from_u8(self.ready.load(Relaxed) - state::READY)
    }

    /// Makes the calling thread, which is none yet, a virtual processor. `prepare` gives the
    /// thread's own flow the memory that the method needs.
    pub(crate) fn init(
        rank: Option<u32>,
        method: Method,
        prepare: fn(&UthRecord, Method),
    ) -> Result<&'static Vp, UthError> {
        let spare = SPARE.lock().pop();
        let vp = spare.unwrap_or_else(|| page_offset::leak_at(page_offset::PROCESSOR, Vp::new()));
        if let Err(error) = vp.claim_rank(rank) {
            SPARE.lock().push(vp);
            return Err(error);
        }
        prepare(&vp.native, method);
        vp.ready.store(state::READY + method as u8, Relaxed);
        // SAFETY: the processor is ours alone. Its last user may have been another kernel thread.
        unsafe { vp.native.flow.get().write(Flow::of_this_thread()) };
        vp.native.state.store(state::READY + method as u8, Relaxed);
        vp.native.belongs_to(vp);
        vp.current.store((&raw const vp.native).cast_mut(), Relaxed);
        // SAFETY: as above.
        unsafe { vp.stack_id.get().write(annotate::thread_started()) };
        local::set_vp((vp as *const Vp).cast_mut().cast());
        Ok(vp)
    }

    fn new() -> Vp {
        Vp {
            current: AtomicPtr::new(null_mut()),
            rank: AtomicU32::new(0),
            ready: AtomicU8::new(state::READY),
            pool: UnsafeCell::new(StackPool::new()),
            blocks: UnsafeCell::new(storage::BlockPool::new()),
            stack_id: UnsafeCell::new(None),
            native: UthRecord::native(),
        }
    }

    fn claim_rank(&'static self, rank: Option<u32>) -> Result<(), UthError> {
        if let Some(rank) = rank {
            self.rank.store(rank, Relaxed);
            return if RANKS.claim(rank, self) {
                Ok(())
            } else {
                Err(UthError::RankTaken)
            };
        }
        // Takes the lowest free rank, as the kernel does with descriptors.
        for rank in 0..u32::MAX {
            if RANKS.get(rank).is_none() {
                self.rank.store(rank, Relaxed);
                if RANKS.claim(rank, self) {
                    return Ok(());
                }
            }
        }
        Err(UthError::OutOfMemory)
    }

    /// Makes the calling thread a plain thread again. `release` frees the memory that `prepare`
    /// gave.
    pub(crate) fn exit(release: fn(&UthRecord)) -> Result<(), UthError> {
        let vp = Vp::here().ok_or(UthError::NoVp)?;
        if !std::ptr::eq(vp.current.load(Relaxed), &vp.native) {
            return Err(UthError::NotCurrent);
        }
        // SAFETY: this is the processor's own thread, and no other borrow of the pool is alive.
        drop(std::mem::take(unsafe { &mut *vp.pool.get() }));
        // SAFETY: as above.
        drop(std::mem::take(unsafe { &mut *vp.blocks.get() }));
        // SAFETY: as above.
        annotate::thread_ended(unsafe { (*vp.stack_id.get()).take() });
        local::set_vp(null_mut());
        vp.current.store(null_mut(), Relaxed);
        vp.native.retire(state::DELETED);
        release(&vp.native);
        RANKS.set(vp.rank(), None);
        SPARE.lock().push(vp);
        Ok(())
    }

    /// Gives the contents of the pools to all threads. Called by its own thread, which holds.
    pub(crate) fn share_pools(&self) {
        // SAFETY: as `exit`.
        drop(std::mem::take(unsafe { &mut *self.pool.get() }));
        // SAFETY: as `exit`.
        drop(std::mem::take(unsafe { &mut *self.blocks.get() }));
    }

    /// Takes a stack from the processor's pool. Called by its own thread, which holds.
    #[inline]
    pub(crate) fn take_stack(&self, class: SizeClass) -> Result<Stack, UthError> {
        // SAFETY: as `exit`.
        let pool = unsafe { &mut *self.pool.get() };
        Ok(pool.take(class)?)
    }

    /// Gives a stack to the processor's pool. Called by its own thread, which holds.
    #[inline]
    pub(crate) fn give_stack(&self, stack: Stack) {
        // SAFETY: as `exit`.
        let pool = unsafe { &mut *self.pool.get() };
        pool.give(stack);
    }

    /// Takes a worker's storage from the processor's pool. Called by its own thread, which holds.
    #[inline]
    pub(crate) fn take_block(&self) -> Result<storage::Block, storage::StorageError> {
        // SAFETY: as `exit`.
        let pool = unsafe { &mut *self.blocks.get() };
        pool.take()
    }

    /// Gives a worker's storage to the processor's pool. Called by its own thread, which holds.
    #[inline]
    pub(crate) fn give_block(&self, block: storage::Block) {
        // SAFETY: as `exit`.
        let pool = unsafe { &mut *self.blocks.get() };
        pool.give(block);
    }
}
