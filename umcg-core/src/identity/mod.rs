//! The state that the kernel keeps for a thread, where the thread's storage and the kernel thread
//! part. `docs/identity.md` has the table.
//!
//! The C library finds a thread by its storage (`pthread_self`, the thread pointer), the kernel by
//! its tid. Storage and tid belong together in every program, unless it moves storages from kernel
//! thread to kernel thread, as servers and helpers do. Code that needs the matching pair asks here.
//!
//! | module | holds |
//! |---|---|
//! | this | the kernel threads that run with other storages than their own ([`Carrying`]) |
//! | `credentials` | users, groups: one set for all kernel threads of a process |
//! | `process` | the attributes that a thread inherits from its maker, as the process has them |
//! | `rseq` | restartable sequences: the area that the kernel writes is the one that the storage names, or there is none |
//! | `threaded` | makes the C library know of threads at all |
//!
//! Signal handlers read the list of [`Carrying`]s, so it has no lock. An entry is never freed. It
//! belongs to a kernel thread while it holds that thread's tid.

pub(crate) mod credentials;
pub(crate) mod process;
pub(crate) mod rseq;
pub(crate) mod threaded;

use self::credentials::StorageOwners;
use crate::base::link::Link;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering::*, compiler_fence};

/// A kernel thread that runs with other storages than its own: a server's, or a helper's.
pub(crate) struct Carrying {
    /// The kernel thread's tid; [`NOBODY`]; or [`BEGINS`] while its thread pointer is not written
    /// yet.
    tid: AtomicU32,
    /// The thread pointer that the kernel thread was made with.
    tp: AtomicUsize,
    next: Link<Carrying>,
}

const NOBODY: u32 = 0;
/// No kernel thread has this tid.
const BEGINS: u32 = u32::MAX;

/// All entries ever made: at most as many as there were servers and helpers at once.
static ALL: AtomicPtr<Carrying> = AtomicPtr::new(null_mut());

/// The tid of the calling kernel thread.
pub(crate) fn tid() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

fn entries() -> impl Iterator<Item = &'static Carrying> {
    // ORDERING(carrying.2): Acquire, pairs with carrying.1.
    let first = ALL.load(Acquire);
    // SAFETY: null, or an entry, which is never freed.
    std::iter::successors(unsafe { first.as_ref() }, |entry| entry.next.get())
}

impl Carrying {
    /// From here on the calling kernel thread, which runs with its own storage now, may run with
    /// others, those that `owners` knows among them.
    pub(crate) fn begin(owners: &'static StorageOwners) -> &'static Carrying {
        credentials::ask_of(owners);
        // Again each time: after a fork glibc may have installed its own handler.
        let _ = credentials::install();
        rseq::look_up();
        let (tid, tp) = (tid(), umcg_context::thread_pointer());
        let free = |entry: &&Carrying| {
            entry
                .tid
                .compare_exchange(NOBODY, BEGINS, Relaxed, Relaxed)
                .is_ok()
        };
        if let Some(entry) = entries().find(free) {
            entry.tp.store(tp, Relaxed);
            // If a signal handler of this kernel thread finds the tid, it finds the thread pointer
            // too.
            compiler_fence(Release);
            entry.tid.store(tid, Relaxed);
            return entry;
        }
        let (tid, tp) = (AtomicU32::new(tid), AtomicUsize::new(tp));
        let entry: &'static Carrying = Box::leak(Box::new(Carrying {
            tid,
            tp,
            next: Link::none(),
        }));
        let mut first = ALL.load(Relaxed);
        loop {
            // SAFETY: as in `entries`.
            entry.next.set(unsafe { first.as_ref() });
            // ORDERING(carrying.1): Release, pairs with carrying.2. A thread that finds the entry
            // sees its contents.
            match ALL.compare_exchange(
                first,
                (entry as *const Carrying).cast_mut(),
                Release,
                Relaxed,
            ) {
                Ok(_) => return entry,
                Err(now) => first = now,
            }
        }
    }

    /// From here on the kernel thread runs with its own storage only.
    pub(crate) fn end(&self) {
        self.tid.store(NOBODY, Relaxed);
    }
}

/// The thread pointer that the calling kernel thread was made with. Async-signal-safe.
///
/// The caller itself has written an entry with the caller's tid, or the entry is free by now. So no
/// ordering is needed.
pub(crate) fn own_thread_pointer() -> usize {
    let tid = tid();
    let own = entries()
        .find(|entry| entry.tid.load(Relaxed) == tid)
        .map(|entry| entry.tp.load(Relaxed));
    own.unwrap_or_else(umcg_context::thread_pointer)
}

/// Calls `f` while the thread pointer is `tp`.
///
/// # Safety
/// No other flow runs with the storage that `tp` names meanwhile. That storage has all that `f`
/// needs. No signal handler of the program runs meanwhile.
#[inline(never)]
pub(crate) unsafe fn with_thread_pointer(tp: usize, f: &mut dyn FnMut()) {
    let before = umcg_context::thread_pointer();
    // SAFETY: passed on.
    unsafe { umcg_context::set_thread_pointer(tp) };
    std::hint::black_box(f)();
    // SAFETY: the thread pointer that the caller ran with.
    unsafe { umcg_context::set_thread_pointer(before) };
}

/// For a fork: the thread pointer that the forking kernel thread was made with.
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// Called by the forking thread, which holds the locks that a fork takes.
pub(crate) fn before_fork() {
    FORKING.store(own_thread_pointer(), Relaxed);
}

/// Called in the child. Its one kernel thread continues with the storage that it forked with, and
/// owns it from here on.
pub(crate) fn forked_in_child() {
    entries().for_each(Carrying::end);
    threaded::forget();
    rseq::forked_in_child(FORKING.load(Relaxed));
}
