//! The state of an adopted thread at its home. Its meaning: [`adopted`](super::adopted).

use super::summons::Summons;
use crate::base::call::call;
use crate::base::sync::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use std::ffi::c_int;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;

/// Wakes a home thread: a signal that programs do not use.
pub(crate) const GO: c_int = libc::SIGSTKFLT;
/// The part of a home that only adopted threads use.
pub(crate) struct Adoption {
    pub(super) is_adopted: AtomicBool,
    /// The [`Step`] with which the worker leaves.
    pub(super) step: AtomicPtr<()>,
    /// M2. Belongs to the worker.
    pub(super) is_closed: AtomicBool,
    /// Why the worker, while it is away, has to go home.
    pub(super) summons: Summons,
    /// The home has found a signal that the worker blocked.
    pub(super) has_blocked: AtomicBool,
    /// The kernel thread may have signals that came to the process, sent again to itself.
    pub(super) owes: AtomicBool,
    /// Signals that came when the program had a handler for them, and that are sent, or sent again,
    /// to the kernel thread.
    pub(super) kept: AtomicU64,
    /// The signals that the home thread is to look for.
    pub(super) wanted: AtomicU64,
    /// Those that it looks for just now.
    pub(super) watched: AtomicU64,
    /// Whether the worker stays at home, until when, and how many faults it had before. See
    /// [`stay`](super::stay).
    pub(super) stays: AtomicBool,
    pub(super) stays_until: AtomicU64,
    pub(super) faults_before: AtomicU64,
    /// Bits of [`NativeReason`](super::stay::NativeReason).
    pub(super) native: AtomicU32,
    /// The next in [`CALLED`], and whether it is there.
    pub(super) next: AtomicPtr<()>,
    pub(super) is_listed: AtomicBool,
    // Of homes that outlive their threads, see [`homes`](super::homes).
    /// It has no thread.
    pub(super) rests: AtomicBool,
    /// Something was done to the kernel thread from outside; also to what its children inherit.
    pub(super) is_marked: AtomicBool,
    pub(super) is_changed: AtomicBool,
    /// The kernel thread is to end.
    pub(super) retires: AtomicBool,
    /// The thread pointer of the kernel thread; 0 if it never was another one.
    pub(super) storage: AtomicUsize,
    /// 0 once the kernel thread is gone. Written by the kernel.
    pub(super) alive: AtomicU32,
    /// The next of those that are ending.
    pub(super) next_retired: AtomicPtr<()>,
}

impl Adoption {
    pub(crate) fn new() -> Adoption {
        Adoption {
            is_adopted: AtomicBool::new(false),
            step: AtomicPtr::new(null_mut()),
            is_closed: AtomicBool::new(false),
            summons: Summons::new(),
            has_blocked: AtomicBool::new(false),
            owes: AtomicBool::new(false),
            kept: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            watched: AtomicU64::new(0),
            stays: AtomicBool::new(false),
            stays_until: AtomicU64::new(0),
            faults_before: AtomicU64::new(0),
            native: AtomicU32::new(0),
            next: AtomicPtr::new(null_mut()),
            is_listed: AtomicBool::new(false),
            rests: AtomicBool::new(false),
            is_marked: AtomicBool::new(false),
            is_changed: AtomicBool::new(false),
            retires: AtomicBool::new(false),
            storage: AtomicUsize::new(0),
            alive: AtomicU32::new(0),
            next_retired: AtomicPtr::new(null_mut()),
        }
    }

    /// The worker is another thread's from now on.
    pub(super) fn forget_last(&self) {
        self.summons.forget();
        self.stays.store(false, Relaxed);
        self.native.store(0, Relaxed);
        self.is_closed.store(false, Relaxed);
        self.has_blocked.store(false, Relaxed);
    }

    /// Whether this is the home of an adopted thread.
    #[inline(always)]
    pub(super) fn is_adopted(&self) -> bool {
        self.is_adopted.load(Relaxed)
    }
}

/// Wakes the home thread with this tid.
pub(super) fn wake(tid: u32) {
    let arguments = [process(), tid as usize, GO as usize, 0, 0, 0];
    // SAFETY: a signal to a thread that blocks it, or ended.
    unsafe { call(libc::SYS_tgkill, arguments) };
}

/// The id of the process.
pub(super) fn process() -> usize {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) as usize }
}
