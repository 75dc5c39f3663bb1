//! Deadlines: each server keeps those of the workers that began to wait on it, in a wheel.
//!
//! A deadline that passes unparks its worker, or cancels a scope of it; so the wheel knows nothing
//! of waiting, and who waits with a deadline looks again like everybody else. Whoever arms a
//! deadline takes it back when it goes on, from whichever server.
//!
//! Time is nanoseconds of CLOCK_MONOTONIC in 64 bits. A server looks at its wheel before it sleeps,
//! and at intervals while it is busy, if there is anything in it; a hop reads no clock.

use super::cancel;
use super::global;
use super::handle::Handle;
use super::park;
use super::runtime::Shared;
use super::scheduler::Wake;
use super::server;
use super::task::Task;
use super::wait;
use super::wheel::{Entry, Wheel};
use rustix::thread::Timespec;
use rustix::time::{ClockId, clock_gettime};
use std::mem::MaybeUninit;
use std::pin::pin;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::time::{Duration, Instant};
use umcg_core::context::lock::HoldLock;

/// Now, in nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// One moment by both of the clocks' names, as close as a few looks can be: not before the instant.
fn origin() -> (Instant, u64) {
    static ORIGIN: OnceLock<(Instant, u64)> = OnceLock::new();
    const CLOSE: u64 = 1_000;
    // Under Valgrind, and where the clock is a system call, none is close.
    const LOOKS: usize = 100;
    *ORIGIN.get_or_init(|| {
        let mut best = (u64::MAX, Instant::now(), now());
        for _ in 0..LOOKS {
            let (before, instant, after) = (now(), Instant::now(), now());
            if after - before < best.0 {
                best = (after - before, instant, after);
            }
            if best.0 < CLOSE {
                break;
            }
        }
        (best.1, best.2)
    })
}

/// An instant in nanoseconds; one that is too far away is never.
pub(crate) fn nanos(instant: Instant) -> u64 {
    let (origin, nanos) = origin();
    match instant.checked_duration_since(origin) {
        Some(since) => u64::try_from(since.as_nanos())
            .unwrap_or(u64::MAX)
            .saturating_add(nanos),
        None => {
            nanos.saturating_sub(u64::try_from((origin - instant).as_nanos()).unwrap_or(u64::MAX))
        }
    }
}

/// The instant of so many nanoseconds.
pub(crate) fn instant(at: u64) -> Instant {
    let (origin, nanos) = origin();
    match at.checked_sub(nanos) {
        Some(after) => origin + Duration::from_nanos(after),
        None => origin - Duration::from_nanos(nanos - at),
    }
}

/// In so long.
pub(crate) fn after(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos())
        .unwrap_or(u64::MAX)
        .saturating_add(now())
}

/// How long it is until then; none for never.
pub(crate) fn until(deadline: u64) -> Option<Duration> {
    (deadline != u64::MAX).then(|| Duration::from_nanos(deadline.saturating_sub(now())))
}

/// For the kernel; none for never.
pub(crate) fn timespec(deadline: u64) -> Option<Timespec> {
    let spec = Timespec {
        tv_sec: (deadline / 1_000_000_000) as i64,
        tv_nsec: (deadline % 1_000_000_000) as _,
    };
    (deadline != u64::MAX).then_some(spec)
}

/// The deadlines of one server.
pub(crate) struct Timers {
    wheel: HoldLock<Wheel<usize>>,
    /// When to look at them next; `u64::MAX` for never. Written under the lock.
    next: AtomicU64,
}

/// How many deadlines are taken out under one lock.
const BATCH: usize = 64;
/// The part of an entry's word that says which cancel scope; 0 for a plain unpark. Descriptors are
/// 64-aligned.
const SCOPE: usize = 63;
/// In its place: to revoke a wait in queues.
const ALARM: usize = 63;

const _: () = assert!(cancel::DEEPEST as usize + 2 <= ALARM && align_of::<Task>() > SCOPE);

impl Timers {
    pub(crate) fn new() -> Timers {
        Timers {
            wheel: HoldLock::new(Wheel::new()),
            next: AtomicU64::new(u64::MAX),
        }
    }

    /// When to look at them next.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.wheel.lock().len()
    }

    /// # Safety
    /// The entry stays where it is until `disarm`.
    unsafe fn arm(&self, entry: NonNull<Entry<usize>>, deadline: u64) {
        let mut wheel = self.wheel.lock();
        // SAFETY: passed on.
        unsafe { wheel.insert(entry, deadline) };
        self.next.store(wheel.next(), Relaxed);
    }

    /// False when its deadline has passed.
    ///
    /// # Safety
    /// The entry was armed here.
    unsafe fn disarm(&self, entry: NonNull<Entry<usize>>) -> bool {
        let mut wheel = self.wheel.lock();
        // SAFETY: passed on.
        let was_armed = unsafe { wheel.remove(entry) };
        self.next.store(wheel.next(), Relaxed);
        was_armed
    }

    /// Wakes all whose deadline has passed. Reads the clock only if there may be any. True when
    /// there were.
    pub(crate) fn expire(&self) -> bool {
        if self.next() == u64::MAX {
            return false;
        }
        let now = now();
        let mut any = false;
        // Nobody is woken under the lock: it holds off preemption by a count that waking sets.
        while self.next() <= now {
            let mut due = [0; BATCH];
            let mut count = 0;
            let mut wheel = self.wheel.lock();
            wheel.expire(now, &mut |word| {
                // What is asked of a scope is said under the lock, which its end takes: it must not
                // come to whoever is there later.
                if !matches!(word & SCOPE, 0 | ALARM) {
                    cancel::mark(task_of(word), (word & SCOPE) as u32);
                }
                due[count] = word;
                count += 1;
                count < BATCH
            });
            self.next.store(wheel.next(), Relaxed);
            drop(wheel);
            due[..count].iter().for_each(|word| fire(*word));
            any |= count > 0;
        }
        any
    }
}

/// The task of an entry's word.
fn task_of(word: usize) -> &'static Task {
    // SAFETY: `armed` made the word of a task, which is never freed.
    unsafe { &*((word & !SCOPE) as *const Task) }
}

/// Wakes whom it was for. Whoever has the descriptor by now takes it for a wake-up without a
/// reason.
fn fire(word: usize) {
    match word & SCOPE {
        0 => park::wake(task_of(word)),
        ALARM => wait::revoke(task_of(word)),
        _ => cancel::interrupt(task_of(word)),
    }
}

/// Takes back a deadline that was armed, also when unwinding.
pub(crate) struct Armed<'a>(&'a Timers, NonNull<Entry<usize>>, bool);

impl Armed<'_> {
    /// False when the deadline has passed.
    fn take_back(&mut self) -> bool {
        if !std::mem::replace(&mut self.2, false) {
            return false;
        }
        // SAFETY: `armed` armed it, and it lives in that frame.
        unsafe { self.0.disarm(self.1) }
    }
}

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.take_back();
    }
}

/// Calls `f` while a deadline of the calling worker is armed. False when it has passed.
fn armed(running: server::Running, scope: u32, deadline: u64, f: impl FnOnce()) -> bool {
    // Not before it is armed: preempted, the worker would go on elsewhere, and its server may sleep
    // by then, looking at no deadline that comes in.
    armed_in(
        running.local().timers(),
        running.task(),
        scope,
        deadline,
        || drop(running),
        f,
    )
}

/// The same for who is on no server: the first one of the runtime keeps the deadline.
fn armed_outside(
    shared: &'static Shared,
    task: &'static Task,
    scope: u32,
    deadline: u64,
    f: impl FnOnce(),
) -> bool {
    const SERVER: usize = 0;
    // It may sleep until later.
    let look = || shared.wake_from_outside(Wake::Server(SERVER));
    armed_in(&shared.seats[SERVER].timers, task, scope, deadline, look, f)
}

/// Calls `then` once the deadline is armed with these timers, and `f`.
fn armed_in(
    timers: &'static Timers,
    task: &'static Task,
    scope: u32,
    deadline: u64,
    then: impl FnOnce(),
    f: impl FnOnce(),
) -> bool {
    let word = (task as *const Task).addr() | scope as usize;
    let entry = pin!(Entry::new(word));
    let place = NonNull::from(entry.as_ref().get_ref());
    // SAFETY: the entry is pinned to this frame, and `armed` takes it back before that ends.
    unsafe { timers.arm(place, deadline) };
    let mut armed = Armed(timers, place, true);
    then();
    f();
    armed.take_back()
}

/// Calls `wait`, which parks the caller: a worker is unparked at the deadline, a thread's wait is
/// told it. False when the deadline has passed.
pub(crate) fn with_deadline(deadline: u64, wait: impl FnOnce(u64) -> bool) -> bool {
    if deadline == u64::MAX {
        return wait(deadline);
    }
    let Some(running) = server::running() else {
        return wait(deadline);
    };
    if deadline <= now() {
        return false;
    }
    armed(running, 0, deadline, || {
        wait(deadline);
    })
}

/// Has what the caller waits for in queues revoked at the deadline, until the value is dropped.
/// None if there is no deadline, or the caller is a thread.
#[inline(always)]
pub(crate) fn alarm(entry: &mut MaybeUninit<Entry<usize>>, deadline: u64) -> Option<Armed<'_>> {
    if deadline == u64::MAX {
        None
    } else {
        alarm_slow(entry, deadline)
    }
}

#[cold]
fn alarm_slow(entry: &mut MaybeUninit<Entry<usize>>, deadline: u64) -> Option<Armed<'_>> {
    let running = server::running()?;
    let timers = running.local().timers();
    let entry =
        NonNull::from(entry.write(Entry::new((running.task() as *const Task).addr() | ALARM)));
    // SAFETY: borrowed by what is returned, which takes it back before the borrow ends.
    unsafe { timers.arm(entry, deadline) };
    // Not before, as in `armed`.
    drop(running);
    Some(Armed(timers, entry, true))
}

/// Stops the caller for so long; other workers run meanwhile. A plain thread sleeps in the kernel.
/// Switches. A point of cancellation.
pub fn sleep(duration: Duration) {
    sleep_nanos(after(duration));
}

/// Stops the caller until `deadline`. As [`sleep`].
pub fn sleep_until(deadline: Instant) {
    sleep_nanos(nanos(deadline));
}

fn sleep_nanos(deadline: u64) {
    while now() < deadline {
        park::park_until(&"sleep", deadline);
    }
}

/// The time was over before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

impl std::fmt::Display for Elapsed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the time was over before the work was done")
    }
}

impl std::error::Error for Elapsed {}

/// Calls `f`. When it waits somewhere at a time later than `duration` from now, that wait ends by
/// unwinding to here: destructors run, and the result is [`Elapsed`]. What `f` computes without
/// waiting is not cut short, unless it calls [`checkpoint`](super::checkpoint).
///
/// # Errors
/// [`Elapsed`].
///
/// Waits that are no points of cancellation last as long as they last, and `f` unwinds later:
/// [`sync::Mutex::lock`](crate::sync::Mutex) and the locks like it (`try_lock_for` ends in time),
/// the end of a [`scope`](super::scope()), which waits for its workers, and what blocks in the
/// kernel in [`blocking`](crate::blocking).
///
/// What unwinds through a `std::sync::Mutex` guard or a `LazyLock` poisons that: see
/// [`shielded`](super::shielded()), in which no wait is cut short.
///
/// Nor is any cut short in destructors that run while the caller unwinds, or at a worker's end:
/// those of worker-locals and thread-locals, of a result that nobody wants, of a function that was
/// never called. There `f` is done however long that takes, and the result is `Ok`, as it is in
/// `shielded`. Limit such waits by deadlines of their own (`park_timeout`, `recv_timeout`).
///
/// For a plain thread the global runtime keeps the time.
///
/// # Panics
/// For more than 60 within each other, and where the global runtime is needed and cannot be
/// started.
pub fn timeout<T>(duration: Duration, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    timeout_nanos(after(duration), f)
}

/// [`timeout`] with the time when it is over.
///
/// # Errors
/// As [`timeout`].
///
/// # Panics
/// As [`timeout`].
pub fn timeout_at<T>(deadline: Instant, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    timeout_nanos(nanos(deadline), f)
}

fn timeout_nanos<T>(deadline: u64, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    let running = server::running();
    let outside = match &running {
        Some(_) => None,
        None => match global::shared_of_caller() {
            Ok(shared) => Some(shared),
            Err(error) => panic!(
                "timeout: nobody keeps the time, as the global runtime could not be started: \
                 {error}"
            ),
        },
    };
    let task = running
        .as_ref()
        .map_or_else(|| Handle::current().task(), server::Running::task);
    let Some(scope) = cancel::open(task) else {
        drop(running);
        panic!("timeout: too many within each other");
    };
    let mut result = None;
    let body = || result = Some(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)));
    match (running, outside) {
        (Some(running), _) => armed(running, scope, deadline, body),
        (None, Some(shared)) => armed_outside(shared, task, scope, deadline, body),
        (None, None) => unreachable!("a caller is on a server or not"),
    };
    cancel::close(task, scope);
    match result {
        Some(Ok(value)) => Ok(value),
        Some(Err(payload)) => match payload.downcast::<cancel::Unwinding>() {
            Ok(unwinding) if unwinding.0 == scope => Err(Elapsed),
            Ok(unwinding) => std::panic::resume_unwind(unwinding),
            Err(payload) => std::panic::resume_unwind(payload),
        },
        None => Err(Elapsed),
    }
}
