//! A runtime, as its owner has it, and as others who may use it.

use super::end;
use super::join::{self, JoinHandle};
use super::making::{Builder, PLAIN, SpawnError, no_worker};
use crate::io::driver::{Driver, DriverKind};
use crate::rt::base::clock;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server;
use crate::rt::run::threads::{self, Thread};
use crate::rt::run::{dump, turns, watch};
use crate::rt::task::WorkerKind;
use crate::{Error, Server};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::thread;
use std::time::Duration;

/// Servers that run workers until there are none. Dropping it waits for all its workers.
///
/// All that does not end it are methods of its [`RuntimeHandle`], which it can be used as.
///
/// Where it is dropped by one of its own workers, which cannot wait for its own end, it ends by
/// itself, once all its workers have. To wait for it stops a worker of another runtime, and not
/// that one's server. The same goes for a function that one of its threads calls: of its scheduler,
/// or what [`on_stall`](crate::rt::RuntimeBuilder::on_stall) and
/// [`on_deadlock`](crate::rt::RuntimeBuilder::on_deadlock) were given.
///
/// The child of a fork has none of the threads of a runtime that was made before. There it is
/// dropped without waiting, its memory is not freed, and it makes no workers
/// ([`SpawnError::LeftBehind`]).
#[derive(Debug)]
pub struct Runtime {
    handle: RuntimeHandle,
    threads: Vec<thread::JoinHandle<()>>,
    /// Until it is closed.
    owner: Option<Thread>,
}

/// A runtime, for all who use it: as many as there are copies of this. It does not keep the runtime
/// from ending: that is its [`Runtime`]'s to say, and afterwards no workers are made by this
/// ([`SpawnError::Closed`]).
#[derive(Clone, Debug)]
pub struct RuntimeHandle(Arc<RuntimeState>);

impl std::fmt::Debug for RuntimeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeState")
            .field("name", &self.name)
            .field("servers", &self.seats.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Thread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Thread").finish_non_exhaustive()
    }
}

impl Deref for Runtime {
    type Target = RuntimeHandle;

    fn deref(&self) -> &RuntimeHandle {
        &self.handle
    }
}

impl RuntimeHandle {
    pub(crate) fn shared(&self) -> &RuntimeState {
        &self.0
    }

    /// How many servers it has.
    pub fn servers(&self) -> usize {
        self.0.seats.len()
    }

    /// What waits for its I/O.
    pub fn driver(&self) -> DriverKind {
        Driver::of(&self.0).kind()
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.0.live() as usize
    }

    /// Makes a worker of the runtime. See [`spawn`](crate::rt::spawn()).
    ///
    /// # Panics
    /// When there is no memory for it, or the runtime has been shut down.
    pub fn spawn<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.build(&PLAIN, f)
            .unwrap_or_else(|error| no_worker(error))
    }

    /// Makes a worker of the runtime, as the builder says.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn build<F, R>(&self, builder: &Builder<'_>, f: F) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: the worker's storage moves along with it.
        unsafe { builder.make_outside(WorkerKind::Full, &self.0, f, None) }
    }

    /// Makes a light worker of the runtime. See [`Builder::spawn_light`].
    ///
    /// # Panics
    /// When there is no memory for its stack, or the runtime has been shut down.
    ///
    /// # Safety
    /// As [`Builder::spawn_light`].
    pub unsafe fn spawn_light<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: passed on.
        unsafe { self.build_light(&PLAIN, f) }.unwrap_or_else(|error| no_worker(error))
    }

    /// Makes a light worker of the runtime, as the builder says.
    ///
    /// # Errors
    /// [`SpawnError`].
    ///
    /// # Safety
    /// As [`Builder::spawn_light`].
    pub unsafe fn build_light<F, R>(
        &self,
        builder: &Builder<'_>,
        f: F,
    ) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: passed on.
        unsafe { builder.make_outside(WorkerKind::Light, &self.0, f, None) }
    }

    /// A text with all its workers: name, what each is doing, and where those stand that wait.
    /// Servers begin to run no worker while that is noted. Functions are addresses without names if
    /// somebody keeps the lock of the crate `backtrace`, which knows the names, for 5 s.
    pub fn dump(&self) -> String {
        dump::dump(&self.0)
    }
}

impl Runtime {
    pub(super) fn without_threads(shared: Arc<RuntimeState>) -> Runtime {
        Runtime {
            handle: RuntimeHandle(shared.clone()),
            threads: Vec::new(),
            owner: Some(Thread::owner(shared)),
        }
    }

    pub(super) fn start_server(&mut self, index: usize, cpu: Option<usize>) -> Result<(), Error> {
        let mut me = Thread::new(&self.handle.0);
        let name = format!("{}-{index}", me.shared().name);
        let interval = me.shared().watch.preemption();
        // The server says whether it could be made one.
        let (tell, told) = std::sync::mpsc::channel();
        let body = move || {
            if let Some(cpu) = cpu {
                pin_to(cpu);
            }
            let server = match Server::register_in(me.shared().group, interval) {
                Ok(server) => server,
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return;
                }
            };
            let _ = tell.send(Ok(()));
            me.begin();
            // SAFETY: the thread keeps the runtime until the server has ended.
            let shared = unsafe { &*Arc::as_ptr(me.shared()) };
            turns::main(shared, index, server.raw());
            drop(server);
            drop(me);
        };
        let thread = thread::Builder::new()
            .name(name)
            .spawn(body)
            .map_err(Error::no_thread)?;
        self.threads.push(thread);
        told.recv().unwrap_or(Err(Error::OutOfMemory))
    }

    pub(super) fn start_watch(&mut self) -> Result<(), Error> {
        let mut me = Thread::new(&self.handle.0);
        let name = format!("{}-watch", me.shared().name);
        let body = move || {
            me.begin();
            watch::main(me.shared());
        };
        let thread = thread::Builder::new()
            .name(name)
            .spawn(body)
            .map_err(Error::no_thread)?;
        self.threads.push(thread);
        Ok(())
    }

    /// A handle of it, which can be copied and given away.
    pub fn handle(&self) -> RuntimeHandle {
        self.handle.clone()
    }

    /// Calls `f` as a worker of this runtime, and returns what it returned. Not to be called by a
    /// worker of this runtime's.
    ///
    /// # Panics
    /// When `f` does, and as [`RuntimeHandle::spawn`].
    pub fn run<F, R>(&self, f: F) -> R
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        // SAFETY: the worker's storage moves along with it, and this waits for its end, whatever
        // happens.
        let worker = unsafe { PLAIN.make_outside(WorkerKind::Full, &self.handle.0, f, None) };
        let worker = worker.unwrap_or_else(|error| no_worker(error));
        join::wait_shielded(worker.task());
        worker.join().unwrap_or_else(|error| error.resume_unwind())
    }

    /// Waits until there are no workers, and ends the servers. Called by one of its own workers it
    /// does not wait, and the end comes later, as where it is dropped.
    pub fn shutdown(self) {
        drop(self);
    }

    /// Like [`Runtime::shutdown`], for `timeout` at most.
    ///
    /// # Errors
    /// How many workers there are still: they are given up, together with all that they own, and
    /// run no more; a `join` of one of them says [`Abandoned`](crate::rt::JoinError::Abandoned).
    /// One that computes goes on until it waits, and its server ends then. Where one of its own
    /// workers or threads calls this, nothing is waited for or given up: the runtime ends later. In
    /// the child of a fork the runtime of the parent has no workers.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Result<(), usize> {
        let deadline = clock::after(timeout);
        let shared = self.handle.0.clone();
        if shared.is_left_behind() {
            return Ok(());
        }
        self.close();
        if is_called_within(&shared) {
            return Err(shared.live() as usize);
        }
        if threads::wait(&shared.threads, deadline) {
            self.join_threads();
            return Ok(());
        }
        let left = shared.live() as usize;
        if left == 0 {
            // The threads are about to leave.
            threads::wait(&shared.threads, u64::MAX);
            self.join_threads();
            return Ok(());
        }
        shared.threads.give_up();
        shared.end();
        // What the workers that are left may still refer to.
        std::mem::forget(shared.clone());
        dump::each_worker(&shared, &mut |task| end::abandon(task));
        Err(left)
    }

    /// Lets it end once there are no workers.
    fn close(&mut self) {
        let shared = &*self.handle.0;
        // ORDERING(closing.2): SeqCst, pairs with closing.1.
        shared.closing.store(true, SeqCst);
        if shared.live() == 0 {
            shared.end();
        } else {
            shared.sleepers.wake_all(&*shared.driver);
        }
        self.owner = None;
    }

    /// In the child of a fork. What the threads had is not given back, as they may have been in the
    /// midst of anything; nor are they detached, since the C library has used their memory
    /// otherwise.
    fn leave_behind(&mut self) {
        std::mem::forget(self.handle.0.clone());
        std::mem::forget(self.owner.take());
        std::mem::forget(std::mem::take(&mut self.threads));
    }

    /// They have left the runtime: what remains is the system's part. In a worker that is left
    /// alone.
    fn join_threads(&mut self) {
        let is_worker = server::current_task().is_some();
        for thread in self.threads.drain(..).filter(|_| !is_worker) {
            let _ = thread.join();
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if self.handle.0.is_left_behind() {
            return self.leave_behind();
        }
        if self.owner.is_none() {
            return;
        }
        self.close();
        if !is_called_within(&self.handle.0) {
            threads::wait(&self.handle.0.threads, u64::MAX);
            self.join_threads();
        }
    }
}

/// Whether a wait for this runtime's end would be one for the caller's own.
fn is_called_within(shared: &RuntimeState) -> bool {
    server::is_worker_of(shared) || shared.threads.carry_caller()
}

fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // Refused if the process was given another set meanwhile: then it stays unpinned.
    let _ = sched_setaffinity(None, &set);
}
