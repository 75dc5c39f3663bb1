//! Homes that outlive their threads: the kernel thread of an adopted worker that has ended waits
//! for the next one.
//!
//! ```text
//!   OWNED --rest--> resting --begin--> OWNED        the loop at home sleeps all the time
//!                      '-----retire--> the kernel thread ends, on the home's own stack
//! ```
//!
//! The party with the right to run the worker makes each of these steps. The worker's own context
//! is given up by `rest`, and made anew by `begin`.
//!
//! - *Storage.* The home thread keeps the storage of an earlier worker until it wakes
//!   ([`awake`](super::awake)). The loop at home touches no storage, so that may be gone meanwhile.
//! - *Marks.* A call that names a home by its tid marks it first and then looks whether it rests. A
//!   home that begins to rest says so first and then looks for a mark (`marked.1`, `marked.2`).
//!   Marks stay: such a home is retired, as nothing tells how it was changed.
//! - *Descriptors are used again.* A tid leads to its descriptor before the thread is adopted. So
//!   one that is taken back counts as no home's, until all that is left of its last one is cleared
//!   (`adopted.1`, `adopted.2`).
//! - *The end.* The kernel clears `alive` when the thread is gone. Only then its stack and its
//!   descriptor are used again ([`reclaim`]).

use super::adopted::{home, is_adopted, note_sent, tell};
use super::adoption::wake;
use super::idle::state;
use super::requeue;
use super::summons::HomeReason;
use super::thread;
use super::worker::{Carrier, Home, Worker};
use super::{Owner, WORKERS, role_word};
use crate::base::link::Link;
use crate::os::signal;
use std::ffi::c_int;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::Ordering::*;
use umcg_context::EntryFn;
use umcg_context::local::Words;
use umcg_context::lock::Lock;
use umcg_context::way::nap;

/// Homes whose threads are ending.
static RETIRED: Lock<Link<Worker>> = Lock::new(Link::none());

/// How a worker begins at a home that was taken.
#[derive(Clone, Copy, Debug)]
pub struct HomeStart {
    /// As for any worker of the group.
    pub id: u64,
    /// The thread pointer of its storage.
    pub thread_pointer: usize,
    /// The word of the storage for the layer that intercepts system calls.
    pub guest: *mut (),
    /// The signal mask.
    pub mask: u64,
    /// The top of the stack, and the function that is called there. It begins with a hold open, and
    /// has to close it ([`set_holds`](umcg_context::local::set_holds)).
    pub top: *mut u8,
    /// The function.
    pub entry: EntryFn,
    /// Its argument.
    pub argument: *mut (),
}

/// The worker, whose context is not used any more, has ended. False if the home is to be retired.
/// Touches no storage.
pub(crate) fn rest(worker: &'static Worker) -> bool {
    let home = home(worker);
    home.mask.store(u64::MAX, Relaxed);
    tell(worker);
    // ORDERING(marked.1): SeqCst, pairs with marked.2.
    home.adoption.rests.store(true, SeqCst);
    is_sound(home)
}

fn is_sound(home: &Home) -> bool {
    // ORDERING(marked.1): SeqCst, as above.
    !home.adoption.is_marked.load(SeqCst) && !home.adoption.summons.has(HomeReason::Signal)
}

/// Takes a home that rests. False if it was marked meanwhile, and is to be retired.
pub(crate) fn take(worker: &'static Worker) -> bool {
    let home = home(worker);
    if !is_sound(home) {
        return false;
    }
    // ORDERING(marked.1): SeqCst, as above.
    home.adoption.rests.store(false, SeqCst);
    true
}

/// Makes a worker at a home that was taken. It is to be given to a server.
///
/// # Safety
/// The caller has the right to run the worker, which has ended. Nothing uses the storage and the
/// stack yet.
pub(crate) unsafe fn begin(worker: &'static Worker, start: &HomeStart) {
    let home = home(worker);
    let (group, tid) = (worker.group(), worker.node.tid());
    let storage = start.thread_pointer;
    worker.reset(group, Carrier::Moving, tid, start.id, storage, null_mut());
    worker.node.set_state(state::HELD);
    home.rseq_bytes.store(0, Relaxed);
    home.mask.store(start.mask, Relaxed);
    home.adoption.forget_last();
    home.adoption.kept.store(0, Relaxed);
    // SAFETY: no flow is suspended there any more, and the caller has the right to the worker.
    let context = unsafe { &mut *worker.context.get() };
    // SAFETY: passed on.
    unsafe { context.prepare(start.top, start.entry, start.argument) };
    // SAFETY: passed on.
    let words = unsafe { Words::of(storage) };
    words.set_vp(null_mut());
    words.set_task(role_word(Owner::Worker(worker)));
    words.set_holds(1);
    words.set_guest(start.guest);
}

/// Ends the kernel thread of a worker that has ended. Touches no storage.
pub(crate) fn retire(worker: &'static Worker) {
    let adoption = &home(worker).adoption;
    let tid = worker.node.tid();
    // Before the kernel can give the tid to another thread.
    WORKERS.set(tid, None);
    adoption.alive.store(1, Relaxed);
    {
        let first = RETIRED.lock();
        link(worker, first.get());
        first.set(Some(worker));
    }
    // ORDERING(retires.1): Release, pairs with retires.2.
    adoption.retires.store(true, Release);
    wake(tid);
}

/// Takes descriptor and stack of the threads that are gone. Returns how many are still ending.
pub(crate) fn reclaim() -> usize {
    let mut ending = 0;
    let mut gone = None;
    {
        let first = RETIRED.lock();
        let mut next = first.take();
        while let Some(worker) = next {
            next = next_retired(worker);
            // ORDERING(alive): Acquire, pairs with itself: the kernel's store at the end.
            if home(worker).adoption.alive.load(Acquire) == 0 {
                link(worker, gone);
                gone = Some(worker);
            } else {
                link(worker, first.get());
                first.set(Some(worker));
                ending += 1;
            }
        }
    }
    while let Some(worker) = gone {
        gone = next_retired(worker);
        home(worker).adoption.is_adopted.store(false, Relaxed);
        thread::give_back(worker);
    }
    ending
}

fn link(worker: &'static Worker, next: Option<&'static Worker>) {
    let next = next.map_or(null_mut(), |next| from_ref(next).cast_mut());
    home(worker)
        .adoption
        .next_retired
        .store(next.cast(), Relaxed);
}

fn next_retired(worker: &'static Worker) -> Option<&'static Worker> {
    let next = home(worker).adoption.next_retired.load(Relaxed);
    // SAFETY: null, or a worker that `link` has put there, which is never freed.
    unsafe { next.cast::<Worker>().as_ref() }
}

/// Marks the home with this tid. `changes`: what its worker's children inherit. None if no adopted
/// worker has it, else whether the home rests.
pub(crate) fn mark(tid: u32, changes: bool) -> Option<bool> {
    let adoption = &adopted(tid)?.adoption;
    if changes {
        adoption.is_changed.store(true, Relaxed);
    }
    // ORDERING(marked.2): SeqCst, pairs with marked.1: either the home that begins to rest sees the
    // mark, or this sees that it rests.
    adoption.is_marked.store(true, SeqCst);
    // ORDERING(marked.2): SeqCst, as above.
    Some(adoption.rests.load(SeqCst))
}

/// Makes the home with this tid, if it is one, look for all signals that its worker, if that is
/// away, wants. Called by any party.
pub(crate) fn tell_home(tid: u32) {
    away_from(tid).inspect(|worker| tell(worker));
}

/// The same, before a signal is sent to the home.
pub(crate) fn announce(tid: u32, number: c_int) {
    if let Some(worker) = away_from(tid) {
        tell(worker);
        note_sent(worker, number);
    }
}

/// The same, once it was sent: the worker of the home, if it may let the signal through. One that
/// is at home may be about to leave.
pub(crate) fn call_home(tid: u32, number: c_int) -> Option<&'static Worker> {
    let worker = WORKERS.get(tid).filter(|worker| is_adopted(worker))?;
    if !worker.is_blocked() && !lets_through(worker, number) {
        return None;
    }
    home(worker).adoption.summons.add(HomeReason::Sent);
    Some(worker)
}

/// The adopted worker whose home has this tid.
pub(crate) fn worker_at(tid: u32) -> Option<&'static Worker> {
    adopted(tid)?;
    WORKERS.get(tid)
}

/// Whether the home with this tid has a worker that is away, and lets the signal through.
pub(crate) fn is_away_for(tid: u32, number: c_int) -> bool {
    away_from(tid).is_some_and(|worker| lets_through(worker, number))
}

fn lets_through(worker: &'static Worker, number: c_int) -> bool {
    (1..=64).contains(&number) && home(worker).mask.load(Relaxed) & signal::only(number) == 0
}

/// Sends a signal, which a handler has got elsewhere, to the kernel thread with this tid.
pub(crate) fn pass_on(tid: u32, number: c_int, information: *const libc::siginfo_t) {
    announce(tid, number);
    requeue::send(tid as usize, number, information);
    call_home(tid, number);
}

/// The worker that is away from the home with this tid.
fn away_from(tid: u32) -> Option<&'static Worker> {
    let worker = WORKERS.get(tid)?;
    (is_adopted(worker) && !worker.is_blocked()).then_some(worker)
}

/// Whether what children of the worker inherit was changed from outside.
pub(crate) fn is_changed(worker: &'static Worker) -> bool {
    home(worker).adoption.is_changed.load(Relaxed)
}

/// Whether the home with this tid rests.
pub(crate) fn rests(tid: u32) -> bool {
    adopted(tid).is_some_and(|home| home.adoption.rests.load(Relaxed))
}

fn adopted(tid: u32) -> Option<&'static Home> {
    let worker = WORKERS.get(tid)?;
    let home = worker.home.as_deref()?;
    // ORDERING(adopted.2): Acquire, pairs with adopted.1: nothing of its last home is seen.
    home.adoption.is_adopted.load(Acquire).then_some(home)
}

/// Returns once the home thread with this tid has the storage of its worker.
pub(crate) fn settle_storage(tid: u32) {
    const PAUSE: u32 = 50_000;
    const TRIES: u32 = 2_000;
    let Some(worker) = WORKERS.get(tid).filter(|_| adopted(tid).is_some()) else {
        return;
    };
    for _ in 0..TRIES {
        // ORDERING(storage.1): Acquire, pairs with storage.2.
        let storage = home(worker).adoption.storage.load(Acquire);
        if storage == 0 || storage == worker.tp.load(Relaxed) {
            return;
        }
        wake(tid);
        nap(PAUSE);
    }
}
