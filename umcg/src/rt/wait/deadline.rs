//! Deadlines: each server keeps those of the workers that began to wait on it, in a wheel.
//!
//! A deadline that passes unparks its worker, or cancels a scope of it; so the wheel knows nothing
//! of waiting, and who waits with a deadline looks again like everybody else. Whoever arms a
//! deadline takes it back when it goes on, from whichever server.
//!
//! Time is nanoseconds of CLOCK_MONOTONIC in 64 bits. A server looks at its wheel before it sleeps,
//! and at intervals while it is busy, if there is anything in it; a hop reads no clock.

use super::cancel;
use crate::rt::base::clock::now;
use crate::rt::base::wheel::Entry;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server;
use crate::rt::engine::timers::Timers;
use crate::rt::scheduler::Wake;
use crate::rt::task::Task;
use std::mem::MaybeUninit;
use std::pin::pin;
use std::ptr::NonNull;

/// The part of an entry's word that says which cancel scope; 0 for a plain unpark. Descriptors are
/// 64-aligned.
pub(super) const SCOPE: usize = 63;
/// In its place: to revoke a wait in queues.
pub(super) const ALARM: usize = 63;

const _: () = assert!(cancel::DEEPEST as usize + 2 <= ALARM && align_of::<Task>() > SCOPE);

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
pub(crate) fn armed(running: server::Running, scope: u32, deadline: u64, f: impl FnOnce()) -> bool {
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
pub(crate) fn armed_outside(
    shared: &'static RuntimeState,
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
