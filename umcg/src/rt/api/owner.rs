//! A runtime, as its owner holds it, and as its other users do.

use super::end;
use super::join::{self, JoinHandle};
use super::making::{Builder, PLAIN, SpawnError, no_worker};
use crate::io::driver::place;
use crate::io::driver::{Driver, DriverKind};
use crate::rt::base::clock;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server;
use crate::rt::run::threads::{self, RuntimeThread};
use crate::rt::run::{dump, turns, watch};
use crate::rt::task::WorkerKind;
use crate::{Error, Server};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::time::Duration;
use umcg_core::kernel_thread::{self, KernelThread};

/// Servers that run workers until there are none. Dropping it waits for all its workers.
///
/// All operations that do not end the runtime are methods of its [`RuntimeHandle`], to which it
/// dereferences.
///
/// If one of its own workers drops it, that worker cannot wait for its own end: the runtime ends by
/// itself, once all its workers have ended. If a worker of another runtime drops it, only that
/// worker waits, and not its server. A function that one of the runtime's threads calls does not
/// wait either: a function of its scheduler, or one given to
/// [`on_stall`](crate::rt::RuntimeBuilder::on_stall) or
/// [`on_deadlock`](crate::rt::RuntimeBuilder::on_deadlock).
///
/// The child of a fork has none of the threads of a runtime that was made before. There it is
/// dropped without waiting, its memory is not freed, and it makes no workers
/// ([`SpawnError::LeftBehind`]).
#[derive(Debug)]
pub struct Runtime {
    handle: RuntimeHandle,
    threads: Vec<KernelThread<()>>,
    /// Present until the runtime is closed.
    owner: Option<RuntimeThread>,
}

/// A handle of a runtime, for all its users. Copies are cheap to make. It does not keep the runtime
/// from ending: that is up to its [`Runtime`]. Afterwards this handle makes no workers
/// ([`SpawnError::Closed`]).
#[derive(Clone, Debug)]
pub struct RuntimeHandle(Arc<RuntimeState>);

impl std::fmt::Debug for RuntimeState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeState")
            .field("name", &self.name)
            .field("servers", &self.servers.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RuntimeThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeThread").finish_non_exhaustive()
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

    /// How many servers the runtime has.
    pub fn servers(&self) -> usize {
        self.0.active.most()
    }

    /// How many of its servers run workers that any server may run. Less than
    /// [`RuntimeHandle::servers`] if the process may use fewer processors than it could when the
    /// runtime was built; see [`RuntimeBuilder::servers`](crate::rt::RuntimeBuilder::servers). With
    /// the default scheduler also for some milliseconds, while it tries whether workers that run
    /// for a moment each are better off on fewer.
    pub fn active_servers(&self) -> usize {
        self.0.active.count()
    }

    /// The driver that waits for its I/O.
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
    /// If there is no memory for it, or the runtime has been shut down.
    pub fn spawn<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.build(&PLAIN, f)
            .unwrap_or_else(|error| no_worker(error))
    }

    /// Makes a worker of the runtime, with the builder's options.
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
    /// If there is no memory for its stack, or the runtime has been shut down.
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

    /// Makes a light worker of the runtime, with the builder's options.
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
        unsafe { builder.make_outside(WorkerKind::Sharing, &self.0, f, None) }
    }

    /// A text on all its workers: name, state, and the place where each waiting worker stands.
    /// Meanwhile servers begin to run no worker. If another thread keeps the lock of the crate
    /// `backtrace`, which knows the names of functions, for 5 s, functions are shown as addresses
    /// without names.
    pub fn dump(&self) -> String {
        dump::dump(&self.0)
    }
}

impl Runtime {
    pub(super) fn without_threads(shared: Arc<RuntimeState>) -> Runtime {
        Runtime {
            handle: RuntimeHandle(shared.clone()),
            threads: Vec::new(),
            owner: Some(RuntimeThread::owner(shared)),
        }
    }

    pub(super) fn start_server(&mut self, index: usize, cpu: Option<usize>) -> Result<(), Error> {
        let mut me = RuntimeThread::new(&self.handle.0);
        let name = format!("{}-{index}", me.shared().name);
        let interval = me.shared().watch.preemption();
        // The server's thread reports whether it could become a server.
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
        let thread = kernel_thread::spawn(&name, body).map_err(Error::no_thread)?;
        self.threads.push(thread);
        told.recv().unwrap_or(Err(Error::OutOfMemory))
    }

    pub(super) fn start_watch(&mut self) -> Result<(), Error> {
        let mut me = RuntimeThread::new(&self.handle.0);
        let name = format!("{}-watch", me.shared().name);
        let (tell, told) = std::sync::mpsc::channel();
        let body = move || {
            me.begin();
            watch::main(me.shared(), || drop(tell));
        };
        let thread = kernel_thread::spawn(&name, body).map_err(Error::no_thread)?;
        self.threads.push(thread);
        if place::is_wanted() {
            // Until then it may have copies of the program's descriptors. Files that the program
            // closes would stay open.
            let _: Result<(), _> = told.recv();
        }
        Ok(())
    }

    /// Its state.
    #[cfg(all(feature = "intercept", target_arch = "x86_64"))]
    pub(crate) fn state(&self) -> &RuntimeState {
        &self.handle.0
    }

    /// A handle of the runtime, which can be copied and passed on.
    pub fn handle(&self) -> RuntimeHandle {
        self.handle.clone()
    }

    /// Calls `f` as a worker of this runtime, and returns its result. A worker of this runtime must
    /// not call it.
    ///
    /// # Panics
    /// If `f` does, and as [`RuntimeHandle::spawn`].
    pub fn run<F, R>(&self, f: F) -> R
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        // SAFETY: the worker's storage moves along with it. This waits for its end, whatever
        // happens.
        let worker = unsafe { PLAIN.make_outside(WorkerKind::Full, &self.handle.0, f, None) };
        let worker = worker.unwrap_or_else(|error| no_worker(error));
        join::wait_shielded(worker.task());
        worker.join().unwrap_or_else(|error| error.resume_unwind())
    }

    /// Waits until there are no workers, and ends the servers. If one of its own workers calls
    /// this, it does not wait, and the end comes later, as with a drop.
    pub fn shutdown(self) {
        drop(self);
    }

    /// Like [`Runtime::shutdown`], for `timeout` at most.
    ///
    /// # Errors
    /// How many workers are left. They are given up, together with everything that they own, and do
    /// not run again. A `join` of one of them returns
    /// [`Abandoned`](crate::rt::JoinError::Abandoned). A worker that computes goes on until it
    /// waits, and its server ends then. If one of the runtime's own workers or threads calls this,
    /// it waits for no worker and gives none up: the runtime ends later. In the child of a fork the
    /// runtime of the parent has no workers.
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
        let remaining = shared.live() as usize;
        if remaining == 0 {
            // The threads are about to leave.
            threads::wait(&shared.threads, u64::MAX);
            self.join_threads();
            return Ok(());
        }
        shared.threads.give_up();
        shared.end();
        // Workers that are left may still refer to it.
        std::mem::forget(shared.clone());
        dump::each_worker(&shared, &mut |task| end::abandon(task));
        Err(remaining)
    }

    /// Lets the runtime end once it has no workers.
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

    /// Called in the child of a fork. The threads' memory is not given back, as they may have been
    /// in the midst of anything. The threads are not detached either: the C library has reused
    /// their memory.
    fn leave_behind(&mut self) {
        std::mem::forget(self.handle.0.clone());
        std::mem::forget(self.owner.take());
        std::mem::forget(std::mem::take(&mut self.threads));
    }

    /// Joins the threads. They have left the runtime; only the system's part remains. If the caller
    /// is a worker, nothing is done.
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

/// Whether waiting for this runtime's end would mean waiting for the caller's own end.
fn is_called_within(shared: &RuntimeState) -> bool {
    server::is_worker_of(shared) || shared.threads.carry_caller()
}

fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // Refused if the process was given another set of CPUs meanwhile: then the thread stays
    // unpinned.
    let _ = sched_setaffinity(None, &set);
}
