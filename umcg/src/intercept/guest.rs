//! Guests: the program's threads, as the layer of interception sees them.
//!
//! Each thread of the program has a state from its first instruction on: its maker gives it one.
//! Threads of the library's own have none, and their system calls pass.
//!
//! A guest begins as a plain thread. When it first has to wait for a word, it is *adopted*: it
//! becomes a worker of the runtime, at home (`rt/engine/guest.rs`).
//!
//! # Inside
//!
//! While a guest is *inside*, in this layer, it is not preempted, its own system calls pass (they
//! come from functions of the C library that this layer uses), and no handler of the program's
//! runs: a signal that comes is kept for the moment when the guest leaves. So no handler sees a
//! lock of ours taken.
//!
//! - G1: the guest's kernel thread blocks all signals from such a signal on: it is *closed*. The
//!   guest's own mask is kept; for an adopted guest with its home (`raw::Adopted`), else here.
//! - G2: a guest that leaves first stores that it is outside and then looks whether it is closed:
//!   then it enters again and opens. So no signal is forgotten.

use super::notes::Notes;
use super::stand::Standing;
use super::stats::Counts;
use crate::rt::engine::guest;
use crate::rt::task::{Task, thread as descriptor};
use crate::rt::wait::cut;
use std::mem::offset_of;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering::*, compiler_fence,
};
use umcg_core::context::local::{self, Words};
use umcg_core::context::lock::Lock;
use umcg_core::raw::{self, Adopted};
use umcg_core::{GuestHead, call, try_box};

/// The state of a guest. The guest itself touches it, and its handlers of signals; before its first
/// instruction, its maker.
#[repr(C)]
pub(super) struct Guest {
    /// First: the layer below reads it.
    head: GuestHead,
    /// G1, for a guest that is not adopted.
    is_closed: AtomicBool,
    mask: AtomicU64,
    /// Signals that came when the program had a handler for them, and were sent again to the
    /// guest's kernel thread by the guest itself. Of an adopted guest its home has others.
    kept: AtomicU64,
    /// The mask before the guest last blocked all signals, as the C library does at a thread's end.
    pub(super) mask_before: AtomicU64,
    /// Whether a child may be the caller that has this storage: [`NO_CHILD`] and its like.
    children: AtomicU8,
    /// Its kernel thread; 0 if not asked yet.
    tid: AtomicU32,
    /// How many of the program's handlers have run, and how many of them without SA_RESTART.
    pub(super) handled: AtomicU32,
    pub(super) cut: AtomicU32,
    pub(super) counts: Counts,
    pub(super) home: Notes,
    /// Why it is, or was last, off a server.
    pub(super) stand: Standing,
    /// Its worker, while it is adopted; else null. Read by other threads.
    pub(super) worker: AtomicPtr<()>,
    /// A number that no other thread of the process has had; 0 if no thread has the state.
    pub(super) serial: AtomicU32,
    /// The next of all states.
    next_of_all: AtomicPtr<Guest>,
    /// How many times it has woken others.
    wakes: AtomicU32,
    /// How many times on end it has given way at home, and after how many it goes to a server.
    pauses: AtomicU32,
    most_pauses: AtomicU32,
    /// The descriptor that it waits with as a thread, if it cannot be adopted; else null.
    thread: AtomicPtr<Task>,
    /// For that. It is made with the state: a wait must not fail for want of memory.
    own: Task,
    next: AtomicPtr<Guest>,
}

/// No child shares the guest's storage.
const NO_CHILD: u8 = 0;
/// One does, while the guest sleeps.
const IN_VFORK: u8 = 1;
/// Some may, for as long as the guest lives: nothing tells when they end.
const BESIDE: u8 = 2;

/// The process of the guests.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn process() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Notes which process is that of the guests. Called once, before there is a guest.
pub(super) fn note_process() {
    PROCESS.store(process(), Relaxed);
}

/// States of threads that have ended.
static SPARE: Lock<AtomicPtr<Guest>> = Lock::new(AtomicPtr::new(null_mut()));
/// The process is a child of a fork: nothing is intercepted.
static IS_ASIDE: AtomicBool = AtomicBool::new(false);

impl Guest {
    /// The state for a thread that is about to begin. None if there is no memory for one.
    pub(super) fn make() -> Option<&'static Guest> {
        let spare = {
            let first = SPARE.lock();
            let spare = first.load(Relaxed);
            // SAFETY: null, or a state, which is never freed.
            if let Some(guest) = unsafe { spare.as_ref() } {
                first.store(guest.next.load(Relaxed), Relaxed);
            }
            spare
        };
        // SAFETY: as above.
        let guest = match unsafe { spare.as_ref() } {
            Some(guest) => guest,
            None => enlist(Box::leak(try_box(Guest {
                head: GuestHead::default(),
                is_closed: AtomicBool::new(false),
                mask: AtomicU64::new(0),
                kept: AtomicU64::new(0),
                mask_before: AtomicU64::new(0),
                children: AtomicU8::new(NO_CHILD),
                tid: AtomicU32::new(0),
                handled: AtomicU32::new(0),
                cut: AtomicU32::new(0),
                counts: Counts::default(),
                home: Notes::default(),
                stand: Standing::default(),
                worker: AtomicPtr::new(null_mut()),
                serial: AtomicU32::new(0),
                next_of_all: AtomicPtr::new(null_mut()),
                wakes: AtomicU32::new(0),
                pauses: AtomicU32::new(0),
                most_pauses: AtomicU32::new(0),
                thread: AtomicPtr::new(null_mut()),
                own: Task::of_thread(),
                next: AtomicPtr::new(null_mut()),
            })?)),
        };
        guest.head.note_home(false);
        guest.head.is_inside.store(false, Relaxed);
        guest.head.note_mask(0);
        guest.is_closed.store(false, Relaxed);
        guest.kept.store(0, Relaxed);
        guest.children.store(NO_CHILD, Relaxed);
        guest.tid.store(0, Relaxed);
        guest.thread.store(null_mut(), Relaxed);
        descriptor::forget(&guest.own);
        guest.home.reset();
        guest.stand.reset();
        guest.serial.store(next_serial(), Relaxed);
        Some(guest)
    }

    /// Makes this the state of the calling thread.
    pub(super) fn begin(&'static self) {
        local::set_guest(self.as_word());
    }

    /// Makes this the state of a thread that will begin with this thread pointer.
    ///
    /// # Safety
    /// The pointer names a storage that the C library has prepared for a new thread.
    pub(super) unsafe fn begin_with(&'static self, thread_pointer: usize) {
        // SAFETY: passed on.
        unsafe { Words::of(thread_pointer) }.set_guest(self.as_word());
    }

    pub(super) fn as_word(&'static self) -> *mut () {
        from_ref(self).cast_mut().cast()
    }

    /// The calling thread, if it is a guest.
    #[inline(always)]
    pub(super) fn current() -> Option<&'static Guest> {
        // SAFETY: null, or a state, which is never freed.
        unsafe { local::guest().cast::<Guest>().as_ref() }
    }

    /// The calling thread is about to end, and is a guest no more.
    pub(super) fn end(&'static self) {
        local::set_guest(null_mut());
        self.release();
    }

    /// The guest has ended.
    pub(super) fn release(&'static self) {
        self.serial.store(0, Relaxed);
        self.worker.store(null_mut(), Relaxed);
        let first = SPARE.lock();
        self.next.store(first.load(Relaxed), Relaxed);
        first.store(from_ref(self).cast_mut(), Relaxed);
    }

    #[inline(always)]
    pub(super) fn is_inside(&self) -> bool {
        self.head.is_inside.load(Relaxed)
    }

    #[inline(always)]
    pub(super) fn enter(&self) {
        self.head.is_inside.store(true, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Leaves. False if a signal came or calls, and the guest has to see to that: then it is still
    /// inside.
    #[inline(always)]
    pub(super) fn leave(&self) -> bool {
        compiler_fence(SeqCst);
        self.head.is_inside.store(false, Relaxed);
        compiler_fence(SeqCst);
        if self.has_signal() {
            self.enter();
            self.head.note_home(false);
            return false;
        }
        true
    }

    /// The guest is at home, and about to leave for a call that the kernel makes. The next ones
    /// that only have to be made there need no hook ([`class::PERMITTED`](super::class::PERMITTED)).
    pub(super) fn permit(&self) {
        self.head.note_home(true);
    }

    /// Leaves although the guest is closed: a handler has to run, or an instruction that opens.
    pub(super) fn leave_closed(&self) {
        compiler_fence(SeqCst);
        self.head.is_inside.store(false, Relaxed);
        compiler_fence(SeqCst);
    }

    /// Whether the guest is at home and closed, or away and called home.
    #[inline(always)]
    pub(super) fn has_signal(&self) -> bool {
        match adopted() {
            Some(adopted) => adopted.has_signal(),
            None => self.is_closed.load(Relaxed),
        }
    }

    /// Whether the caller, which has this state, is in fact a child that shares it: a process of
    /// its own.
    #[inline(always)]
    pub(super) fn is_child(&self) -> bool {
        self.children.load(Relaxed) != NO_CHILD && self.is_caller_child()
    }

    #[cold]
    extern "C" fn is_caller_child(&self) -> bool {
        let is_child = process() != PROCESS.load(Relaxed);
        if !is_child && self.children.load(Relaxed) == IN_VFORK {
            // It sleeps until the child has another memory, or has ended.
            self.children.store(NO_CHILD, Relaxed);
        }
        is_child
    }

    /// Whether the caller, which has this storage, is in fact a handler of the C library's at home:
    /// the guest may run on a server.
    pub(super) fn is_home_handler(&self) -> bool {
        // SAFETY: no arguments.
        let tid = || unsafe { call(libc::SYS_gettid, [0; 6]) } as u32;
        self.head.has_handler() && tid() == self.tid.load(Relaxed)
    }

    /// A child is about to be made that shares the caller's storage. `is_beside`: the caller goes
    /// on meanwhile.
    pub(super) fn share_with_child(&self, is_beside: bool) {
        let kind = if is_beside { BESIDE } else { IN_VFORK };
        self.children.fetch_max(kind, Relaxed);
    }

    /// Its kernel thread's id, if it is known.
    pub(super) fn tid(&self) -> Option<u32> {
        Some(self.tid.load(Relaxed)).filter(|tid| *tid != 0)
    }

    /// Notes the id of the kernel thread, which is the caller's, if it is not known.
    #[inline]
    pub(super) fn note_tid(&self) {
        if self.tid.load(Relaxed) == 0 {
            let tid = match adopted() {
                Some(adopted) => adopted.tid(),
                // SAFETY: no arguments.
                None => unsafe { call(libc::SYS_gettid, [0; 6]) as u32 },
            };
            self.tid.store(tid, Relaxed);
        }
    }

    /// Counts that it has woken others. True if it is to let them run now.
    #[inline]
    pub(super) fn count_wake(&self) -> bool {
        const TURN: u32 = 32;
        let wakes = self.wakes.load(Relaxed).wrapping_add(1);
        self.wakes.store(wakes, Relaxed);
        wakes % TURN == 0
    }

    /// Whether it was preempted, and has woken no other one since then.
    #[inline]
    pub(super) fn was_preempted(&self) -> bool {
        let flag = self.task().map(|task| &task.was_preempted);
        flag.is_some_and(|flag| flag.load(Relaxed) && flag.swap(false, Relaxed))
    }

    /// The guest, which is the caller, gives way at home once more. Whether that is what it does
    /// now: it has done so many times, and nothing else. The next time it has to do so twice as
    /// many times: there is something that brings it home.
    pub(super) fn only_pauses(&self) -> bool {
        const MANY: u32 = 64;
        const MOST: u32 = 1 << 20;
        let most = self.most_pauses.load(Relaxed).max(MANY);
        let pauses = self.pauses.load(Relaxed) + 1;
        let is_enough = pauses >= most;
        if is_enough {
            self.most_pauses.store((2 * most).min(MOST), Relaxed);
        }
        self.pauses
            .store(if is_enough { 0 } else { pauses }, Relaxed);
        is_enough
    }

    /// The guest makes another call.
    pub(super) fn note_no_pause(&self) {
        self.pauses.store(0, Relaxed);
    }

    /// The guest, which is the caller, waits as a thread from here on.
    pub(super) fn wait_as_thread(&'static self) {
        let task = descriptor::begin_with(&self.own);
        self.thread.store(from_ref(task).cast_mut(), Relaxed);
        // A signal may have come before, since the call has begun.
        if self.is_closed.load(Relaxed) {
            cut::cut_here(task);
        }
    }

    /// The descriptor that the calling guest waits with, if it has waited.
    pub(super) fn task(&self) -> Option<&'static Task> {
        match adopted() {
            Some(adopted) => Some(guest::task_of(adopted.worker())),
            // SAFETY: null, or a descriptor, which is never freed.
            None => unsafe { self.thread.load(Relaxed).as_ref() },
        }
    }

    /// Notes that the kernel thread blocks all signals from now on, and that `mask` is the guest's.
    pub(super) fn note_closed(&self, mask: u64) {
        match adopted() {
            Some(adopted) => {
                adopted.note_closed(mask);
                if adopted.stays() {
                    self.cut_here();
                }
            }
            None => {
                // Of handlers that interrupt each other here, the outermost is the last to note.
                self.mask.store(mask, Relaxed);
                self.is_closed.store(true, Relaxed);
                self.head.note_home(false);
                self.head.note_mask(u64::MAX);
                self.cut_here();
            }
        }
    }

    /// In a handler: ends the wait of the guest, which sleeps as a thread, if it does.
    fn cut_here(&self) {
        if let Some(task) = self.task() {
            cut::cut_here(task);
        }
    }

    /// Notes that signals with a handler are sent again to the guest's kernel thread.
    pub(super) fn note_kept(&self, signals: u64) {
        self.kept.fetch_or(signals, Relaxed);
    }

    /// Whether one of these signals was sent again to the guest's kernel thread after it had come
    /// when the program had a handler for it. It has come once more, to the guest at home.
    pub(super) fn take_kept(&self, signals: u64) -> bool {
        let by_home = adopted().is_some_and(|adopted| adopted.take_kept(signals));
        self.kept.fetch_and(!signals, Relaxed) & signals != 0 || by_home
    }

    /// The guest has opened at home: all signals that were sent again have come, but those that it
    /// blocks.
    pub(super) fn forget_kept(&self) {
        self.take_kept(u64::MAX);
    }

    /// The mask that the kernel is to be given to open, which the guest counts as from now on.
    pub(super) fn open(&self) -> u64 {
        match adopted() {
            Some(adopted) => {
                adopted.note_open();
                adopted.opening_mask()
            }
            None => {
                self.is_closed.store(false, Relaxed);
                let mask = self.mask.load(Relaxed);
                self.head.note_mask(mask);
                mask
            }
        }
    }

    /// The guest's mask, if the kernel does not have it: away, or closed.
    pub(super) fn closed_mask(&self) -> Option<u64> {
        match adopted() {
            Some(adopted) => adopted.is_closed().then(|| adopted.mask()),
            None => self
                .is_closed
                .load(Relaxed)
                .then(|| self.mask.load(Relaxed)),
        }
    }

    /// Notes that the kernel opens the guest: a handler's frame, which has its mask, ends.
    pub(super) fn note_open(&self) {
        match adopted() {
            Some(adopted) => adopted.note_open(),
            None => self.is_closed.store(false, Relaxed),
        }
    }

    /// Notes the mask that the kernel has, at home and open. See [`GuestHead::note_mask`].
    pub(super) fn note_mask(&self, mask: u64) {
        self.head.note_mask(mask);
    }

    /// Whether the mask that was noted last may block signals of faults.
    pub(super) fn blocks_faults(&self) -> bool {
        self.head.blocks_faults()
    }

    /// The guest will have the mask of its maker, the caller, which is at home and open.
    pub(super) fn inherit_mask(&self, maker: &Guest) {
        let mask = if maker.blocks_faults() { u64::MAX } else { 0 };
        self.head.note_mask(mask);
    }

    /// Notes its worker and its home, for those who look from outside.
    pub(super) fn note_worker(&self, adopted: Adopted) {
        self.worker.store(adopted.worker().into_ptr(), Relaxed);
        self.tid.store(adopted.tid(), Relaxed);
    }

    /// The guest will begin as this worker, on a server. Its home has this id.
    pub(super) fn begin_away(&self, worker: raw::Worker, tid: u32) {
        self.worker.store(worker.into_ptr(), Relaxed);
        self.tid.store(tid, Relaxed);
    }

    /// The guest was adopted: what is noted here is the home's from now on.
    pub(super) fn hand_over(&self, adopted: Adopted) {
        self.home.is_adopted.store(true, Relaxed);
        self.note_worker(adopted);
        if self.is_closed.swap(false, Relaxed) {
            adopted.note_closed(self.mask.load(Relaxed));
        }
    }
}

/// All states that exist.
pub(super) static ALL: AtomicPtr<Guest> = AtomicPtr::new(null_mut());

fn enlist(guest: &'static Guest) -> &'static Guest {
    let new = from_ref(guest).cast_mut();
    let put_first = |first: *mut Guest| {
        guest.next_of_all.store(first, Relaxed);
        Some(new)
    };
    // ORDERING(guests.1): Release, pairs with guests.2: the state is seen whole.
    let _ = ALL.fetch_update(Release, Relaxed, put_first);
    guest
}

/// The number of a new thread.
fn next_serial() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Relaxed) + 1
}

/// Where in a state its parts are: for debuggers.
pub(super) const OFFSETS: [usize; 5] = [
    offset_of!(Guest, next_of_all),
    offset_of!(Guest, serial),
    offset_of!(Guest, tid),
    offset_of!(Guest, worker),
    offset_of!(Guest, stand),
];

/// Calls `f` with each state that a thread has.
pub(super) fn each(f: &mut dyn FnMut(&'static Guest)) {
    each_state(&mut |guest| {
        if guest.serial.load(Relaxed) != 0 {
            f(guest);
        }
    });
}

/// Calls `f` with the counts of each state.
pub(super) fn each_counts(f: &mut dyn FnMut(&Counts)) {
    each_state(&mut |guest| f(&guest.counts));
}

fn each_state(f: &mut dyn FnMut(&'static Guest)) {
    // ORDERING(guests.2): Acquire, pairs with guests.1.
    let mut next = ALL.load(Acquire);
    // SAFETY: null, or a state, which is never freed.
    while let Some(guest) = unsafe { next.as_ref() } {
        f(guest);
        next = guest.next_of_all.load(Relaxed);
    }
}

/// The calling guest as an adopted worker, at home or away.
#[inline(always)]
pub(super) fn adopted() -> Option<Adopted> {
    Adopted::current()
}

/// Whether a server runs the calling guest.
#[inline(always)]
pub(super) fn is_away() -> bool {
    adopted().is_some_and(Adopted::is_away)
}

/// The id of the calling guest.
pub(super) fn tid() -> u32 {
    match adopted() {
        Some(adopted) => adopted.tid(),
        // SAFETY: no arguments. A plain guest is at home.
        None => unsafe { call(libc::SYS_gettid, [0; 6]) as u32 },
    }
}

/// Whether the process is a child of a fork.
pub(super) fn is_aside() -> bool {
    IS_ASIDE.load(Relaxed)
}

/// The process is a child of a fork from now on.
pub(super) fn stand_aside() {
    IS_ASIDE.store(true, Relaxed);
    // The only thread.
    local::set_guest(null_mut());
}
