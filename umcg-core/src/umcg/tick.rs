//! The tick: timers that signal a kernel thread that runs workers. The handler of the signal is in
//! [`preempt`](super::preempt).

use super::stuck_request::StuckRequest;
use crate::base::link::Link;
use crate::os::guarded;
use crate::os::signal::{self, Frame};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use umcg_context::lock::HoldLock;

/// The tick's signal: ignored by default, so that a late one does no harm.
pub(super) const SIGNAL: c_int = libc::SIGURG;
/// The interval in nanoseconds of programs that use `umcg_ctl` and set none.
pub(crate) const DEFAULT_INTERVAL: u64 = 10_000_000;
const UNSET: u64 = u64::MAX;
/// The least number of nanoseconds from a tick at a wrong moment to the next look; and the pause's
/// length as a multiple of the look's.
const AGAIN: u64 = 50_000;
const AGAIN_TIMES: u64 = 16;
/// After so many looks in a turn the pauses double, and so on.
const AGAIN_DOUBLES: u32 = 8;
/// The value in the signal of another look, which counts for no turn.
pub(super) const AGAIN_VALUE: usize = 1;

static INTERVAL: AtomicU64 = AtomicU64::new(UNSET);
/// All ticks, so that a new interval reaches them.
static TICKS: HoldLock<Link<Tick>> = HoldLock::new(Link::none());

/// A kernel thread's timers and their state.
pub(crate) struct Tick {
    timer: AtomicPtr<c_void>,
    /// The timer exists.
    armed: AtomicBool,
    /// The timer for another look, and whether it exists.
    again: AtomicPtr<c_void>,
    looks_again: AtomicBool,
    pub(super) tid: AtomicI32,
    /// The signals that the thread blocked when it registered.
    pub(super) mask: AtomicU64,
    /// The turn that the last tick saw, and how many ticks in a row.
    pub(super) seen: AtomicU64,
    pub(super) times: AtomicU32,
    /// The tick interrupted a sleep of the server's own flow.
    pub(super) interrupted: AtomicBool,
    /// The turn of the last look that failed, and how many of that turn's looks failed.
    missed: AtomicU64,
    misses: AtomicU32,
    /// The turn that another thread wants to end now.
    pub(super) wanted: AtomicU64,
    /// A signal for that is on its way, and one is enough. The kernel may merge it with a pending
    /// one, above all the timer's, which often waits as long as the thread is off its processor. So
    /// any of these signals that comes clears the note.
    pub(super) asked: AtomicBool,
    /// The request to take off a worker that is stuck.
    pub(super) stuck: StuckRequest,
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
            stuck: StuckRequest::new(),
            next: Link::none(),
        }
    }

    /// Whether a tick came since the last call.
    pub(crate) fn take_interrupted(&self) -> bool {
        self.interrupted.load(Relaxed) && self.interrupted.swap(false, Relaxed)
    }
}

/// Installs the handler of the tick's signal, if it is not installed yet.
type Install = fn() -> Result<(), Errno>;

/// Whether no worker is preempted for having run too long.
pub(super) fn is_off() -> bool {
    INTERVAL.load(Relaxed) == 0
}

/// Sets the interval in nanoseconds for all servers; 0 for no preemption.
pub(super) fn set_interval(interval: u64, install: Install) -> Result<(), Errno> {
    let ticks = TICKS.lock();
    INTERVAL.store(interval, Relaxed);
    let mut at = ticks.get();
    while let Some(tick) = at {
        arm(tick, interval, install)?;
        at = tick.next.get();
    }
    Ok(())
}

/// Gives the calling kernel thread its tick. `unset` is the interval if the program has set none.
pub(super) fn start(tick: &'static Tick, unset: u64, install: Install) -> Result<(), Errno> {
    tick.tid
        .store(rustix::thread::gettid().as_raw_nonzero().get(), Relaxed);
    tick.mask.store(signal::mask(), Relaxed);
    tick.asked.store(false, Relaxed);
    let ticks = TICKS.lock();
    let interval = match INTERVAL.load(Relaxed) {
        UNSET => unset,
        set => set,
    };
    if let Err(error) = arm(tick, interval, install) {
        disarm(tick);
        return Err(error);
    }
    tick.next.set(ticks.get());
    ticks.set(Some(tick));
    Ok(())
}

/// Removes the calling kernel thread's tick.
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

/// Removes the timers, as in a new tick. The caller has the lock of TICKS.
fn disarm(tick: &Tick) {
    for (is_there, timer) in [(&tick.armed, &tick.timer), (&tick.looks_again, &tick.again)] {
        if is_there.swap(false, Relaxed) {
            // SAFETY: the timer was created and is deleted once.
            unsafe { libc::timer_delete(timer.load(Relaxed)) };
        }
    }
}

/// Keeps the list of ticks unchanged while the process forks.
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

/// Lets the timer tick for this interval. Makes it first if there is none and one is needed. The
/// caller has the lock of TICKS.
fn arm(tick: &Tick, interval: u64, install: Install) -> Result<(), Errno> {
    if !tick.armed.load(Relaxed) {
        if interval == 0 {
            return Ok(());
        }
        install()?;
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

/// Makes the timers that signal the tick's thread. The first uses that thread's CPU clock. Any
/// thread may make it: the kernel's number for another thread's clock is the complement of its tid
/// with the bits for "thread" and "time it ran" below. The second may be missing: the number of
/// timers a user may have is limited (`RLIMIT_SIGPENDING`).
fn create_timer(tick: &Tick) -> Result<(), Errno> {
    const THREAD_CPU_CLOCK: libc::clockid_t = 0b110;
    let tid = tick.tid.load(Relaxed);
    let timer = timer(!tid << 3 | THREAD_CPU_CLOCK, tid, 0)?;
    tick.timer.store(timer, Relaxed);
    tick.armed.store(true, Relaxed);
    if let Ok(again) = self::timer(libc::CLOCK_MONOTONIC, tid, AGAIN_VALUE) {
        tick.again.store(again, Relaxed);
        // ORDERING(timers.1): Release, pairs with timers.2. A tick that sees it sees the timer.
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

/// Makes this thread's tick come again shortly, as the worker could not be taken off now. Does
/// nothing if the thread slept, which that would only disturb. `began`: the time when this look
/// began.
pub(super) fn look_again(tick: &Tick, turn: u64, frame: &Frame, began: u64) {
    if !frame.has_cut_a_call_short(guarded::load) {
        look_in(
            tick,
            turn,
            now().saturating_sub(began).saturating_mul(AGAIN_TIMES),
        );
    }
}

/// Makes the tick of the calling kernel thread come after `pause` nanoseconds, at least [`AGAIN`],
/// and later if looks keep failing in this turn.
pub(super) fn look_in(tick: &Tick, turn: u64, pause: u64) {
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
    // SAFETY: the timer exists while `looks_again`, which only this very thread clears.
    // Async-signal-safe.
    if unsafe { libc::timer_settime(tick.again.load(Relaxed), 0, &setting, null_mut()) } != 0 {
        // If it is refused, the next tick looks again.
        // SAFETY: as above.
        unsafe { *errno_place() = errno };
    }
}

/// How often the pauses of this turn have doubled, after one more failed look.
fn doublings(tick: &Tick, turn: u64) -> u32 {
    /// Long before this, the pauses are at their maximum.
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
pub(super) fn now() -> u64 {
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

/// Where errno is, in the storage that the thread pointer names now.
#[inline(never)]
pub(super) fn errno_place() -> *mut c_int {
    // SAFETY: no precondition.
    unsafe { libc::__errno_location() }
}
