//! Adopted threads: pthreads of a program that knows nothing of servers, and whose system calls are
//! intercepted.
//!
//! ```text
//!                    leave: a step may let others run it
//!   HOME, BLOCKED  ------------------------------------->  AWAY, HELD      parked, or on a server
//!       ^  \______ the step declines: stays ___^                |
//!       '-------------- go_home: its server lets it go ---------'
//! ```
//!
//! An adopted thread differs from a thread that registers in three ways:
//!
//! - It begins at home, where it runs as natively as before, and it stays there after each trip
//!   home. It leaves only when it waits ([`leave`]). Then its *step* is called by the loop at home,
//!   once the context is saved. The step gives the right to run the worker to another party, or
//!   declines; no event is posted.
//! - No server learns of its end ([`adopt::end`](super::adopt::end)): it ends at home.
//! - Signals find it. While the worker is away, its home thread waits for `go` and for the signals
//!   that the worker does not block, both by `sigtimedwait`. So no handler runs at home meanwhile,
//!   on storage that is in use elsewhere. A signal that comes is sent again to the home thread,
//!   where it stays pending, and the worker is *called*: a courier ([`next_called`]) makes it go
//!   home, and the kernel delivers the signal there.
//!
//! The worker's signal mask:
//!
//! - M1: at home, *open*: the kernel has it, besides [`GO`], which stays blocked.
//! - M2: at home, *closed*: the kernel thread blocks everything but SIGSETXID, and `Home::mask` has
//!   the worker's mask. A worker comes home closed. The layer above opens, at a place where a
//!   handler may run and an unwinder pass.
//! - M3: away: `Home::mask` has it. The home thread looks for the signals that it was told of last
//!   ([`set_mask`], [`tell`]), whatever the mask is meanwhile: a worker that is short-lived, or
//!   blocks signals for a moment, need not wake its home.
//!
//! Not chosen: handlers at home on a stack and storage of their own (they would run beside the
//! worker), and re-sending by the handler that the signal interrupts (it needs storage to know
//! where it is).

use super::addressee::is_one_thread;
use super::adoption::{GO, wake};
use super::awake;
use super::guest;
use super::idle::{EventKind, state};
use super::requeue;
use super::server::Server;
use super::stay::{self, NativeReason};
use super::summons::HomeReason;
use super::worker::{Home, Inside, Worker};
use super::{Role, role, worker_of_storage};
use crate::base::link::Link;
use crate::base::sync::{AtomicU32, AtomicU64, futex_wait_until, futex_wake};
use crate::os::signal::{self, Action};
use rustix::io::Errno;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::Ordering::*;
use umcg_context::lock::Lock;
use umcg_context::way::nap;

/// The signal by which glibc changes credentials in all threads. Its handler runs in any state.
const SIGSETXID: c_int = 33;

/// The signals that a home may look for. The kernel's masks never have those that cannot be
/// blocked, and the masks that are noted may.
const LOOKED_FOR: u64 = !(signal::only(libc::SIGKILL)
    | signal::only(libc::SIGSTOP)
    | signal::only(SIGSETXID)
    | signal::only(GO));

/// How many nanoseconds a home thread pauses between two looks where it cannot wait.
const PAUSE: u32 = 1_000_000;

/// Called by the loop at home, on its stack, with the worker's storage. So it touches no
/// thread-local storage. True if it has given away the right to run the worker.
pub(crate) type HomeStep = fn(&'static Worker) -> bool;

/// Workers that were called, for the courier. The lock is a bare one: home threads take it.
static CALLED: Lock<Link<Worker>> = Lock::new(Link::none());
/// Counts the calls. The courier sleeps on it.
static CALLS: AtomicU32 = AtomicU32::new(0);

/// Whether the worker is an adopted thread.
#[inline(always)]
pub(crate) fn is_adopted(worker: &Worker) -> bool {
    worker
        .home
        .as_ref()
        .is_some_and(|home| home.adoption.is_adopted())
}

#[inline(always)]
pub(super) fn home(worker: &'static Worker) -> &'static Home {
    match &worker.home {
        Some(home) => home,
        None => unreachable!("an adopted worker is a thread"),
    }
}

/// The caller, if it is an adopted worker at home.
pub(crate) fn at_home() -> Option<&'static Worker> {
    match role() {
        Role::Blocked(worker) if is_adopted(worker) => Some(worker),
        _ => None,
    }
}

/// The caller, if it is an adopted worker, at home or away.
#[inline(always)]
pub(crate) fn current() -> Option<&'static Worker> {
    worker_of_storage().filter(|worker| is_adopted(worker))
}

/// Leaves home: saves the caller's context, and calls `step`. Returns true when a server runs the
/// worker, or false if the step has declined: then the worker is at home, closed.
pub(crate) fn leave(worker: &'static Worker, step: HomeStep) -> bool {
    let home = home(worker);
    close(worker);
    look_for_what_is_open(home);
    home.adoption.step.store(step as *mut (), Relaxed);
    let inside = Inside::enter(worker);
    // Until a server runs it, it has no role but that of a worker away from servers.
    worker.server.set(None);
    worker.node.set_state(state::HELD);
    // SAFETY: the loop at home is suspended, or new. It lets another party run this context only
    // once it is saved.
    unsafe { umcg_context::switch(worker.context.get(), home.context.get()) };
    drop(inside);
    !worker.is_blocked()
}

/// Called by the loop at home, once the worker's context is saved there: calls its step, and waits
/// until the worker comes back.
pub(crate) fn see_off(worker: &'static Worker, home: &'static Home) {
    // SAFETY: `leave` has stored a `HomeStep`, and came here.
    let step =
        unsafe { std::mem::transmute::<*mut (), HomeStep>(home.adoption.step.load(Relaxed)) };
    let has_left = step(worker);
    if has_left {
        await_go(worker, home);
    } else {
        worker.node.set_state(state::BLOCKED);
    }
}

/// Lets the worker, which a server runs, continue at home. It is closed there.
pub(crate) fn go_home(inside: Inside, server: &'static Server) {
    let worker = inside.0;
    home(worker).adoption.is_closed.store(true, Relaxed);
    // SAFETY: the caller is the worker, running, inside.
    unsafe { worker.leave(server, EventKind::Block, None) };
    let adoption = &home(worker).adoption;
    if adoption.summons.answer() {
        stay::begin(adoption);
    }
    drop(inside);
}

/// Makes the kernel thread block what M2 says. Called at home.
pub(crate) fn close(worker: &'static Worker) {
    let home = home(worker);
    if home.adoption.is_closed.load(Relaxed) {
        return;
    }
    guest::note_closed();
    let mask = signal::set_mask(!signal::only(SIGSETXID));
    // A handler that ran just before has closed, and noted the mask.
    if !home.adoption.is_closed.swap(true, Relaxed) {
        home.mask.store(mask & !signal::only(GO), Relaxed);
    }
}

/// Whether the worker, which is the caller, is away or at home and closed: then its mask is that of
/// [`mask`].
pub(crate) fn is_closed(worker: &'static Worker) -> bool {
    !worker.is_blocked() || home(worker).adoption.is_closed.load(Relaxed)
}

/// The mask to open with: the kernel is to be given it, at home.
pub(crate) fn opening_mask(worker: &'static Worker) -> u64 {
    home(worker).mask.load(Relaxed) | signal::only(GO)
}

/// Notes that the kernel has been given the mask.
pub(crate) fn note_open(worker: &'static Worker) {
    let home = home(worker);
    guest::note_mask(home.mask.load(Relaxed));
    home.adoption.is_closed.store(false, Relaxed);
    home.adoption.has_blocked.store(false, Relaxed);
}

/// Notes that a handler of signals has closed, and that this is the worker's mask.
pub(crate) fn note_closed(worker: &'static Worker, mask: u64) {
    let home = home(worker);
    guest::note_closed();
    // Of handlers that interrupt each other here, the outermost is the last to note.
    home.mask.store(mask & !signal::only(GO), Relaxed);
    home.adoption.is_closed.store(true, Relaxed);
}

/// The mask of a worker that is closed.
pub(crate) fn mask(worker: &'static Worker) -> u64 {
    home(worker).mask.load(Relaxed)
}

/// Sets the mask of the calling worker, which is closed. If it is away and its home does not look
/// for one of the signals that it now wants, the home is told.
pub(crate) fn set_mask(worker: &'static Worker, mask: u64) {
    let home = home(worker);
    home.mask.store(mask, Relaxed);
    look_for_what_is_open(home);
    // ORDERING(watched.1): SeqCst, as above.
    if !worker.is_blocked() && wanted(home) & !home.adoption.watched.load(SeqCst) != 0 {
        wake(worker.node.tid());
    }
}

/// Sets the mask of the calling worker, which is away, and leaves it to [`tell`] that the home
/// looks for other signals.
pub(crate) fn set_mask_untold(worker: &'static Worker, mask: u64) {
    home(worker).mask.store(mask, Relaxed);
}

/// From now on the home is to look for the signals that the noted mask lets through. The worker
/// calls it after a change of the mask, and perhaps another party at the same time.
pub(super) fn look_for_what_is_open(home: &Home) {
    let mut mask = home.mask.load(Relaxed);
    loop {
        // ORDERING(watched.1): SeqCst, pairs with watched.2: either the home sees this, or the load
        // that follows sees what the home looks for.
        // ORDERING(wanted): SeqCst, pairs with itself: the party that comes second sees the first
        // one's mask, so the last mask remains.
        home.adoption.wanted.swap(!mask & LOOKED_FOR, SeqCst);
        let now = home.mask.load(Relaxed);
        if now == mask {
            return;
        }
        mask = now;
    }
}

/// Tells the home of a worker that is away, if it looks for other signals than the worker wants. A
/// signal that it takes and the worker blocks is sent to the process again, and the kernel does not
/// let every thread send all that belongs to it. Called by any party.
pub(crate) fn tell(worker: &'static Worker) {
    let home = home(worker);
    look_for_what_is_open(home);
    // ORDERING(watched.1): SeqCst, as above.
    let watched = home.adoption.watched.load(SeqCst);
    if wanted(home) != watched && !home.adoption.summons.has(HomeReason::Signal) {
        wake(worker.node.tid());
    }
}

/// The signals for which the program has a handler.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// Notes whether the program has a handler for the signal from now on.
pub(crate) fn note_handled(number: c_int, has_handler: bool) {
    if has_handler {
        HANDLED.fetch_or(signal::only(number), Relaxed);
    } else {
        HANDLED.fetch_and(!signal::only(number), Relaxed);
    }
}

/// Notes a signal that is on its way to the home thread: it is to be handled as it would be now.
fn keep(home: &Home, number: c_int) {
    let signal = HANDLED.load(Relaxed) & signal::only(number);
    home.adoption.kept.fetch_or(signal, Relaxed);
}

/// The same before the signal is sent to the home, while the worker is away. Called by any party.
pub(super) fn note_sent(worker: &'static Worker, number: c_int) {
    let home = home(worker);
    if (1..=64).contains(&number) && home.mask.load(Relaxed) & signal::only(number) == 0 {
        keep(home, number);
    }
}

/// Whether one of these signals was kept for the calling worker, which is at home. It is no longer.
pub(crate) fn take_kept(worker: &'static Worker, signals: u64) -> bool {
    home(worker).adoption.kept.fetch_and(!signals, Relaxed) & signals != 0
}

/// Whether the home looks for no signal, and has found none: then none is on its way. The calling
/// worker is away.
pub(crate) fn looks_for_none(worker: &'static Worker) -> bool {
    let adoption = &home(worker).adoption;
    // ORDERING(watched.1): SeqCst, as in `set_mask`.
    adoption.watched.load(SeqCst) == 0
        && !adoption.has_blocked.load(Relaxed)
        && !adoption.summons.has(HomeReason::Signal)
}

/// Whether one of these signals, which the calling worker has blocked, may wait at home: the home
/// was not looking for it all the time, or has found one. A worker that is away asks.
pub(crate) fn may_have_come(worker: &'static Worker, signals: u64) -> bool {
    let adoption = &home(worker).adoption;
    // ORDERING(watched.1): SeqCst, as in `set_mask`.
    signals & LOOKED_FOR & !adoption.watched.load(SeqCst) != 0
        || adoption.has_blocked.load(Relaxed)
        || adoption.summons.has(HomeReason::Signal)
}

/// Whether the worker, which is the caller, is at home and closed, or away and has to go home.
#[inline(always)]
pub(crate) fn has_signal(worker: &'static Worker) -> bool {
    // No panic: the hook's way out is no place for one.
    let Some(Home { adoption, .. }) = worker.home.as_deref() else {
        return false;
    };
    if worker.is_blocked() {
        adoption.is_closed.load(Relaxed)
    } else {
        adoption.summons.is_any()
    }
}

/// Whether the worker, which is the caller, stays at home.
#[inline(always)]
pub(crate) fn stays(worker: &'static Worker) -> bool {
    home(worker).adoption.stays.load(Relaxed)
}

/// The calling worker, which stays at home, is about to wait.
pub(crate) fn end_stay_if_over(worker: &'static Worker) {
    stay::end_if_over(&home(worker).adoption);
}

/// Asks the worker, if it is an adopted thread, to come home and stay. Called by any party.
pub(crate) fn ask_to_stay(worker: &'static Worker) {
    if is_adopted(worker) {
        home(worker).adoption.summons.add(HomeReason::Faults);
    }
}

/// Leaves the worker, which is adopted, to the kernel for this reason from now on; or not for this
/// one any more. True if it is to come home for that. Called by any party.
pub(crate) fn leave_to_kernel(worker: &'static Worker, reason: NativeReason, is_so: bool) -> bool {
    let adoption = &home(worker).adoption;
    let is_new = stay::note_native(adoption, reason, is_so);
    if is_new {
        adoption.summons.add(HomeReason::Native);
    }
    is_new
}

/// The signals that end an absence of the worker, as it has told last.
fn wanted(home: &Home) -> u64 {
    // ORDERING(watched.2): SeqCst, pairs with watched.1.
    home.adoption.wanted.load(SeqCst)
}

/// The signals that the home looks for now.
fn looked_for(home: &Home) -> u64 {
    if home.adoption.summons.has(HomeReason::Signal) {
        return 0;
    }
    // Before the mask, which the worker stores first.
    let wanted = wanted(home);
    if home.adoption.has_blocked.load(Relaxed) {
        // It was sent again, and would be found again.
        wanted & !home.mask.load(Relaxed)
    } else {
        wanted
    }
}

/// Waits at home for `go`. Calls the worker if a signal comes that it does not block.
fn await_go(worker: &'static Worker, home: &'static Home) {
    let adoption = &home.adoption;
    loop {
        awake::awake(worker, home);
        // ORDERING(go.2): Acquire, pairs with go.1.
        if worker.go.swap(0, Acquire) != 0 {
            // The worker may be another one since `awake`.
            awake::take_storage(worker, home);
            return adoption.watched.store(0, Relaxed);
        }
        let signals = looked_for(home);
        // ORDERING(watched.2): SeqCst, pairs with watched.1.
        adoption.watched.store(signals, SeqCst);
        // The worker stores what it wants, and loads `watched`.
        if looked_for(home) & !signals != 0 {
            continue;
        }
        let mut information = MaybeUninit::<libc::siginfo_t>::zeroed();
        let signal = signal::wait_for(signals | signal::only(GO), &mut information) as c_int;
        if signal > 0 && signal != GO {
            take(worker, home, signal, &information);
        } else if !matches!(-signal, libc::EAGAIN | libc::EINTR) && signal < 0 {
            // Forbidden since the worker was adopted: signals wait until it comes home.
            nap(PAUSE);
        }
    }
}

/// A signal was taken off the queue at home, where it would have been delivered.
fn take(
    worker: &'static Worker,
    home: &'static Home,
    number: c_int,
    information: &MaybeUninit<libc::siginfo_t>,
) {
    if is_ignored(number) {
        return;
    }
    // SAFETY: the kernel has written it.
    let information = unsafe { information.assume_init_ref() };
    let is_blocked_now = home.mask.load(Relaxed) & signal::only(number) != 0;
    if is_blocked_now {
        home.adoption.has_blocked.store(true, Relaxed);
    }
    if is_blocked_now && !is_one_thread(information) {
        // Another thread of the process may want it.
        return requeue::to_process(number, information);
    }
    note_debt(home, information);
    if !is_blocked_now {
        keep(home, number);
    }
    requeue::to_thread(number, information);
    if !is_blocked_now {
        home.adoption.summons.add(HomeReason::Signal);
        enlist(worker, home);
    }
}

/// A signal is about to be sent again to the home thread.
fn note_debt(home: &Home, information: &libc::siginfo_t) {
    if !is_one_thread(information) {
        home.adoption.owes.store(true, Relaxed);
    }
}

/// Sends a signal, which a handler has got on the caller's home thread, again to that thread.
pub(crate) fn send_again(number: c_int, information: *const libc::siginfo_t) {
    // SAFETY: a handler's, which the kernel has given.
    if let (Some(worker), Some(known)) = (current(), unsafe { information.as_ref() }) {
        note_debt(home(worker), known);
    }
    requeue::to_thread(number, information);
}

/// Sends to the process the signals that had come to it, and wait for the home thread, which is the
/// caller, is about to end, and blocks them.
pub(super) fn give_back_signals(home: &Home) {
    // Only then: to send a signal again may take its information away.
    if home.adoption.owes.swap(false, Relaxed) {
        requeue::give_back();
    }
}

/// The same for the calling worker, which is at home.
pub(crate) fn give_back_own_signals() {
    if let Some(worker) = current() {
        give_back_signals(home(worker));
    }
}

/// Whether the signal's action is to do nothing.
fn is_ignored(number: c_int) -> bool {
    let ignored_by_default = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];
    match Action::ask_raw(number) {
        libc::SIG_IGN => true,
        libc::SIG_DFL => ignored_by_default.contains(&number),
        _ => false,
    }
}

fn enlist(worker: &'static Worker, home: &'static Home) {
    {
        let first = CALLED.lock();
        if home.adoption.is_listed.swap(true, Relaxed) {
            return;
        }
        let next = first
            .get()
            .map_or(null_mut(), |next| from_ref(next).cast_mut());
        home.adoption.next.store(next.cast(), Relaxed);
        first.set(Some(worker));
    }
    rouse_courier();
}

/// Makes [`next_called`] return. Async-signal-safe.
pub(crate) fn rouse_courier() {
    // ORDERING(calls.1): Release, pairs with calls.2.
    CALLS.fetch_add(1, Release);
    futex_wake(&CALLS, 1);
}

/// Waits for a worker that was called, and returns it. Returns none if the courier was roused for
/// something else, or the deadline has passed: nanoseconds of CLOCK_MONOTONIC, u64::MAX for none.
/// One thread calls this.
pub(crate) fn next_called(deadline: u64) -> Option<&'static Worker> {
    static SEEN: AtomicU32 = AtomicU32::new(0);
    loop {
        // ORDERING(calls.2): Acquire, pairs with calls.1.
        let calls = CALLS.load(Acquire);
        {
            let first = CALLED.lock();
            if let Some(worker) = first.get() {
                let adoption = &home(worker).adoption;
                // SAFETY: null, or a worker that `enlist` has put there, which is never freed.
                first.set(unsafe { adoption.next.load(Relaxed).cast::<Worker>().as_ref() });
                adoption.is_listed.store(false, Relaxed);
                return Some(worker);
            }
        }
        if SEEN.swap(calls, Relaxed) != calls {
            return None;
        }
        if futex_wait_until(&CALLS, calls, deadline) == Err(Errno::TIMEDOUT) {
            return None;
        }
    }
}
