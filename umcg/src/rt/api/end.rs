//! The end of a worker: the packet for its handle, and the waiters that are woken.

use super::count;
use super::ending;
use crate::rt::engine::runtime;
use crate::rt::engine::server::{self, ServerState};
use crate::rt::scheduler::Why;
use crate::rt::task::runnable::Runnable;
use crate::rt::task::{IS_THREAD, NO_SERVER, Task, locals};
use crate::rt::wait::joined::{
    ABANDONED, DETACHED, DONE, RUNNING, SELECTS, SUSPENDED, TASK, leave,
};
use crate::rt::wait::park;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::Ordering::*;

/// The result that a worker leaves for its handle.
pub(crate) type Packet<R> = Result<R, Box<dyn Any + Send>>;

/// Larger packets are kept on the heap, to leave the stack to the frames.
const LARGEST_IN_PLACE: usize = 512;

/// Where a packet lies: in the room on the worker's stack, or on the heap.
pub(crate) const fn in_place<R>() -> bool {
    size_of::<Packet<R>>() <= LARGEST_IN_PLACE
}

/// # Safety
/// The worker has left a packet of R, which has not been read.
pub(crate) unsafe fn read_packet<R>(task: &Task) -> Packet<R> {
    let place = task.result.load(Relaxed);
    if in_place::<R>() && task.flags.load(Relaxed) & IS_THREAD == 0 {
        // SAFETY: passed on.
        unsafe { place.cast::<Packet<R>>().read() }
    } else {
        // SAFETY: it was left by `leave_packet`, in a box.
        *unsafe { Box::from_raw(place.cast::<Packet<R>>()) }
    }
}

/// The result of the calling worker, for its handle. If the worker is detached, drops the result
/// and returns None.
#[inline(always)]
pub(crate) fn wanted<R>(task: &Task, packet: Packet<R>) -> Option<Packet<R>> {
    // ORDERING(join.4): Acquire, pairs with join.3.
    if task.join.load(Acquire) != DETACHED {
        return Some(packet);
    }
    forget_quietly(packet);
    None
}

/// Ends the calling worker: leaves its packet, if that is `wanted`, and leaves its stack for good.
///
/// # Safety
/// The caller is the worker of `task`, and no value on its stack is needed any more. `room` is the
/// place on it of a packet of R, if that is small.
#[inline(always)]
pub(crate) unsafe fn end<R>(task: &'static Task, room: *mut (), packet: Option<Packet<R>>) -> ! {
    // Drops locals that destructors of thread-locals made.
    locals::clear(task);
    let mut is_left = packet.is_some();
    if let Some(packet) = packet {
        // SAFETY: passed on.
        let place = unsafe { leave_packet(room, packet) };
        task.result.store(place, Relaxed);
    }
    loop {
        leave_for_good(task);
        assert!(
            std::mem::take(&mut is_left),
            "a worker that was recycled ran"
        );
        // The worker runs again: the handle was dropped without taking the packet. The packet's
        // destructor may make thread-locals once more.
        // SAFETY: left above, and no other thread reads it.
        let packet = unsafe { read_packet::<R>(task) };
        // SAFETY: the caller is that worker, and its body has returned.
        unsafe { task.worker().run(|| forget_quietly(packet)) };
        locals::clear(task);
        task.result.store(null_mut(), Relaxed);
        task.join.store(DETACHED, Relaxed);
    }
}

/// # Safety
/// As `end`.
unsafe fn leave_packet<R>(room: *mut (), packet: Packet<R>) -> *mut () {
    if in_place::<R>() {
        // SAFETY: passed on.
        unsafe { room.cast::<Packet<R>>().write(packet) };
        room
    } else {
        Box::into_raw(Box::new(packet)).cast()
    }
}

/// Drops a result that is not wanted. If its destructor panics, the panic ends here, as in a
/// detached worker.
pub(crate) fn forget_quietly<R>(packet: Packet<R>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(packet)));
}

/// Inlined, like `end`: a call that never returns would put the returns of the joiner out of step
/// with their predictor. Not inlined in builds without optimisation: it is much code, for each type
/// of function that workers have.
#[cfg_attr(not(debug_assertions), inline(always))]
fn leave_for_good(task: &'static Task) {
    loop {
        if let Some(running) = server::running() {
            return match take_joiner(&running, task) {
                // The step leads to this worker's end only, so the joiner may run here and now.
                Some(joiner) => running.switch_to(joiner, ended),
                None => running.suspend(ended),
            };
        }
        // A worker that ends in a blocking scope of its own comes back from it first.
        // SAFETY: the caller is that worker.
        unsafe { task.worker().end_blocking() };
    }
}

/// Takes the waiter for the end of the calling worker out of the join word. Only if it is suspended
/// and may run here next.
#[inline(always)]
fn take_joiner(running: &server::Running, task: &'static Task) -> Option<Runnable> {
    let waiter = task.join.load(Relaxed);
    let shared = running.local().shared();
    if waiter & SUSPENDED == 0 || running.local().is_due() || !shared.has_slots {
        return None;
    }
    // SAFETY: a waiter is the address of a task, which is never freed.
    let joiner: &'static Task = unsafe { &*((waiter & TASK) as *const Task) };
    // Only compared as a pointer: the task may have been woken otherwise, and may be another
    // worker's by now.
    let is_ours = std::ptr::eq(joiner.shared.load(Relaxed).cast(), shared);
    if !is_ours || joiner.hints.server.load(Relaxed) != NO_SERVER {
        return None;
    }
    // SAFETY: taken from where it waited, with the right to run it.
    leave(&task.join, joiner).then(|| unsafe { Runnable::new(joiner) })
}

/// A step. The worker has left its stack for good.
fn ended(local: &ServerState, worker: Runnable) {
    let task = worker.into_task();
    // A thread that sees DONE may reuse the descriptor: so this is read first.
    let scope = task.scope.load(Relaxed);
    // ORDERING(join.1): Release, pairs with join.2: a thread that sees DONE sees the worker's
    // packet.
    // ORDERING(join.4): Acquire, pairs with join.3.
    // ORDERING(join.6): Acquire, pairs with join.5.
    match task.join.swap(DONE, AcqRel) {
        RUNNING | ABANDONED => end_count(local, scope),
        DETACHED if task.result.load(Relaxed).is_null() => {
            end_count(local, scope);
            // SAFETY: no other party has a right to it any more, and it is suspended for good.
            unsafe { local.recycle(task) };
        }
        DETACHED => {
            // The handle was dropped in between: the worker has to drop its packet.
            // SAFETY: the caller has the right to run it.
            local.make_ready(unsafe { Runnable::new(task) }, Why::Woken);
        }
        waiter => {
            end_count(local, scope);
            wake(local, waiter);
        }
    }
}

/// Whether a handle wants the packet of an ended worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PacketFate {
    Wanted,
    Unwanted,
}

/// Marks the end of the calling thread, which is no longer a worker. It has left its packet.
pub(crate) fn end_outside(task: &'static Task) -> PacketFate {
    // ORDERING(join.1): Release, as in `ended`.
    // ORDERING(join.6): Acquire, likewise.
    match task.join.swap(DONE, AcqRel) {
        RUNNING | ABANDONED => PacketFate::Wanted,
        DETACHED => PacketFate::Unwanted,
        waiter => {
            wake_outside(waiter);
            PacketFate::Wanted
        }
    }
}

/// Wakes the waiter that was in a worker's join word. Not for use in a step.
fn wake_outside(waiter: usize) {
    if waiter & SELECTS != 0 {
        return ending::tell(waiter, None);
    }
    // SAFETY: a waiter is the address of a task, which is never freed.
    let task: &'static Task = unsafe { &*((waiter & TASK) as *const Task) };
    if waiter & SUSPENDED != 0 {
        // SAFETY: the word gave the right to run it.
        runtime::ready(unsafe { Runnable::new(task) }, Why::Woken);
    } else {
        park::wake(task);
    }
}

/// The runtime ends without this worker: wakes its waiter.
pub(crate) fn abandon(task: &'static Task) {
    let mut word = task.join.load(Relaxed);
    while !matches!(word, DONE | DETACHED | ABANDONED) {
        // ORDERING(join.6): Acquire, pairs with join.5.
        match task.join.compare_exchange(word, ABANDONED, AcqRel, Relaxed) {
            Ok(RUNNING) => return,
            Ok(waiter) => return wake_outside(waiter),
            Err(now) => word = now,
        }
    }
}

/// Counts one worker less. Wakes the waiter of its scope if that may go on.
fn end_count(local: &ServerState, scope: *mut ()) {
    // SAFETY: the scope that the worker was put into, if any; this is called once for the worker.
    if let Some(owner) = unsafe { count::ended(scope) } {
        park::wake_in_step(local, owner.task());
    }
    // ORDERING(ended.1): Release, pairs with ended.2: a thread that counts this end counts all
    // workers that were made before it.
    local.ended.store(local.ended.load(Relaxed) + 1, Release);
}

fn wake(local: &ServerState, waiter: usize) {
    if waiter & SELECTS != 0 {
        return ending::tell(waiter, Some(local));
    }
    // SAFETY: a waiter is the address of a task, which is never freed.
    let task: &'static Task = unsafe { &*((waiter & TASK) as *const Task) };
    if waiter & SUSPENDED != 0 {
        // SAFETY: the word gave the right to run it.
        runtime::ready_in_step(local, unsafe { Runnable::new(task) }, Why::Woken);
    } else {
        park::wake_in_step(local, task);
    }
}
