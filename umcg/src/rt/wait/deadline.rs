//! Deadlines: each server keeps, in a wheel, those of the workers that began to wait on it.
//!
//! A deadline that passes unparks its worker, or cancels a scope of it. So the wheel knows nothing
//! of waiting. A worker that waits with a deadline checks its condition again when woken, as every
//! waiter does. A worker that armed a deadline takes it back when it goes on, from whichever server
//! it is on then.
//!
//! Time is nanoseconds of CLOCK_MONOTONIC in 64 bits. A server checks its wheel before it sleeps.
//! While it is busy it checks at intervals, if the wheel is not empty. A hop reads no clock.

use super::cancel;
use crate::rt::base::clock::now;
use crate::rt::base::wheel::TimerEntry;
use crate::rt::engine::guest;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server;
use crate::rt::engine::timers::Timers;
use crate::rt::scheduler::Wake;
use crate::rt::task::Task;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::ptr::NonNull;

/// The part of an entry's word that names the cancel scope; 0 for a plain unpark. Descriptors are
/// 64-aligned.
pub(super) const SCOPE: usize = 63;
/// Value of the scope part that revokes a wait in queues.
pub(super) const ALARM: usize = 63;

const _: () = assert!(cancel::DEEPEST as usize + 2 <= ALARM && align_of::<Task>() > SCOPE);

/// The server that keeps the deadlines of callers on no server.
const SERVER_OUTSIDE: usize = 0;

/// Takes back an armed deadline when dropped, also when unwinding.
pub(crate) struct Armed<'a>(&'a Timers, NonNull<TimerEntry<usize>>, bool);

impl Armed<'_> {
    /// False if the deadline has passed.
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

/// Calls `f` while a deadline of the calling worker is armed. False if the deadline has passed.
pub(crate) fn armed(running: server::Running, scope: u32, deadline: u64, f: impl FnOnce()) -> bool {
    // Keep `running` until the deadline is armed. If preempted before, the worker would go on
    // elsewhere, and its server may sleep by then without seeing a deadline that comes in.
    armed_in(
        running.local().timers(),
        running.task(),
        scope,
        deadline,
        || drop(running),
        f,
    )
}

/// Like `armed`, for a caller on no server: the runtime's first server keeps the deadline.
pub(crate) fn armed_outside(
    shared: &'static RuntimeState,
    task: &'static Task,
    scope: u32,
    deadline: u64,
    f: impl FnOnce(),
) -> bool {
    // That server may be asleep until a later deadline.
    let look = || shared.wake_from_outside(Wake::Server(SERVER_OUTSIDE));
    armed_in(
        &shared.servers[SERVER_OUTSIDE].timers,
        task,
        scope,
        deadline,
        look,
        f,
    )
}

/// Calls `then` once the deadline is armed with these timers, then `f`.
fn armed_in(
    timers: &'static Timers,
    task: &'static Task,
    scope: u32,
    deadline: u64,
    then: impl FnOnce(),
    f: impl FnOnce(),
) -> bool {
    let word = (task as *const Task).addr() | scope as usize;
    let entry = pin!(TimerEntry::new(word));
    let place = NonNull::from(entry.as_ref().get_ref());
    // SAFETY: the entry is pinned to this frame, and `armed` takes it back before that ends.
    unsafe { timers.arm(place, deadline) };
    let mut armed = Armed(timers, place, true);
    then();
    f();
    armed.take_back()
}

/// Calls `wait`, which parks the caller until `deadline` at most. A worker is unparked at the
/// deadline; for a thread, `wait` gets the deadline as its argument. False if the deadline has
/// passed.
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

/// Revokes the caller's wait in queues at the deadline, unless the value is dropped before. None if
/// there is no deadline, or the caller is a thread.
#[inline(always)]
pub(crate) fn alarm(
    entry: &mut MaybeUninit<TimerEntry<usize>>,
    deadline: u64,
) -> Option<Armed<'_>> {
    if deadline == u64::MAX {
        None
    } else {
        alarm_slow(entry, deadline)
    }
}

#[cold]
fn alarm_slow(entry: &mut MaybeUninit<TimerEntry<usize>>, deadline: u64) -> Option<Armed<'_>> {
    let Some(running) = server::running() else {
        return alarm_at_home(entry, deadline);
    };
    let timers = running.local().timers();
    let entry = NonNull::from(entry.write(TimerEntry::new(
        (running.task() as *const Task).addr() | ALARM,
    )));
    // SAFETY: the returned value borrows the entry, and takes it back before the borrow ends.
    unsafe { timers.arm(entry, deadline) };
    // Not earlier, for the reason given in `armed`.
    drop(running);
    Some(Armed(timers, entry, true))
}

/// The same for an adopted worker at home: the runtime's first server keeps the deadline.
fn alarm_at_home(entry: &mut MaybeUninit<TimerEntry<usize>>, deadline: u64) -> Option<Armed<'_>> {
    let (shared, task) = guest::runtime_at_home(guest::at_home()?);
    let timers = &shared.servers[SERVER_OUTSIDE].timers;
    let entry = NonNull::from(entry.write(TimerEntry::new((task as *const Task).addr() | ALARM)));
    // SAFETY: as in `alarm_slow`.
    unsafe { timers.arm(entry, deadline) };
    shared.wake_from_outside(Wake::Server(SERVER_OUTSIDE));
    Some(Armed(timers, entry, true))
}
