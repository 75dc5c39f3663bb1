//! Preemption: a worker that runs too long is taken off its server.
//!
//! Each kernel thread that runs workers has a timer on its CPU clock, so a sleeping thread is never
//! disturbed. These are each server's thread, and that of each worker that stays on its own
//! (`Carrier::Staying`). The timer ticks twice in an interval and signals that very thread. If the
//! same turn (`Server::turns`) has been running for two ticks, the handler switches away *inside
//! the handler*, on the worker's stack. When a server runs the worker again, the handler returns,
//! and the kernel restores every register from the signal frame. So a preempted worker has run for
//! between one interval and one and a half, rounded up to the kernel's own ticks. A CPU clock's
//! timer fires only at those, so with 250 ticks a second the least is 12 ms. A monotonic clock
//! would be finer, but would also signal a thread that sleeps in a system call, which some calls
//! answer with EINTR.
//!
//! In these cases the worker is not preempted, but looked at again at the next tick:
//! - in the library, or in a critical section (`Worker::critical`,
//!   [`Hold`](umcg_context::local::Hold)); a critical section yields by itself when it ends;
//! - while signals are blocked that were not blocked when the thread registered. This is so in a
//!   handler, which would leave them blocked on this kernel thread, or in a worker that has blocked
//!   them itself;
//! - on an alternate signal stack: a handler there would lose its frames to the next one;
//! - in libc, the dynamic loader or the language runtimes, or in code that those have called. The
//!   worker may hold one of their locks, malloc's above all, which the next worker on this kernel
//!   thread would wait for in vain ([`callers`]). This excludes all handlers. Nor does a critical
//!   section yield beneath such code;
//! - on aarch64 and riscv64, between the instructions that compute the address of a word of
//!   thread-local storage of the library's and use it;
//! - while it has tiles in use (AMX), which the kernel gives back only on a thread that has used
//!   some before;
//! - without room on the worker's stack for the frame of a second tick.
//!
//! Ticks that are far apart would seldom find a worker outside the C library if it is mostly
//! inside. So if its time is over and a tick comes at a wrong moment, a second timer, on the
//! monotonic clock, signals the thread once more shortly after ([`tick`]), and so on. As long as
//! that continues, the pauses between two looks become longer, up to the time between two ticks. No
//! further look comes after a tick that has cut a system call short: the thread sleeps, and is left
//! alone until it has used its processor again. Nor does one come if the stack has no room: then
//! the next tick looks again. A thread that gets no second timer has ticks only.
//!
//! A language runtime may have been loaded since the last look at the list of objects, and the
//! loader has a lock for that list. So the handler does not read it: a worker that is to be taken
//! off leaves twice. First the server's flow checks whether the list has changed, for which it may
//! wait, and lets the worker continue, still in the handler. If the list has changed, the worker
//! looks at its callers once more. Only then it leaves with PREEMPT.
//!
//! The frame's data about the kernel thread (signal mask, alternate stack, on riscv64 the thread
//! pointer) is rewritten on the way back if the worker came to another kernel thread.

use super::idle::EventKind;
use super::server::Server;
use super::tick::{self, AGAIN_VALUE, SIGNAL, Tick, errno_place, look_again, look_in, now};
use super::worker::{Carrier, Inside, PREEMPT_WANTED, Worker};
use super::{
    CallerRole, Role, adopted, caller, guest, is_apart, is_storage_of, request, role_beneath,
    role_held,
};
use crate::base::granted::Granted;
use crate::os::guarded;
use crate::os::signal::{self, Frame, callers};
use rustix::io::Errno;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::*;
use umcg_context::local::{self, Hold};

/// Sets the interval in nanoseconds for all servers; 0 for no preemption.
pub(crate) fn set_interval(interval: u64) -> Result<(), Errno> {
    tick::set_interval(interval, install_handler)
}

/// Gives the calling kernel thread its tick. `unset` is the interval if the program has set none.
pub(crate) fn start(tick: &'static Tick, unset: u64) -> Result<(), Errno> {
    tick::start(tick, unset, install_handler)
}

pub(super) fn install_handler() -> Result<(), Errno> {
    static INSTALLED: Granted<()> = Granted::new();
    let install = || {
        callers::prepare();
        // The handler runs on the worker's own stack, where it can stay. It blocks its own signal
        // (no SA_NODEFER): see `preempt`.
        // SAFETY: the handler is async-signal-safe.
        unsafe { signal::install(SIGNAL, on_tick, libc::SA_RESTART, 0) }
    };
    INSTALLED.get_or_ask(install).copied()
}

/// Asks for preemption of the worker that runs on this server now.
pub(crate) fn ask(server: &'static Server) {
    if install_handler().is_err() {
        return;
    }
    let tick = tick_now(server);
    let turn = server.turns.load(Relaxed);
    let is_again = tick.wanted.swap(turn, Relaxed) == turn;
    if tick.asked.swap(true, Relaxed) && is_again {
        return;
    }
    if !signal_thread(tick.tid.load(Relaxed)) {
        // No signal is on its way: the next caller tries again.
        tick.asked.store(false, Relaxed);
    }
}

/// Sends the signal, whose handler is installed. False if there is no such thread.
pub(super) fn signal_thread(tid: c_int) -> bool {
    let process = std::process::id();
    // SAFETY: a signal that has our handler, to a thread of ours. If the thread has ended, the
    // error changes nothing.
    unsafe { libc::syscall(libc::SYS_tgkill, process, tid, SIGNAL) == 0 }
}

/// The kernel thread that carries the flow running on a server now. A hint.
pub(crate) fn carrying_thread(server: &'static Server) -> c_int {
    tick_now(server).tid.load(Relaxed)
}

/// Called by a worker that has left its last critical section, and was to be preempted while it was
/// in one.
#[cold]
pub(crate) fn give_way() {
    let CallerRole::Worker(inside, server) = caller() else {
        return;
    };
    inside.0.critical.store(0, Relaxed);
    // Do nothing if that was an earlier turn, or the tick has taken the worker off meanwhile.
    let (tick, turn) = (tick_of(inside.0, server), server.turns.load(Relaxed));
    if tick.wanted.load(Relaxed) != turn && !was_due(tick, turn) {
        return;
    }
    // As for a tick: a runtime may have called the code with the section, or it is in a signal
    // handler.
    let blocks = signal::mask() & !tick.mask.load(Relaxed) != 0;
    let is_beneath =
        || callers::is_beneath_runtime(stack_of(inside.0), has_room_for_look(inside.0));
    let known = callers::known();
    if blocks || is_beneath() || (finds_runtimes(&inside, server, known) && is_beneath()) {
        return look_in(tick, server.turns.load(Relaxed), 0);
    }
    // SAFETY: the caller is the worker, running, inside.
    unsafe { inside.0.leave(server, EventKind::Preempt, None) };
}

/// Makes the server's flow look which runtimes there are. Returns whether others were `known`. This
/// counts as another turn, so a request to end the turn before is made to name this one.
fn finds_runtimes(inside: &Inside, server: &'static Server, known: usize) -> bool {
    unsafe extern "C" fn look(_: *mut ()) {
        callers::renew();
    }
    let before = server.turns.load(Relaxed);
    // SAFETY: the caller is the worker, running, inside, and itself the next to run.
    unsafe { inside.0.leave_by_server(server, inside.0, look, null_mut()) };
    let (tick, turn) = (tick_of(inside.0, server), server.turns.load(Relaxed));
    for noted in [&tick.wanted, &tick.seen] {
        // If another thread has changed it, it names this turn already, or one that has ended.
        let _ = noted.compare_exchange(before, turn, Relaxed, Relaxed);
    }
    callers::known() != known
}

/// Whether the turn has lasted as long as it may, according to the signal that has come.
fn is_over(tick: &Tick, turn: u64, signal: &libc::siginfo_t) -> bool {
    match signal.si_code {
        // A late signal. Preemption is off by now, except on request.
        _ if tick::is_off() => false,
        // SAFETY: a timer's signal has a value.
        libc::SI_TIMER if unsafe { signal.si_value() }.sival_ptr.addr() != AGAIN_VALUE => {
            is_due(tick, turn)
        }
        libc::SI_TIMER => was_due(tick, turn),
        _ => false,
    }
}

/// The worker that the signal has interrupted, and its server. If it was the server's own flow,
/// that learns of it.
fn interrupted_worker(information: &libc::siginfo_t) -> Option<(&'static Worker, &'static Server)> {
    match role_beneath() {
        // A staying worker runs on its own thread while its server's thread sleeps. This may be the
        // server's tick.
        Role::Worker(worker, _)
            if worker.carrier() == Carrier::Staying && !is_storage_of(worker) =>
        {
            None
        }
        Role::Worker(worker, server) => Some((worker, server)),
        Role::Server(server) => {
            server.tick.asked.store(false, Relaxed);
            // A signal of the program's own counts as a handler that ran.
            if matches!(information.si_code, libc::SI_TIMER | libc::SI_TKILL) {
                server.tick.interrupted.store(true, Relaxed);
            }
            None
        }
        Role::Plain | Role::Blocked(_) => None,
    }
}

extern "C" fn on_tick(_signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a siginfo_t.
    let information = request::look(unsafe { &*information });
    // A tick that interrupts this one must not move it.
    let held = local::holds() != 0 || is_apart() || guest::is_inside();
    let _stay = guest::GuestStay::begin();
    let hold = Hold::begin();
    let Some((worker, server)) = interrupted_worker(information) else {
        return;
    };
    let tick = tick_of(worker, server);
    let turn = server.turns.load(Relaxed);
    // Clear the note before looking: a request that still finds it set was sent before this signal
    // came, and is seen here.
    tick.asked.store(false, Relaxed);
    // SAFETY: the kernel passes it, and this is the handler.
    let frame = unsafe { Frame::of(context) };
    let is_bound = frame.has_registers_of_thread();
    if tick.stuck.take(turn) {
        return leave_stuck(held || is_bound, hold, (worker, server), frame);
    }
    if tick.wanted.load(Relaxed) != turn && !is_over(tick, turn, information) {
        return;
    }
    let began = now();
    let critical = worker.critical.load(Relaxed);
    if critical != 0 {
        // The interrupted section may be in the middle of counting, and overwrite this. Then the
        // next tick sets it again.
        return worker.critical.store(critical | PREEMPT_WANTED, Relaxed);
    }
    let in_handler = is_in_handler(tick, frame);
    let in_access = local::is_access(frame.program_counter(), guarded::load);
    if !has_room(worker, frame) {
        return;
    }
    let known = callers::known();
    // An adopted thread waits for the locks of the C library as for any others.
    let in_runtime =
        || !adopted::is_adopted(worker) && callers::is_in_runtime(frame, stack_of(worker));
    if !held && !in_handler && !in_access && !is_bound && !in_runtime() {
        std::mem::forget(hold); // the worker is inside now
        if preempt(Inside(worker), server, frame, known) {
            return;
        }
    }
    look_again(tick, server.turns.load(Relaxed), frame, began);
}

/// Whether the interrupted flow blocks signals that its kernel thread does not, or is on the
/// alternate stack: it is a handler.
fn is_in_handler(tick: &Tick, frame: &Frame) -> bool {
    frame.mask() & !tick.mask.load(Relaxed) != 0 || frame.is_on_signal_stack()
}

/// What the handler does with a worker that is stuck (`stuck`, which stands above this).
pub(super) trait StuckHandler: Sync {
    /// The worker is not taken off after all.
    fn stay(&self, tick: &Tick);

    /// Takes the worker off its server. Returns on another kernel thread, where the handler is to
    /// return; or on the same one, if the worker cannot be taken off.
    fn leave(&self, inside: Inside, server: &'static Server, tick: &Tick, frame: &mut Frame);
}

/// Set before the first worker is asked to leave.
pub(super) static STUCK: OnceLock<&'static dyn StuckHandler> = OnceLock::new();

/// The worker is stuck in the kernel, and a looker has asked for this: takes it off its server, if
/// it is in its own code.
#[cold]
fn leave_stuck(
    held: bool,
    hold: Hold,
    (worker, server): (&'static Worker, &'static Server),
    frame: &mut Frame,
) {
    let tick = tick_of(worker, server);
    let Some(handler) = STUCK.get() else {
        return;
    };
    let is_kept = held || worker.critical.load(Relaxed) != 0 || is_in_handler(tick, frame);
    let in_fault = !frame.has_cut_a_call_short(guarded::load);
    let may_keep_lock = || in_fault && callers::may_keep_lock(frame, stack_of(worker));
    if is_kept || !has_room(worker, frame) || may_keep_lock() {
        return handler.stay(tick);
    }
    std::mem::forget(hold); // the worker is inside now
    handler.leave(Inside(worker), server, tick, frame);
}

/// Whether the worker's stack has room for the data that may come above this handler's frames: a
/// look at its callers, and the frame of a second tick, which may come between the worker's return
/// and the blocking of its signal. A thread's stack is assumed to have that room.
fn has_room(worker: &Worker, frame: &Frame) -> bool {
    // SAFETY: null or a record, which is readable for ever.
    let Some(record) = (unsafe { worker.record.load(Relaxed).as_ref() }) else {
        return true;
    };
    let here = (&raw const record).addr();
    let one = frame.stack_pointer().saturating_sub(here);
    here.saturating_sub(record.stack_base().addr()) >= one.max(callers::ROOM)
}

/// Whether there is room for a look at the calling worker's callers.
fn has_room_for_look(worker: &Worker) -> bool {
    let stack = stack_of(worker);
    let here = (&raw const stack).addr();
    !stack.contains(&here) || here - stack.start >= callers::ROOM
}

/// The range that holds the worker's frames.
fn stack_of(worker: &Worker) -> Range<usize> {
    match (
        // SAFETY: null or a record, which is readable for ever.
        unsafe { worker.record.load(Relaxed).as_ref() },
        &worker.home,
    ) {
        (Some(record), _) => record.stack_base().addr()..record.stack_top().addr(),
        (None, Some(home)) => home.low.load(Relaxed)..home.base.load(Relaxed),
        (None, None) => 0..0,
    }
}

/// The tick of the kernel thread that a running worker is on.
pub(super) fn tick_of(worker: &'static Worker, server: &'static Server) -> &'static Tick {
    match &worker.home {
        Some(home) if worker.carrier() == Carrier::Staying => &home.tick,
        _ => &server.tick,
    }
}

/// The tick of the kernel thread that carries the flow running on a server now, as other threads
/// see it.
fn tick_now(server: &'static Server) -> &'static Tick {
    server
        .current
        .see()
        .map_or(&server.tick, |worker| tick_of(worker, server))
}

/// Whether this turn has been running for two ticks.
fn is_due(tick: &Tick, turn: u64) -> bool {
    if tick.seen.swap(turn, Relaxed) != turn {
        tick.times.store(0, Relaxed);
    }
    tick.times.fetch_add(1, Relaxed) >= 2
}

/// Whether [`is_due`] has said so of this turn.
fn was_due(tick: &Tick, turn: u64) -> bool {
    tick.seen.load(Relaxed) == turn && tick.times.load(Relaxed) > 2
}

/// Takes the worker off its server, and returns when a server runs it again. Returns false if the
/// worker has turned out to be in a runtime, and continues. `known`: the set of runtimes that the
/// worker was found to be outside of.
///
/// The signal is blocked in its own handler. So no second tick interrupts the first before the hold
/// begins, and only one handler's frame at a time is on the worker's stack. (If such a tick came
/// anyway, its look at the callers would find the trampoline under the first handler, which is the
/// C library's or the kernel's, and refuse.) The next flow of the kernel thread must not run with
/// the signal blocked. So it is unblocked here, where a tick finds the hold, and blocked again
/// before the hold ends.
fn preempt(inside: Inside, server: &'static Server, frame: &mut Frame, known: usize) -> bool {
    let worker = inside.0;
    // A sharing worker shares errno with all workers that run on the server meanwhile.
    // SAFETY: errno of the storage that this runs with.
    let errno = unsafe { *errno_place() };
    let tid = server.tick.tid.load(Relaxed);
    signal::set_mask(frame.mask());
    if adopted::is_adopted(worker) {
        preempt_adopted(inside, server, frame, errno);
        return true;
    }
    let leaves =
        !finds_runtimes(&inside, server, known) || !callers::is_in_runtime(frame, stack_of(worker));
    if leaves {
        // SAFETY: the caller is the worker, running, inside.
        unsafe { worker.leave(server, EventKind::Preempt, None) };
    }
    let mask = signal::block(signal::only(SIGNAL));
    // SAFETY: as above, perhaps in another storage.
    unsafe { *errno_place() = errno };
    let moved =
        !matches!(role_held(), Role::Worker(_, server) if server.tick.tid.load(Relaxed) == tid);
    if moved && worker.carrier() != Carrier::Staying {
        frame.adopt_thread(mask);
    }
    drop(inside);
    leaves
}

/// [`preempt`] for an adopted thread: any code of its may be cut. If a signal calls it home, or it
/// was asked to come, it goes there, also if that was while it was off: the kernel delivers the
/// signal as soon as the handler returns.
fn preempt_adopted(inside: Inside, server: &'static Server, frame: &mut Frame, errno: c_int) {
    let worker = inside.0;
    let goes_home = || adopted::has_signal(worker);
    if !goes_home() {
        adopted::tell(worker);
        // SAFETY: the caller is the worker, running, inside.
        unsafe { worker.leave(server, EventKind::Preempt, None) };
    }
    let mask = match role_held() {
        Role::Worker(_, server) if goes_home() => {
            adopted::go_home(inside, server);
            adopted::note_open(worker);
            adopted::opening_mask(worker)
        }
        _ => {
            let mask = signal::block(signal::only(SIGNAL));
            drop(inside);
            mask
        }
    };
    // SAFETY: errno of the storage that this runs with, which is the worker's.
    unsafe { *errno_place() = errno };
    frame.adopt_thread(mask);
}
