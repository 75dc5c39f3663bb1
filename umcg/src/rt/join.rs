//! Waiting for a worker's end, and what it returned.
//!
//! # States of a worker's `join` word
//!
//! ```text
//!              join: commit                  end
//!   RUNNING ------------------> waiter ------------> DONE      the handle has the worker's stack, and what it returned
//!      |  ^                       |                   ^
//!      |  '--- leave: timeout ----'                   |
//!      |        or cancelled                          |
//!      |------------------------ end -----------------'
//!      '---- drop: DETACHED ---- end: the server recycles the stack
//! ```
//!
//! RUNNING and a waiter become ABANDONED when the worker's runtime is ended without it; from there,
//! if it still computes, its end makes it DONE, and its handle DETACHED.
//!
//! - J1: a waiter is a task and how it waits: suspended (who takes the word away has the right to
//!   run it) or parked (it is unparked); or who waits for other things, too (`ending`).
//! - J2: a suspended waiter enters the word after its context was saved, on its server's stack.
//! - J3: the ended worker's server writes DONE after the worker has left its stack for good: who
//!   sees it may recycle that.
//! - J4: whoever is second recycles: the handle that finds DONE, the end that finds DETACHED. What
//!   was returned is dropped by the worker itself, while it has its locals, if it is detached in
//!   time; if the handle goes between the worker's look at that and its end, the worker is run once
//!   more for that.
//!
//! One locked operation at the end, one where the joiner has to wait.

use super::cancel::{self, Shield};
use super::ending;
use super::handle::Handle;
use super::local;
use super::park;
use super::runnable::Runnable;
use super::runtime;
use super::scheduler::Why;
use super::server::{self, Local};
use super::task::{IS_THREAD, NO_SERVER, Task};
use super::time;
use std::any::Any;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::time::{Duration, Instant};

pub(crate) const RUNNING: usize = 0;
const DONE: usize = 1;
const DETACHED: usize = 2;
const ABANDONED: usize = 3;
/// How a waiter waits, in the low bits of its address.
const SUSPENDED: usize = 4;
const UNPARKS: usize = 8;
/// It is no task, but an [`Ending`](super::ending::Ending).
pub(super) const SELECTS: usize = 16;
pub(super) const TASK: usize = !63;

/// Why there is no value.
#[derive(Debug)]
pub enum JoinError {
    /// The worker panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// It was asked to end by [`JoinHandle::abort`], and did.
    Cancelled,
    /// It had not ended when its runtime was ended without it, by
    /// [`Runtime::shutdown_timeout`](super::Runtime::shutdown_timeout).
    Abandoned,
}

impl JoinError {
    fn of(payload: Box<dyn Any + Send>) -> JoinError {
        if payload.is::<cancel::Unwinding>() {
            JoinError::Cancelled
        } else {
            JoinError::Panicked(payload)
        }
    }

    /// The message of the panic, if its payload is one.
    pub fn message(&self) -> Option<&str> {
        let JoinError::Panicked(payload) = self else {
            return None;
        };
        payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
    }

    /// Goes on with the worker's panic in the caller, or with one that says that it was cancelled.
    pub fn resume_unwind(self) -> ! {
        match self {
            JoinError::Panicked(payload) => std::panic::resume_unwind(payload),
            JoinError::Cancelled | JoinError::Abandoned => panic!("{self}"),
        }
    }
}

impl std::fmt::Display for JoinError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            JoinError::Panicked(_) => "the worker panicked",
            JoinError::Cancelled => "the worker was cancelled",
            JoinError::Abandoned => "the worker was given up by its runtime",
        })?;
        match self.message() {
            Some(message) => write!(f, ": {message}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for JoinError {}

/// What a worker leaves for its handle.
pub(crate) type Packet<R> = Result<R, Box<dyn Any + Send>>;

/// Larger packets are kept on the heap, to leave the stack to the frames.
const LARGEST_IN_PLACE: usize = 512;

/// Where a packet lies: in the room on the worker's stack, or on the heap.
pub(crate) const fn in_place<R>() -> bool {
    size_of::<Packet<R>>() <= LARGEST_IN_PLACE
}

/// The right to a worker's end: what it returned, or that it panicked. Dropping it detaches the
/// worker, which runs on.
///
/// Nobody wants the worker's result then. If the worker has ended before, the result is dropped
/// with the handle: that is code of the program's, which may wait, and whose panic goes on in the
/// caller. If the worker ends later it drops its result itself, and a panic in that ends there.
pub struct JoinHandle<R> {
    task: &'static Task,
    _result: PhantomData<R>,
}

// SAFETY: the value comes from another thread anyway, which is what R: Send allows.
unsafe impl<R: Send> Send for JoinHandle<R> {}
// SAFETY: a shared handle gives nothing of R away.
unsafe impl<R: Send> Sync for JoinHandle<R> {}

impl<R> JoinHandle<R> {
    /// # Safety
    /// The task is that of a new worker which will leave a `Packet<R>`; there is one handle to it.
    pub(crate) unsafe fn new(task: &'static Task) -> JoinHandle<R> {
        JoinHandle {
            task,
            _result: PhantomData,
        }
    }

    /// Waits for the end, and returns what the worker returned. Switches. A point of cancellation:
    /// then the worker is detached.
    ///
    /// # Errors
    /// [`JoinError`]: the worker panicked, was cancelled, or was given up.
    ///
    /// # Panics
    /// When the caller is that worker: it would wait for ever.
    #[inline]
    pub fn join(self) -> Result<R, JoinError> {
        if !has_ended(self.task) {
            wait(self.task);
            return self.finish();
        }
        self.take()
    }

    /// After a wait.
    #[inline]
    fn finish(self) -> Result<R, JoinError> {
        if has_ended(self.task) {
            self.take()
        } else {
            self.give_up()
        }
    }

    #[cold]
    fn give_up(self) -> Result<R, JoinError> {
        // ORDERING(join.3): Release, pairs with join.4, as in `drop`.
        // ORDERING(join.2): Acquire, likewise.
        match self
            .task
            .join
            .compare_exchange(ABANDONED, DETACHED, AcqRel, Acquire)
        {
            Ok(_) => {
                std::mem::forget(self);
                Err(JoinError::Abandoned)
            }
            // It has ended after all.
            Err(_) => self.take(),
        }
    }

    /// What the worker returned, if it has ended.
    ///
    /// # Errors
    /// The handle, if it has not.
    pub fn try_join(self) -> Result<Result<R, JoinError>, JoinHandle<R>> {
        if self.is_finished() {
            Ok(self.finish())
        } else {
            Err(self)
        }
    }

    /// Like [`JoinHandle::join`], until `deadline` at most.
    ///
    /// # Errors
    /// The handle, if the worker has not ended by then.
    pub fn join_deadline(self, deadline: Instant) -> Result<Result<R, JoinError>, JoinHandle<R>> {
        if wait_until(self.task, time::nanos(deadline)) {
            Ok(self.finish())
        } else {
            Err(self)
        }
    }

    /// Like [`JoinHandle::join`], for `timeout` at most.
    ///
    /// # Errors
    /// As [`JoinHandle::join_deadline`].
    pub fn join_timeout(self, timeout: Duration) -> Result<Result<R, JoinError>, JoinHandle<R>> {
        if wait_until(self.task, time::after(timeout)) {
            Ok(self.finish())
        } else {
            Err(self)
        }
    }

    /// Whether the worker has ended, or was given up: so that `join` returns at once.
    pub fn is_finished(&self) -> bool {
        is_over(self.task)
    }

    /// Asks the worker to end: it unwinds, running destructors, from the next place where it waits
    /// or from where it waits now. One that has not begun does not begin, but what its function
    /// owns is dropped in it. It may take a while, or not happen at all if the worker waits nowhere
    /// any more; `join` tells.
    pub fn abort(&self) {
        cancel::ask(self.task, 1);
    }

    /// The worker's handle.
    pub fn handle(&self) -> Handle {
        Handle::of(self.task)
    }

    pub(crate) fn task(&self) -> &'static Task {
        self.task
    }

    /// Takes the packet, and recycles the worker.
    fn take(self) -> Result<R, JoinError> {
        let task = ManuallyDrop::new(self).task;
        // SAFETY: DONE, so the worker has left a packet of R and its stack; the handle is used up.
        let packet = unsafe { read_packet::<R>(task) };
        // SAFETY: likewise (J3, J4).
        unsafe { server::recycle(task) };
        packet.map_err(JoinError::of)
    }
}

impl<R> Drop for JoinHandle<R> {
    fn drop(&mut self) {
        // ORDERING(join.3): Release, pairs with join.4: the end that recycles comes after all that
        // the handle did.
        // ORDERING(join.2): Acquire, as in `join`.
        let detach = |from| {
            self.task
                .join
                .compare_exchange(from, DETACHED, AcqRel, Acquire)
        };
        if detach(RUNNING).is_err_and(|now| now == DONE || detach(ABANDONED).is_err()) {
            // SAFETY: only DONE is left, as nobody but this handle could wait; as in `take`.
            let packet = unsafe { read_packet::<R>(self.task) };
            // SAFETY: as above.
            unsafe { server::recycle(self.task) };
            // Last: it may panic.
            drop(packet);
        }
    }
}

impl<R> std::fmt::Debug for JoinHandle<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JoinHandle")
            .field("handle", &self.handle())
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// Whether a worker has ended, and its handle is still to be used up.
#[inline(always)]
pub(crate) fn has_ended(task: &Task) -> bool {
    // ORDERING(join.2): Acquire, pairs with join.1.
    task.join.load(Acquire) == DONE
}

/// Whether there is nothing to wait for any more.
pub(crate) fn is_over(task: &Task) -> bool {
    // ORDERING(join.2): Acquire, pairs with join.1.
    matches!(task.join.load(Acquire), DONE | ABANDONED)
}

/// # Safety
/// The worker has left a packet of R, which nobody has read.
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

/// What the calling worker returned, for its handle. None, as it is dropped, if nobody wants it any
/// more.
#[inline(always)]
pub(crate) fn wanted<R>(task: &Task, packet: Packet<R>) -> Option<Packet<R>> {
    // ORDERING(join.4): Acquire, pairs with join.3.
    if task.join.load(Acquire) != DETACHED {
        return Some(packet);
    }
    forget_quietly(packet);
    None
}

/// The calling worker is over: leaves its packet, if that is `wanted`, and its stack for good.
///
/// # Safety
/// The caller is the worker of `task`, and has nothing on its stack that is wanted; `room` is the
/// place of a packet of R in it, if it is small.
#[inline(always)]
pub(crate) unsafe fn end<R>(task: &'static Task, room: *mut (), packet: Option<Packet<R>>) -> ! {
    // Those that destructors of thread-locals made.
    local::clear(task);
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
        // Back: the handle went without the packet. Its destructor may make thread-locals once
        // more.
        // SAFETY: left above, and nobody else reads it.
        let packet = unsafe { read_packet::<R>(task) };
        // SAFETY: the caller is that worker, for what its body has left.
        unsafe { task.worker().run(|| forget_quietly(packet)) };
        local::clear(task);
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

/// Drops what nobody wants. A panic in its destructor is like one in a detached worker: it is over
/// with that.
pub(crate) fn forget_quietly<R>(packet: Packet<R>) {
    let _ = catch_unwind(AssertUnwindSafe(|| drop(packet)));
}

/// Inlined, like `end`: a call that never returns would put the returns of the joiner out of step
/// with their predictor. Not where nothing else is made fast: it is much code, for each type of
/// function that workers have.
#[cfg_attr(not(debug_assertions), inline(always))]
fn leave_for_good(task: &'static Task) {
    loop {
        if let Some(running) = server::running() {
            return match take_joiner(&running, task) {
                // It comes to nothing but this worker's end, so it may as well go on here and now.
                Some(joiner) => running.switch_to(joiner, ended),
                None => running.suspend(ended),
            };
        }
        // A worker that ends in a blocking scope of its own comes back from it first.
        // SAFETY: the caller is that worker.
        unsafe { task.worker().end_blocking() };
    }
}

/// Who waits for the end of the calling worker, taken away from there, if it is suspended and may
/// run here next.
#[inline(always)]
fn take_joiner(running: &server::Running, task: &'static Task) -> Option<Runnable> {
    let waiter = task.join.load(Relaxed);
    let shared = running.local().shared();
    if waiter & SUSPENDED == 0 || running.local().is_due() || !shared.has_slots {
        return None;
    }
    // SAFETY: a waiter is the address of a task, which is never freed.
    let joiner: &'static Task = unsafe { &*((waiter & TASK) as *const Task) };
    // As a pointer only: it may have been woken otherwise, and be anybody's by now.
    let is_ours = std::ptr::eq(joiner.shared.load(Relaxed), shared);
    if !is_ours || joiner.hints.server.load(Relaxed) != NO_SERVER {
        return None;
    }
    // SAFETY: taken from where it waited, with the right to run it.
    leave(&task.join, joiner).then(|| unsafe { Runnable::new(joiner) })
}

/// A step: the worker has left its stack for good.
fn ended(local: &Local, worker: Runnable) {
    let task = worker.into_task();
    // Who sees DONE may use the descriptor again: so that is looked at first.
    let scope = task.scope.load(Relaxed);
    // ORDERING(join.1): Release, pairs with join.2: who sees DONE sees what the worker left.
    // ORDERING(join.4): Acquire, pairs with join.3.
    // ORDERING(join.6): Acquire, pairs with join.5.
    match task.join.swap(DONE, AcqRel) {
        RUNNING | ABANDONED => end_count(local, scope),
        DETACHED if task.result.load(Relaxed).is_null() => {
            end_count(local, scope);
            // SAFETY: nobody has a right to it any more, and it is suspended for good.
            unsafe { local.recycle(task) };
        }
        DETACHED => {
            // The handle went in between: the worker has to drop what it left.
            // SAFETY: the caller has the right to run it.
            local.make_ready(unsafe { Runnable::new(task) }, Why::Woken);
        }
        waiter => {
            end_count(local, scope);
            wake(local, waiter);
        }
    }
}

/// Whether somebody wants what an ended worker has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Wanted,
    Unwanted,
}

/// The calling thread, a worker no more, has left its packet.
pub(crate) fn end_outside(task: &'static Task) -> Ending {
    // ORDERING(join.1): Release, as in `ended`.
    // ORDERING(join.6): Acquire, likewise.
    match task.join.swap(DONE, AcqRel) {
        RUNNING | ABANDONED => Ending::Wanted,
        DETACHED => Ending::Unwanted,
        waiter => {
            wake_outside(waiter);
            Ending::Wanted
        }
    }
}

/// Whoever was in the word of a worker goes on. Not in a step.
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

/// The runtime ends without this worker: nobody waits for it any more.
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

/// One worker less; who waits for a scope may go on.
fn end_count(local: &Local, scope: *mut ()) {
    // SAFETY: the scope that the worker was put into, if any; it is told once.
    if let Some(owner) = unsafe { super::scope::ended(scope) } {
        park::wake_in_step(local, owner.task());
    }
    // ORDERING(ended.1): Release, pairs with ended.2: who counts this end counts all workers that
    // were made before it.
    local.ended.store(local.ended.load(Relaxed) + 1, Release);
}

fn wake(local: &Local, waiter: usize) {
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

/// Waits for the end of `child`.
#[inline]
fn wait(child: &'static Task) {
    let Some(running) = server::running() else {
        wait_until(child, u64::MAX);
        return;
    };
    let task = running.task();
    if cancel::is_asked(task) {
        drop(running);
        cancel::unwind(task);
        let _shield = Shield::new(task);
        wait_until(child, u64::MAX);
        return;
    }
    if std::ptr::eq(child, task) {
        // First: a panic runs code of the program's, which may wait.
        drop(running);
        waits_for_itself(task);
    }
    task.set_reason(&"join");
    // ORDERING(waits-at.1): Release, pairs with waits-at.2: the descriptor may be new, and on the
    // heap.
    task.waits_at
        .store((&raw const child.join).cast_mut(), Release);
    running.suspend(commit);
    task.waits_at.store(null_mut(), Relaxed);
    cancel::check(task);
    if !is_over(child) {
        wait_until(child, u64::MAX); // woken without a reason
    }
}

/// Nothing else could make it go on, so it is told.
#[cold]
pub(super) fn waits_for_itself(task: &'static Task) -> ! {
    let worker = task.worker();
    match worker.name() {
        name if name.is_empty() => {
            panic!("worker {:#x} (no name) waits for its own end", worker.id())
        }
        name => panic!("worker `{name}` waits for its own end"),
    }
}

/// On the server's stack: the joiner is wholly suspended.
fn commit(local: &Local, worker: Runnable) {
    let task = worker.into_task();
    let waiter = (task as *const Task).addr() | SUSPENDED;
    // SAFETY: set by `wait`, to the word of a task, which is never freed.
    let word = unsafe { &*task.waits_at.load(Relaxed) };
    // ORDERING(join.5): Release, pairs with join.6: who takes the right sees the saved context.
    // ORDERING(join.2): Acquire, as in `join`.
    let entered = word
        .compare_exchange(RUNNING, waiter, AcqRel, Acquire)
        .is_ok();
    if !entered || (cancel::was_asked(task) && leave(word, task)) {
        // SAFETY: it did not enter the word, or was taken from there again.
        local.make_ready(unsafe { Runnable::new(task) }, Why::Woken);
    }
}

/// Takes a suspended waiter away from where it waits, and the right to run it with it. False if it
/// does not wait there.
pub(crate) fn leave(word: &AtomicUsize, task: &'static Task) -> bool {
    // ORDERING(join.6): Acquire, as in `ended`.
    word.compare_exchange(
        (task as *const Task).addr() | SUSPENDED,
        RUNNING,
        Acquire,
        Relaxed,
    )
    .is_ok()
}

/// Waits for the end of `child` by parking, or until it is given up, until the deadline. False when
/// that has passed first.
pub(crate) fn wait_until(child: &'static Task, deadline: u64) -> bool {
    /// Takes the waiter away, also when unwinding.
    struct Waiting(&'static Task, usize);
    impl Drop for Waiting {
        fn drop(&mut self) {
            let _ = self
                .0
                .join
                .compare_exchange(self.1, RUNNING, Relaxed, Relaxed);
        }
    }
    let task = Handle::current().task();
    if deadline == u64::MAX && std::ptr::eq(child, task) {
        waits_for_itself(task);
    }
    let waiter = (task as *const Task).addr() | UNPARKS;
    // ORDERING(join.5): Release, pairs with join.6: who ends finds the descriptor of a thread
    // whole, which may be new.
    // ORDERING(join.2): Acquire, as in `join`.
    if child
        .join
        .compare_exchange(RUNNING, waiter, AcqRel, Acquire)
        .is_err()
    {
        return true;
    }
    let _waiting = Waiting(child, waiter);
    loop {
        if is_over(child) {
            return true;
        }
        if deadline != u64::MAX && time::now() >= deadline {
            return false;
        }
        park::park_until(&"join", deadline);
    }
}

/// Waits for the end of a worker whose handle is not used up, and whose runtime nobody can end,
/// whatever is asked of the caller.
pub(crate) fn wait_shielded(child: &'static Task) {
    let _shield = Shield::new(Handle::current().task());
    wait_until(child, u64::MAX);
    if !has_ended(child) {
        // What it borrows would go.
        umcg_core::fatal(format_args!(
            "a worker was given up that its runtime still waits for, which is a bug of umcg's"
        ));
    }
}
