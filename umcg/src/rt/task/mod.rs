//! The descriptor of what can park: a worker of a runtime, or a plain thread.
//!
//! A worker's lies in the upper part of its light worker's descriptor, at the top of its stack; a
//! thread's is on the heap. Neither is ever freed, only used again: so a [`Handle`]
//! is a plain pointer, and one that has outlived its worker can do no more harm than wake up,
//! without a reason, whoever has the descriptor now. All waits look again when they are woken, so
//! that is none.
//!
//! # Who may touch which field when
//!
//! - `state`: anyone, as the protocol of `park` says. `join`: as that of `join` says.
//! - `next`, `before`: who has the [`Runnable`], that is, the queue that it stands
//!   in.
//! - `hints`, `shared`, `runtime`: who made the worker, before it is ready.
//! - `reason`, `scope`, `result`, `locals`, `depth`: the worker; its maker before it is ready; who
//!   has the right to run it after it has ended.
//! - `cancel`, `waits_at`: see `cancel`. `waiter`, `left`, `asleep`, `interrupted`: see `wait`.
//! - `patience`: the thread.

pub(crate) mod handle;
pub(crate) mod heap;
pub(crate) mod locals;
pub(crate) mod runnable;
pub(crate) mod thread;

pub use handle::Handle;
pub use runnable::{Queue, Runnable};

use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};
use umcg_core::raw;

/// What a scheduler may know of a worker.
pub(crate) struct Hints {
    /// 255 is the most urgent.
    pub(crate) priority: AtomicU8,
    /// The server that it should run on, or [`NO_SERVER`].
    pub(crate) server: AtomicU16,
    /// When it should be done, as `time::nanos` counts; `u64::MAX` for whenever.
    pub(crate) deadline: AtomicU64,
}

/// In `state`: it runs, and no signal is remembered. See `park`.
pub(crate) const EMPTY: u32 = 0;
/// In `join`: the worker has not ended, and nobody waits for that. See `joined`.
pub(crate) const NOT_ENDED: usize = 0;

/// A runtime, as the descriptors of its workers keep it.
#[derive(Clone, Copy)]
pub(crate) struct RuntimeOf {
    /// The address of its state.
    pub(crate) state: *mut (),
    pub(crate) number: u32,
}

pub(crate) const NO_SERVER: u16 = u16::MAX;
pub(crate) const DEFAULT_PRIORITY: u8 = 128;

/// The descriptor.
#[repr(C, align(64))]
pub(crate) struct Task {
    pub(crate) state: AtomicU32,
    /// Asked to end, from this depth of cancel scopes on: 0 for not at all, 1 for the whole worker.
    pub(crate) cancel: AtomicU32,
    pub(crate) join: AtomicUsize,
    pub(crate) next: AtomicPtr<Task>,
    pub(crate) before: AtomicPtr<Task>,
    pub(crate) shared: AtomicPtr<()>,
    /// Its worker, as a word.
    pub(crate) carrier: AtomicPtr<()>,
    pub(crate) hints: Hints,
    // Second line: nothing that a hop needs.
    pub(crate) result: AtomicPtr<()>,
    /// Where it waits by another protocol than `park`, or null.
    pub(crate) waits_at: AtomicPtr<AtomicUsize>,
    /// How many cancel scopes it is in. In the high half: how many sections without cancellation.
    pub(crate) depth: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) reason: AtomicPtr<&'static str>,
    pub(crate) scope: AtomicPtr<()>,
    pub(crate) locals: AtomicPtr<()>,
    /// That of its runtime, or of the one that it ended in.
    pub(crate) runtime: AtomicU32,
    /// See `wait`.
    pub(crate) waiter: AtomicPtr<()>,
    pub(crate) left: AtomicU32,
    pub(crate) asleep: AtomicU32,
    pub(crate) interrupted: AtomicBool,
    /// How long it looks, as a thread, before it sleeps: see `wait`.
    pub(crate) patience: AtomicU32,
}

const _: () = assert!(size_of::<Task>() <= raw::UPPER_BYTES && align_of::<Task>() <= 64);

/// In `flags`: it is a worker's that has not ended; it has its runtime's usual stack, and no name,
/// so that it can be used again as it is; with storage of its own.
pub(crate) const IS_WORKER: u32 = 1;
pub(crate) const IS_PLAIN: u32 = 2;
pub(crate) const IS_FULL: u32 = 4;
/// It is a pthread, and its packet lies on the heap.
pub(crate) const IS_THREAD: u32 = 8;

/// The kinds of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    Light,
    Full,
}

impl WorkerKind {
    /// The flags of a worker of this kind.
    #[inline(always)]
    pub(crate) const fn flags(self, is_plain: bool) -> u32 {
        let plain = if is_plain { IS_PLAIN } else { 0 };
        IS_WORKER
            | plain
            | if matches!(self, WorkerKind::Full) {
                IS_FULL
            } else {
                0
            }
    }
}

impl Task {
    /// That of a plain thread.
    pub(crate) fn of_thread() -> Task {
        Task {
            state: AtomicU32::new(EMPTY),
            cancel: AtomicU32::new(0),
            join: AtomicUsize::new(0),
            next: AtomicPtr::new(null_mut()),
            before: AtomicPtr::new(null_mut()),
            shared: AtomicPtr::new(null_mut()),
            carrier: AtomicPtr::new(null_mut()),
            result: AtomicPtr::new(null_mut()),
            hints: Hints {
                priority: AtomicU8::new(DEFAULT_PRIORITY),
                server: AtomicU16::new(NO_SERVER),
                deadline: AtomicU64::new(u64::MAX),
            },
            waits_at: AtomicPtr::new(null_mut()),
            depth: AtomicU32::new(0),
            flags: AtomicU32::new(0),
            reason: AtomicPtr::new(null_mut()),
            scope: AtomicPtr::new(null_mut()),
            locals: AtomicPtr::new(null_mut()),
            runtime: AtomicU32::new(0),
            waiter: AtomicPtr::new(null_mut()),
            left: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            interrupted: AtomicBool::new(false),
            patience: AtomicU32::new(0),
        }
    }

    /// The descriptor of a new light worker, made that of a worker of this runtime.
    #[inline]
    pub(crate) fn place(worker: raw::Worker, runtime: RuntimeOf, flags: u32) -> &'static Task {
        // SAFETY: the upper part of a light worker of the runtime's holds a Task for ever, for
        // which zeros are valid; it is never unmapped.
        let task: &'static Task = unsafe { &*worker.upper().cast::<Task>() };
        task.carrier.store(worker.into_ptr(), Relaxed);
        task.renew(runtime, flags);
        task
    }

    /// Makes the descriptor that of a new worker.
    #[inline]
    pub(crate) fn renew(&self, runtime: RuntimeOf, flags: u32) {
        self.shared.store(runtime.state, Relaxed);
        self.runtime.store(runtime.number, Relaxed);
        self.hints.priority.store(DEFAULT_PRIORITY, Relaxed);
        self.hints.server.store(NO_SERVER, Relaxed);
        self.hints.deadline.store(u64::MAX, Relaxed);
        self.locals.store(null_mut(), Relaxed);
        self.begin(flags);
    }

    /// Makes the descriptor of a worker that has ended, and whose handle is used up, that of a new
    /// one. What every worker leaves as it should be is left out.
    #[inline(always)]
    pub(crate) fn begin(&self, flags: u32) {
        // By atomics only: somebody may be looking at it by a stale handle.
        self.state.store(EMPTY, Relaxed);
        self.cancel.store(0, Relaxed);
        self.depth.store(0, Relaxed);
        self.scope.store(null_mut(), Relaxed);
        self.join.store(NOT_ENDED, Relaxed);
        self.result.store(null_mut(), Relaxed);
        self.waits_at.store(null_mut(), Relaxed);
        self.reason.store(null_mut(), Relaxed);
        self.waiter.store(null_mut(), Relaxed);
        self.flags.store(flags, Relaxed);
    }

    /// The task of a worker of a runtime.
    #[inline(always)]
    pub(crate) fn of(worker: raw::Worker) -> &'static Task {
        // SAFETY: a runtime's group has workers of the runtime only, whose ids are the addresses of
        // their tasks.
        unsafe { &*(worker.id() as *const Task) }
    }

    /// The worker that it is the descriptor of.
    #[inline(always)]
    pub(crate) fn worker(&'static self) -> raw::Worker {
        // SAFETY: asked of workers' tasks only, which have their workers from the beginning, or
        // since a server got their first event.
        unsafe { raw::Worker::from_ptr(self.carrier.load(Relaxed)) }
    }

    pub(crate) fn is_worker(&self) -> bool {
        self.flags.load(Relaxed) & IS_WORKER != 0
    }

    /// Whether somebody may come to end what it waits for: it is a worker's, or a thread's that is
    /// in a cancel scope.
    pub(crate) fn may_be_revoked(&self) -> bool {
        self.is_worker() || self.depth.load(Relaxed) != 0
    }

    /// What it waits for, in a word.
    pub(crate) fn reason(&self) -> &'static str {
        // SAFETY: null or a place for ever, as its type says.
        unsafe { self.reason.load(Relaxed).as_ref() }
            .copied()
            .unwrap_or("")
    }

    #[inline(always)]
    pub(crate) fn set_reason(&self, reason: &'static &'static str) {
        self.reason
            .store((reason as *const &'static str).cast_mut(), Relaxed);
    }
}
