//! Waiting for a worker's end and its result.
//!
//! The states of the word that is waited on: [`joined`](crate::rt::wait::joined).

use super::end::read_packet;
use super::ending::Ending;
use crate::rt::base::clock;
use crate::rt::base::timed::timed;
use crate::rt::engine::server::{self, ServerState};
use crate::rt::scheduler::Why;
use crate::rt::task::runnable::Runnable;
use crate::rt::task::{Handle, Task};
use crate::rt::wait::cancel::{self, Shield};
use crate::rt::wait::joined::{
    ABANDONED, DETACHED, DONE, RUNNING, SUSPENDED, UNPARKS, has_ended, is_over, leave,
    waits_for_itself,
};
use crate::rt::wait::{interrupt, park};
use std::any::Any;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::*;

/// Why a worker has no result.
#[derive(Debug)]
pub enum JoinError {
    /// The worker panicked, with this payload.
    Panicked(Box<dyn Any + Send>),
    /// It was asked to end by [`JoinHandle::abort`], and ended.
    Cancelled,
    /// It had not ended when its runtime was ended without it, by
    /// [`Runtime::shutdown_timeout`](crate::rt::Runtime::shutdown_timeout).
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

    /// The panic's message, if the payload is one.
    pub fn message(&self) -> Option<&str> {
        let JoinError::Panicked(payload) = self else {
            return None;
        };
        payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
    }

    /// Goes on with the worker's panic in the caller. If the worker was cancelled or abandoned,
    /// panics with a message that says so.
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

/// The right to a worker's end: its result, or its panic. Dropping the handle detaches the worker,
/// which runs on.
///
/// The result is not wanted then. If the worker has ended before, the result is dropped with the
/// handle: that runs code of the program's, which may wait, and whose panic goes on in the caller.
/// If the worker ends later it drops its result itself, and a panic in that ends there.
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
    /// The task is that of a new worker which will leave a `Packet<R>`. It has no other handle.
    pub(crate) unsafe fn new(task: &'static Task) -> JoinHandle<R> {
        JoinHandle {
            task,
            _result: PhantomData,
        }
    }

    /// Waits for the worker's end, and returns its result. Switches. A point of cancellation: if
    /// the caller is cancelled, the worker is detached.
    ///
    /// # Errors
    /// [`JoinError`]: the worker panicked, was cancelled, or was given up.
    ///
    /// # Panics
    /// If the caller is that worker: it would wait for ever.
    #[inline]
    pub fn join(self) -> Result<R, JoinError> {
        if !has_ended(self.task) {
            wait(self.task);
            return self.finish();
        }
        self.take()
    }

    /// Called after a wait.
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

    /// Returns the worker's result, if it has ended.
    ///
    /// # Errors
    /// The handle, if the worker has not ended.
    pub fn try_join(self) -> Result<Result<R, JoinError>, JoinHandle<R>> {
        if self.is_finished() {
            Ok(self.finish())
        } else {
            Err(self)
        }
    }

    timed! {
        "JoinHandle::join";
        /// # Errors
        /// The handle, if the worker has not ended by then.
        pub fn join_deadline, join_timeout(self) -> Result<Result<R, JoinError>, JoinHandle<R>>;
        |deadline| if wait_until(self.task, deadline) {Ok(self.finish())} else {Err(self)}
    }

    /// Whether the worker has ended, or was given up. Then `join` returns at once.
    pub fn is_finished(&self) -> bool {
        is_over(self.task)
    }

    /// Asks the worker to end: it unwinds, running destructors, from the place where it waits, or
    /// from the next place where it waits. A worker that has not begun does not begin, but drops in
    /// its own context the values that its function owns. The end may take a while, or never come,
    /// if the worker waits nowhere any more. Use `join` to find out.
    pub fn abort(&self) {
        interrupt::ask(self.task, 1);
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

impl<R> JoinHandle<R> {
    /// The worker's end as an operation, to wait for it beside others: see
    /// [`select`](mod@crate::select). Afterwards [`JoinHandle::join`] returns at once.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let mut worker = umcg::spawn(|| 6 * 7);
    /// umcg::select! {
    ///     () = worker.ending() => {}
    ///     () = umcg::select::after(Duration::from_secs(60)) => panic!("it takes too long"),
    /// }
    /// assert_eq!(worker.join().unwrap(), 42);
    /// ```
    ///
    /// # Panics
    /// If the caller is that worker, whatever other operations it waits for, and with any deadline.
    pub fn ending(&mut self) -> Ending<'_> {
        let me = Handle::current();
        if self.handle() == me {
            waits_for_itself(me.task());
        }
        Ending::of(self.task())
    }
}

impl<R> Drop for JoinHandle<R> {
    fn drop(&mut self) {
        // ORDERING(join.3): Release, pairs with join.4: the end that recycles comes after all
        // accesses of the handle.
        // ORDERING(join.2): Acquire, as in `join`.
        let detach = |from| {
            self.task
                .join
                .compare_exchange(from, DETACHED, AcqRel, Acquire)
        };
        if detach(RUNNING).is_err_and(|now| now == DONE || detach(ABANDONED).is_err()) {
            // SAFETY: only DONE is left, as only this handle could wait; as in `take`.
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
        // Dropped before the panic, which runs code of the program's that may wait.
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
        wait_until(child, u64::MAX); // because it was woken without a reason
    }
}

/// Runs on the server's stack. The joiner is wholly suspended.
fn commit(local: &ServerState, worker: Runnable) {
    let task = worker.into_task();
    let waiter = (task as *const Task).addr() | SUSPENDED;
    // SAFETY: set by `wait`, to the word of a task, which is never freed.
    let word = unsafe { &*task.waits_at.load(Relaxed) };
    // ORDERING(join.5): Release, pairs with join.6: the thread that takes the right to run the
    // joiner sees the saved context.
    // ORDERING(join.2): Acquire, as in `join`.
    let entered = word
        .compare_exchange(RUNNING, waiter, AcqRel, Acquire)
        .is_ok();
    if !entered || (cancel::was_asked(task) && leave(word, task)) {
        // SAFETY: the joiner did not enter the word, or was taken out of it again.
        local.make_ready(unsafe { Runnable::new(task) }, Why::Woken);
    }
}

/// Waits for the end of `child` by parking: until it ends, is given up, or the deadline passes.
/// False if the deadline passed first.
pub(crate) fn wait_until(child: &'static Task, deadline: u64) -> bool {
    /// Takes the waiter out of the word, also when unwinding.
    struct JoinGuard(&'static Task, usize);
    impl Drop for JoinGuard {
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
    // ORDERING(join.5): Release, pairs with join.6: the thread that ends the worker sees all of the
    // waiting thread's descriptor, which may be new.
    // ORDERING(join.2): Acquire, as in `join`.
    if child
        .join
        .compare_exchange(RUNNING, waiter, AcqRel, Acquire)
        .is_err()
    {
        return true;
    }
    let _guard = JoinGuard(child, waiter);
    loop {
        if is_over(child) {
            return true;
        }
        if deadline != u64::MAX && clock::now() >= deadline {
            return false;
        }
        park::park_until(&"join", deadline);
    }
}

/// Waits for the end of a worker, not cut short by cancellation. The worker's handle is not used
/// up, and no thread can end its runtime.
pub(crate) fn wait_shielded(child: &'static Task) {
    let _shield = Shield::new(Handle::current().task());
    wait_until(child, u64::MAX);
    if !has_ended(child) {
        // Ends the process: the data that the worker borrows would be gone.
        umcg_core::fatal(format_args!(
            "a worker was given up that its runtime still waits for, which is a bug of umcg's"
        ));
    }
}
