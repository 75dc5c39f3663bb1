//! The descriptor of anything that can park: a worker of a runtime, or a plain thread.
//!
//! A worker's descriptor lies in the upper part of its light worker's descriptor, at the top of its
//! stack. A thread's descriptor is on the heap. Neither is ever freed, only reused. So a [`Handle`]
//! is a plain pointer. A handle that has outlived its worker can only wake the current user of the
//! descriptor without a reason. That is harmless: every wait checks its condition again when it is
//! woken.
//!
//! # Access to each field
//!
//! - `state`: any thread, by the protocol of `park`. `join`: any thread, by the protocol of
//!   `joined`.
//! - `next`, `before`, `virtual_time`: the owner of the [`Runnable`], that is, the queue that holds
//!   it.
//! - `hints`, `shared`, `runtime`: the maker of the worker, before the worker is ready.
//! - `reason`, `scope`, `result`, `locals`, `depth`: the worker; its maker before it is ready;
//!   after it has ended, the holder of the right to run it.
//! - `cancel`, `waits_at`: see `cancel`. `waiter`, `departed`, `asleep`, `interrupted`: see `wait`.
//! - `patience`: the thread. `second_looks`: the worker. `since`: the server that the worker has
//!   left, before the step. `used`: any thread.

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

/// The hints about a worker that a scheduler may read.
pub(crate) struct Hints {
    /// 255 is the most urgent.
    pub(crate) priority: AtomicU8,
    /// The server that it should run on, or [`NO_SERVER`].
    pub(crate) server: AtomicU16,
    /// When it should be done, in nanoseconds of `time::nanos`; `u64::MAX` for no deadline.
    pub(crate) deadline: AtomicU64,
}

/// Value of `state`: running, no signal remembered. See `park`.
pub(crate) const EMPTY: u32 = 0;
/// Value of `join`: the worker has not ended, and no party waits for its end. See `joined`.
pub(crate) const NOT_ENDED: usize = 0;

/// A runtime, as the descriptors of its workers store it.
#[derive(Clone, Copy)]
pub(crate) struct RuntimeOf {
    /// The address of the runtime's state.
    pub(crate) state: *mut (),
    pub(crate) number: u32,
}

pub(crate) const NO_SERVER: u16 = u16::MAX;
pub(crate) const DEFAULT_PRIORITY: u8 = 128;

/// The descriptor of a worker or thread.
#[repr(C, align(64))]
pub(crate) struct Task {
    pub(crate) state: AtomicU32,
    /// The depth of cancel scopes from which on it is asked to end: 0 for no request, 1 for the
    /// whole worker.
    pub(crate) cancel: AtomicU32,
    pub(crate) join: AtomicUsize,
    pub(crate) next: AtomicPtr<Task>,
    pub(crate) before: AtomicPtr<Task>,
    pub(crate) shared: AtomicPtr<()>,
    /// The worker that this descriptor belongs to, as a word.
    pub(crate) carrier: AtomicPtr<()>,
    pub(crate) hints: Hints,
    // Second line: fields that a hop does not need.
    pub(crate) result: AtomicPtr<()>,
    /// The word that it waits at, if it waits by another protocol than `park`; else null.
    pub(crate) waits_at: AtomicPtr<AtomicUsize>,
    /// Low half: how many cancel scopes it is in. High half: how many sections without
    /// cancellation.
    pub(crate) depth: AtomicU32,
    pub(crate) flags: AtomicU32,
    pub(crate) reason: AtomicPtr<&'static str>,
    pub(crate) scope: AtomicPtr<()>,
    pub(crate) locals: AtomicPtr<()>,
    /// The number of its runtime, or of the runtime that it ended in.
    pub(crate) runtime: AtomicU32,
    /// See `wait`.
    pub(crate) waiter: AtomicPtr<()>,
    pub(crate) departed: AtomicU32,
    pub(crate) asleep: AtomicU32,
    pub(crate) interrupted: AtomicBool,
    /// See `cut`.
    pub(crate) is_cut: AtomicBool,
    /// For a guest: it was preempted, and has woken no other one since then.
    pub(crate) was_preempted: AtomicBool,
    /// See `scheduler::preempted`.
    pub(crate) virtual_time: AtomicU64,
    /// For a thread: how long it spins before it sleeps. See `wait`.
    pub(crate) patience: AtomicU32,
    /// See `wait::second_look`.
    pub(crate) second_looks: AtomicU32,
    /// For a guest: when it left its server, if the server's loop has seen that.
    pub(crate) since: AtomicU64,
    /// For a guest: the processor time that it has used on servers, as far as it was counted, in
    /// nanoseconds.
    pub(crate) used: AtomicU64,
}

const _: () = assert!(size_of::<Task>() <= raw::UPPER_BYTES && align_of::<Task>() <= 64);

/// Flags. `IS_WORKER`: belongs to a worker that has not ended. `IS_PLAIN`: has its runtime's usual
/// stack and no name, so it can be reused as it is. `IS_FULL`: has storage of its own.
pub(crate) const IS_WORKER: u32 = 1;
pub(crate) const IS_PLAIN: u32 = 2;
pub(crate) const IS_FULL: u32 = 4;
/// Flag: the worker is a pthread, and its packet lies on the heap.
pub(crate) const IS_THREAD: u32 = 8;

/// The kinds of a runtime's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    /// A light worker without a block, which `spawn_light` makes.
    Sharing,
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
    /// The descriptor of a plain thread.
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
            departed: AtomicU32::new(0),
            asleep: AtomicU32::new(0),
            interrupted: AtomicBool::new(false),
            is_cut: AtomicBool::new(false),
            was_preempted: AtomicBool::new(false),
            virtual_time: AtomicU64::new(0),
            patience: AtomicU32::new(0),
            second_looks: AtomicU32::new(0),
            since: AtomicU64::new(0),
            used: AtomicU64::new(0),
        }
    }

    /// Sets up the descriptor of a new light worker for a worker of this runtime.
    #[inline]
    pub(crate) fn place(worker: raw::Worker, runtime: RuntimeOf, flags: u32) -> &'static Task {
        // SAFETY: the upper part of a light worker of the runtime always holds a Task. Zeros are
        // valid for it, and it is never unmapped.
        let task: &'static Task = unsafe { &*worker.upper().cast::<Task>() };
        task.carrier.store(worker.into_ptr(), Relaxed);
        task.renew(runtime, flags);
        task
    }

    /// Resets the descriptor for a new worker.
    #[inline]
    pub(crate) fn renew(&self, runtime: RuntimeOf, flags: u32) {
        self.shared.store(runtime.state, Relaxed);
        self.runtime.store(runtime.number, Relaxed);
        self.hints.priority.store(DEFAULT_PRIORITY, Relaxed);
        self.hints.server.store(NO_SERVER, Relaxed);
        self.hints.deadline.store(u64::MAX, Relaxed);
        self.locals.store(null_mut(), Relaxed);
        self.is_cut.store(false, Relaxed);
        self.was_preempted.store(false, Relaxed);
        self.virtual_time.store(0, Relaxed);
        self.begin(flags);
    }

    /// Resets the descriptor of an ended worker, whose handle is used up, for a new worker. Fields
    /// that are already correct are not reset.
    #[inline(always)]
    pub(crate) fn begin(&self, flags: u32) {
        // Atomics only: another thread may be reading it by a stale handle.
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

    /// The worker that this descriptor belongs to.
    #[inline(always)]
    pub(crate) fn worker(&'static self) -> raw::Worker {
        // SAFETY: called on workers' tasks only. They have their worker from the beginning, or
        // since a server got their first event.
        unsafe { raw::Worker::from_ptr(self.carrier.load(Relaxed)) }
    }

    pub(crate) fn is_worker(&self) -> bool {
        self.flags.load(Relaxed) & IS_WORKER != 0
    }

    /// True if its wait may be cut short: it is a worker's descriptor, or that of a thread in a
    /// cancel scope.
    pub(crate) fn may_be_revoked(&self) -> bool {
        self.is_worker() || self.depth.load(Relaxed) != 0
    }

    /// The reason of its wait, in a word.
    pub(crate) fn reason(&self) -> &'static str {
        // SAFETY: the pointer is null or valid for ever, as its type says.
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
