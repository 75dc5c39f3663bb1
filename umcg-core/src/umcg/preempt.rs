//! Preemption: a worker that runs too long is taken off its server.
//!
//! Each kernel thread that runs workers has a timer on its CPU clock, so one that sleeps is never
//! disturbed: each server's, and that of each worker that stays on its own (`Carrier::Staying`).
//! The timer ticks twice in an interval and signals that very thread; if the same turn
//! (`Server::turns`) has been running for two ticks, the handler switches away *inside the
//! handler*, on the worker's stack. When a server runs the worker again the handler returns, and
//! the kernel restores every register from the signal frame. So a preempted worker has run for
//! between one interval and one and a half, rounded up to the kernel's own ticks: a CPU clock's
//! timer fires at those only, so with 250 ticks a second the least is 12 ms. A monotonic clock
//! would be finer, but would also signal a thread that sleeps in a system call, which some calls
//! answer with EINTR.
//!
//! No preemption, but another look at the next tick:
//! - in the library, or in a critical section (`Worker::critical`,
//!   [`Hold`](umcg_context::local::Hold)); a critical section gives way itself when it ends;
//! - while signals are blocked that were not when the thread registered: that is, in a handler,
//!   which would leave them blocked on this kernel thread; or in a worker that has blocked them
//!   itself;
//! - on an alternate signal stack: a handler there would lose its frames to the next one;
//! - in libc, the dynamic loader or the language runtimes, or in what those have called: the worker
//!   may hold a lock of theirs, malloc's above all, which the next worker on this kernel thread
//!   would wait for in vain ([`callers`]). All handlers are left out by that. Neither does a
//!   critical section give way beneath such code;
//! - on aarch64 and riscv64, between the instructions that compute the address of a word of
//!   thread-local storage of the library's and use it;
//! - without room on the worker's stack for the frame of a second tick.
//!
//! A worker that is mostly in the C library would be met outside seldom by ticks that are far
//! apart. So where its time is over, a tick that comes at a wrong moment lets a second timer, of
//! the monotonic clock, signal the thread once more shortly after ([`AGAIN`]), and that does the
//! same. Where that goes on, the pauses between two looks become longer, up to the time between two
//! ticks. No further look comes after a tick that has cut a system call short: the thread sleeps,
//! and is left alone until it has used its processor again; nor where the stack has no room: there
//! the next tick looks again. A thread that gets no second timer has ticks only.
//!
//! A language runtime may have been loaded since the last look at the list of objects, and the
//! loader has a lock for that list. So the handler does not read it: a worker that is to be taken
//! off leaves twice. First the server's flow looks whether the list has changed, which it may wait
//! for as for anything, and lets the worker go on, still in the handler. If it has changed, the
//! worker looks at its callers once more, and only then leaves with PREEMPT.
//!
//! What the frame says about the kernel thread (signal mask, alternate stack, on riscv64 the thread
//! pointer) is rewritten on the way back if the worker came to another one.

use super::idle::Kind;
use super::server::Server;
use super::worker::{Carrier, Inside, PREEMPT_WANTED, Worker};
use super::{Caller, Role, caller, is_apart, is_storage_of, role_beneath, role_held};
use crate::base::granted::Granted;
use crate::base::link::Link;
use crate::os::guarded;
use crate::os::signal::{self, Frame, callers};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use umcg_context::local::{self, Hold};
use umcg_context::lock::HoldLock;

/// The tick's signal: ignored by default, so that a late one does no harm.
const SIGNAL: c_int = libc::SIGURG;
/// The interval of programs that use `umcg_ctl` and set none, in nanoseconds.
pub(crate) const DEFAULT_INTERVAL: u64 = 10_000_000;
const UNSET: u64 = u64::MAX;
/// Nanoseconds from a tick at a wrong moment to the next look, at least; and how many times as long
/// as the look took.
const AGAIN: u64 = 50_000;
const AGAIN_TIMES: u64 = 16;
/// After so many looks in a turn the pauses are twice as long, and so on.
const AGAIN_DOUBLES: u32 = 8;
/// What the signal of that says, which counts for no turn.
const AGAIN_VALUE: usize = 1;

static INTERVAL: AtomicU64 = AtomicU64::new(UNSET);
/// All ticks, so that a new interval reaches them.
static TICKS: HoldLock<Link<Tick>> = HoldLock::new(Link::none());

/// A kernel thread's part.
pub(crate) struct Tick {
    timer: AtomicPtr<c_void>,
    /// It is there.
    armed: AtomicBool,
    /// The timer for another look, and whether it is there.
    again: AtomicPtr<c_void>,
    looks_again: AtomicBool,
    tid: AtomicI32,
    /// The signals that the thread blocked when it registered.
    mask: AtomicU64,
    /// The turn that the last tick saw, and how many ticks in a row.
    seen: AtomicU64,
    times: AtomicU32,
    /// The tick interrupted a sleep of the server itself.
    interrupted: AtomicBool,
    /// The turn of the last look that came to nothing, and how many of that turn's did.
    missed: AtomicU64,
    misses: AtomicU32,
    /// The turn that somebody wants to end now.
    wanted: AtomicU64,
    /// A signal for that is on its way, and one is enough. It may be another one's by then: the
    /// kernel merges it with one that is pending, the timer's above all, which often waits as long
    /// as the thread is off its processor. So whichever comes takes the note away.
    asked: AtomicBool,
    next: Link<Tick>,
}

impl Tick {
    pub(crate) fn new() -> Tick {
        Tick {
            timer: AtomicPtr::new(null_mut()),
            armed: AtomicBool::new(false),
            again: AtomicPtr::new(null_mut()),
            looks_again: AtomicBool::new(false),
            tid: AtomicI32::new(0),
            mask: AtomicU64::new(0),
            seen: AtomicU64::new(0),
            times: AtomicU32::new(0),
            interrupted: AtomicBool::new(false),
            missed: AtomicU64::new(u64::MAX),
            misses: AtomicU32::new(0),
            wanted: AtomicU64::new(u64::MAX),
            asked: AtomicBool::new(false),
            next: Link::none(),
        }
    }

    /// Whether a tick came since the last call.
    pub(crate) fn take_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed) && self.interrupted.swap(false, Relaxed)
    }
}

/// Sets the interval in nanoseconds for all servers; 0 for no preemption.
pub(crate) fn set_interval(interval: u64) -> Result<(), Errno> {
    let ticks = TICKS.lock();
    INTERVAL.store(interval, Relaxed);
    let mut at = ticks.get();
    while let Some(tick) = at {
        arm(tick, interval)?;
        at = tick.next.get();
    }
    Ok(())
}

/// Gives the calling kernel thread its tick. `unset` is the interval where the program has set
/// none.
pub(crate) fn start(tick: &'static Tick, unset: u64) -> Result<(), Errno> {
    tick.tid
        .store(rustix::thread::gettid().as_raw_nonzero().get(), Relaxed);
    tick.mask.store(signal::mask(), Relaxed);
    tick.asked.store(false, Relaxed);
    let ticks = TICKS.lock();
    let interval = match INTERVAL.load(Relaxed) {
        UNSET => unset,
        set => set,
    };
    if let Err(error) = arm(tick, interval) {
        disarm(tick);
        return Err(error);
    }
    tick.next.set(ticks.get());
    ticks.set(Some(tick));
    Ok(())
}

/// Takes it away again.
pub(crate) fn stop(tick: &'static Tick) {
    let ticks = TICKS.lock();
    let mut at: &Link<Tick> = &ticks;
    while let Some(other) = at.get() {
        if std::ptr::eq(other, tick) {
            at.set(tick.next.take());
            break;
        }
        at = &other.next;
    }
    disarm(tick);
}

/// Without a timer, as a new tick is. With the lock of TICKS.
fn disarm(tick: &Tick) {
    for (is_there, timer) in [(&tick.armed, &tick.timer), (&tick.looks_again, &tick.again)] {
        if is_there.swap(false, Relaxed) {
            // SAFETY: the timer was created and is deleted once.
            unsafe { libc::timer_delete(timer.load(Relaxed)) };
        }
    }
}

/// Keeps the list of ticks still while the process forks.
pub(crate) fn before_fork() {
    TICKS.take();
}

/// Timers are not inherited: in the child no thread has one.
///
/// # Safety
/// Called once after each `before_fork`, by the thread that called that.
pub(crate) unsafe fn forked(in_child: bool) {
    // SAFETY: passed on.
    let ticks = unsafe { TICKS.adopt() };
    if in_child {
        let mut at = ticks.take();
        while let Some(tick) = at {
            tick.armed.store(false, Relaxed);
            tick.looks_again.store(false, Relaxed);
            at = tick.next.take();
        }
    }
}

/// Lets the timer tick for this interval; makes it first if there is none and one is asked for.
/// With the lock of TICKS.
fn arm(tick: &Tick, interval: u64) -> Result<(), Errno> {
    if !tick.armed.load(Relaxed) {
        if interval == 0 {
            return Ok(());
        }
        create_timer(tick)?;
    }
    let half = (interval / 2).max(u64::from(interval != 0));
    let period = interval_of(half);
    let setting = libc::itimerspec {
        it_interval: period,
        it_value: period,
    };
    // SAFETY: the timer exists while `armed`, and the lock keeps `stop` out.
    match unsafe { libc::timer_settime(tick.timer.load(Relaxed), 0, &setting, null_mut()) } {
        0 => Ok(()),
        _ => Err(last_error()),
    }
}

/// The timers, which signal the tick's thread. The first goes by that thread's CPU clock. Any
/// thread may make it: the kernel's number for another thread's clock is the complement of its tid
/// with the bits for "thread" and "time it ran" below. The second may be missing: a user may have
/// so many timers (`RLIMIT_SIGPENDING`).
fn create_timer(tick: &Tick) -> Result<(), Errno> {
    const THREAD_CPU_CLOCK: libc::clockid_t = 0b110;
    install_handler()?;
    let tid = tick.tid.load(Relaxed);
    let timer = timer(!tid << 3 | THREAD_CPU_CLOCK, tid, 0)?;
    tick.timer.store(timer, Relaxed);
    tick.armed.store(true, Relaxed);
    if let Ok(again) = self::timer(libc::CLOCK_MONOTONIC, tid, AGAIN_VALUE) {
        tick.again.store(again, Relaxed);
        // ORDERING(timers.1): Release, pairs with timers.2: a tick that sees it sees the timer.
        tick.looks_again.store(true, Release);
    }
    Ok(())
}

/// A timer that signals this thread.
fn timer(clock: libc::clockid_t, tid: c_int, value: usize) -> Result<libc::timer_t, Errno> {
    // SAFETY: zero is a valid sigevent.
    let mut event: libc::sigevent = unsafe { std::mem::zeroed() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = SIGNAL;
    event.sigev_notify_thread_id = tid;
    event.sigev_value.sival_ptr = std::ptr::without_provenance_mut(value);
    let mut timer = null_mut();
    // SAFETY: both are valid for the call.
    match unsafe { libc::timer_create(clock, &mut event, &mut timer) } {
        0 => Ok(timer),
        _ => Err(last_error()),
    }
}

/// Has this thread's tick come again shortly, as the worker could not be taken off now: unless the
/// thread slept, which that would only disturb. `began`: when this look did.
fn look_again(tick: &Tick, turn: u64, frame: &Frame, began: u64) {
    if !frame.has_cut_a_call_short(guarded::load) {
        look_in(
            tick,
            turn,
            now().saturating_sub(began).saturating_mul(AGAIN_TIMES),
        );
    }
}

/// Has the tick of the calling kernel thread come after so many nanoseconds, or [`AGAIN`], or more
/// where that goes on in this turn.
fn look_in(tick: &Tick, turn: u64, pause: u64) {
    // ORDERING(timers.2): Acquire, pairs with timers.1.
    if !tick.looks_again.load(Acquire) {
        return;
    }
    let pause = pause.max(AGAIN);
    let pause = pause
        .saturating_mul(1 << doublings(tick, turn))
        .min(between_ticks().max(pause));
    let setting = libc::itimerspec {
        it_interval: interval_of(0),
        it_value: interval_of(pause),
    };
    // SAFETY: errno of the storage that this runs with.
    let errno = unsafe { *errno_place() };
    // SAFETY: the timer exists while `looks_again`, which this very thread takes back.
    // Async-signal-safe.
    if unsafe { libc::timer_settime(tick.again.load(Relaxed), 0, &setting, null_mut()) } != 0 {
        // Refused since: the next tick looks again.
        // SAFETY: as above.
        unsafe { *errno_place() = errno };
    }
}

/// How often the pauses of this turn have become twice as long, after one more look for nothing.
fn doublings(tick: &Tick, turn: u64) -> u32 {
    /// The pauses are as long as they may be, long before.
    const MOST: u32 = 20;
    if tick.missed.swap(turn, Relaxed) != turn {
        tick.misses.store(0, Relaxed);
    }
    (tick.misses.fetch_add(1, Relaxed) / AGAIN_DOUBLES).min(MOST)
}

/// Nanoseconds from a tick to the next.
fn between_ticks() -> u64 {
    match INTERVAL.load(Relaxed) {
        UNSET | 0 => DEFAULT_INTERVAL / 2,
        interval => interval / 2,
    }
}

/// Nanoseconds of the monotonic clock.
fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000) + now.tv_nsec as u64
}

fn interval_of(nanoseconds: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as _,
        tv_nsec: (nanoseconds % 1_000_000_000) as _,
    }
}

fn last_error() -> Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(Errno::INVAL, Errno::from_raw_os_error)
}

fn install_handler() -> Result<(), Errno> {
    static INSTALLED: Granted<()> = Granted::new();
    let install = || {
        callers::prepare();
        // On the worker's own stack, where it can stay. It blocks itself (no SA_NODEFER): see
        // `preempt`.
        // SAFETY: the handler is async-signal-safe.
        unsafe { signal::install(SIGNAL, on_tick, libc::SA_RESTART, 0) }
    };
    INSTALLED.get_or_ask(install).copied()
}

/// Asks that the worker which runs on this server now be taken off it.
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
    let tid = tick.tid.load(Relaxed);
    let process = std::process::id();
    // SAFETY: a signal that has our handler, to a thread of ours; one that has ended is an error
    // that changes nothing.
    let is_sent = unsafe { libc::syscall(libc::SYS_tgkill, process, tid, SIGNAL) } == 0;
    if !is_sent {
        // None is on its way: the next one that asks tries again.
        tick.asked.store(false, Relaxed);
    }
}

/// The kernel thread that carries what runs on a server now. A hint.
pub(crate) fn carrying_thread(server: &'static Server) -> c_int {
    tick_now(server).tid.load(Relaxed)
}

/// The calling worker, inside no critical section any more, was to be preempted while it was in
/// one.
#[cold]
pub(crate) fn give_way() {
    let Caller::Worker(inside, server) = caller() else {
        return;
    };
    inside.0.critical.store(0, Relaxed);
    // Not if that was an earlier turn, or the tick has taken it off meanwhile.
    let (tick, turn) = (tick_of(inside.0, server), server.turns.load(Relaxed));
    if tick.wanted.load(Relaxed) != turn && !was_due(tick, turn) {
        return;
    }
    // The section may be in what a runtime has called, or in a signal handler: as for a tick.
    let blocks = signal::mask() & !tick.mask.load(Relaxed) != 0;
    let is_beneath =
        || callers::is_beneath_runtime(stack_of(inside.0), has_room_for_look(inside.0));
    let known = callers::known();
    if blocks || is_beneath() || (finds_runtimes(&inside, server, known) && is_beneath()) {
        return look_in(tick, server.turns.load(Relaxed), 0);
    }
    // SAFETY: the caller is the worker, running, inside.
    unsafe { inside.0.leave(server, Kind::Preempt, None) };
}

/// Has the server's flow look which runtimes there are; whether others were `known`. That counts as
/// another turn, but what is to end the one before is to end this one.
fn finds_runtimes(inside: &Inside, server: &'static Server, known: usize) -> bool {
    unsafe extern "C" fn look(_: *mut ()) {
        callers::renew();
    }
    let before = server.turns.load(Relaxed);
    // SAFETY: the caller is the worker, running, inside, and goes on itself.
    unsafe { inside.0.leave_by_server(server, inside.0, look, null_mut()) };
    let (tick, turn) = (tick_of(inside.0, server), server.turns.load(Relaxed));
    for noted in [&tick.wanted, &tick.seen] {
        // Changed by somebody else, it names this turn already, or one that is over.
        let _ = noted.compare_exchange(before, turn, Relaxed, Relaxed);
    }
    callers::known() != known
}

/// Whether the turn has lasted for as long as it may, by a signal that has come.
fn is_over(tick: &Tick, turn: u64, signal: &libc::siginfo_t) -> bool {
    match signal.si_code {
        // A late one. There is no preemption any more, but on request.
        _ if INTERVAL.load(Relaxed) == 0 => false,
        // SAFETY: a timer's signal has a value.
        libc::SI_TIMER if unsafe { signal.si_value() }.sival_ptr.addr() != AGAIN_VALUE => {
            is_due(tick, turn)
        }
        libc::SI_TIMER => was_due(tick, turn),
        _ => false,
    }
}

extern "C" fn on_tick(_signal: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a siginfo_t.
    let information = unsafe { &*information };
    let code = information.si_code;
    // A tick that interrupts this one must not move it.
    let held = local::holds() != 0 || is_apart();
    let hold = Hold::begin();
    let (worker, server) = match role_beneath() {
        // A staying worker runs elsewhere while its server's thread, whose tick this may be,
        // sleeps.
        Role::Worker(worker, _)
            if worker.carrier() == Carrier::Staying && !is_storage_of(worker) =>
        {
            return;
        }
        Role::Worker(worker, server) => (worker, server),
        Role::Server(server) => {
            server.tick.asked.store(false, Relaxed);
            // One of the program's own is a handler that ran.
            let is_ours = code == libc::SI_TIMER || code == libc::SI_TKILL;
            return if is_ours {
                server.tick.interrupted.store(true, Relaxed)
            };
        }
        Role::Plain | Role::Blocked(_) => return,
    };
    let tick = tick_of(worker, server);
    let turn = server.turns.load(Relaxed);
    // Before the look: a request that still finds the note was sent before this signal came, and is
    // seen here.
    tick.asked.store(false, Relaxed);
    if tick.wanted.load(Relaxed) != turn && !is_over(tick, turn, information) {
        return;
    }
    let began = now();
    let critical = worker.critical.load(Relaxed);
    if critical != 0 {
        // The section that was interrupted may just be counting, and overwrite this: then the next
        // tick says it again.
        return worker.critical.store(critical | PREEMPT_WANTED, Relaxed);
    }
    // SAFETY: the kernel passes it, and this is the handler.
    let frame = unsafe { Frame::of(context) };
    let in_handler = frame.mask() & !tick.mask.load(Relaxed) != 0 || frame.is_on_signal_stack();
    let in_access = local::is_access(frame.program_counter(), guarded::load);
    if !has_room(worker, frame) {
        return;
    }
    let known = callers::known();
    if !held && !in_handler && !in_access && !callers::is_in_runtime(frame, stack_of(worker)) {
        std::mem::forget(hold); // the worker is inside now
        if preempt(Inside(worker), server, frame, known) {
            return;
        }
    }
    look_again(tick, server.turns.load(Relaxed), frame, began);
}

/// Whether there is room on the worker's stack for what may come upon the frames of this handler: a
/// look at its callers, and the frame of a second tick, which comes between the worker's return and
/// the block on that. A thread's stack is taken to have it.
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

/// Where the worker's frames lie.
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
fn tick_of(worker: &'static Worker, server: &'static Server) -> &'static Tick {
    match &worker.home {
        Some(home) if worker.carrier() == Carrier::Staying => &home.tick,
        _ => &server.tick,
    }
}

/// The tick of the kernel thread that carries what runs on a server now, as others see it.
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

/// Takes the worker off its server, and returns when a server runs it again. False: it has turned
/// out to be in a runtime, and goes on. `known`: which runtimes it was found to be in none of.
///
/// The signal is blocked in its own handler. So no second tick interrupts the first before that
/// holds, and one frame of a handler at a time is on the worker's stack. (Where such a tick came
/// all the same, its look at the callers would find the trampoline under the first handler, which
/// is the C library's or the kernel's, and refuse.) Whatever the kernel thread does next must not
/// have the signal blocked: it is unblocked here, where a tick finds the hold, and blocked again
/// before the hold ends.
fn preempt(inside: Inside, server: &'static Server, frame: &mut Frame, known: usize) -> bool {
    let worker = inside.0;
    // A light worker shares errno with all that run on the server meanwhile.
    // SAFETY: errno of the storage that this runs with.
    let errno = unsafe { *errno_place() };
    let tid = server.tick.tid.load(Relaxed);
    signal::set_mask(frame.mask());
    let leaves =
        !finds_runtimes(&inside, server, known) || !callers::is_in_runtime(frame, stack_of(worker));
    if leaves {
        // SAFETY: the caller is the worker, running, inside.
        unsafe { worker.leave(server, Kind::Preempt, None) };
    }
    let mask = signal::block(signal::only(SIGNAL));
    // SAFETY: as above, perhaps of another storage.
    unsafe { *errno_place() = errno };
    let moved =
        !matches!(role_held(), Role::Worker(_, server) if server.tick.tid.load(Relaxed) == tid);
    if moved && worker.carrier() != Carrier::Staying {
        frame.adopt_thread(mask);
    }
    drop(inside);
    leaves
}

/// Where errno is, in the storage that the thread pointer names now.
#[inline(never)]
fn errno_place() -> *mut c_int {
    // SAFETY: no precondition.
    unsafe { libc::__errno_location() }
}
