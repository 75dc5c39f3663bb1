//! A runtime, as its owner has it.

use super::join::{self, JoinHandle};
use super::runtime::{OnDeadlock, Parts, Shared};
use super::scheduler::{Chosen, Scheduler, WorkStealing};
use super::spawn::{Builder, SpawnError, WorkerKind, no_worker};
use super::stall::{self, Stall};
use super::{dump, quit, server, stack_size, watch};
use crate::io::driver::{Driver, DriverKind};
use crate::{Error, Server};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use std::thread;
use std::time::{Duration, Instant};
use umcg_core::raw;

/// How to start a [`Runtime`].
#[must_use = "`build` starts it"]
pub struct RuntimeBuilder {
    servers: usize,
    scheduler: Chosen,
    stack_size: usize,
    name: String,
    preemption: Option<Duration>,
    pin: bool,
    helpers: Option<usize>,
    driver: DriverKind,
    stalls: Option<stall::Policy>,
    on_deadlock: Option<OnDeadlock>,
}

impl std::fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder").field("servers", &self.servers).field("name", &self.name).finish_non_exhaustive()
    }
}

/// The most servers of a runtime.
const MOST_SERVERS: usize = 1024;

impl RuntimeBuilder {
    fn new() -> RuntimeBuilder {
        RuntimeBuilder {
            servers: 0,
            scheduler: Chosen::Default(WorkStealing::new()),
            stack_size: stack_size::DEFAULT,
            name: "umcg".to_owned(),
            preemption: None,
            pin: false,
            helpers: None,
            driver: DriverKind::Auto,
            stalls: None,
            on_deadlock: None,
        }
    }

    /// How many servers run workers; 0, the default, for one a CPU that the process may use.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Who decides which worker runs next; [`WorkStealing`] by default.
    pub fn scheduler(mut self, scheduler: impl Scheduler) -> Self {
        self.scheduler = Chosen::other(scheduler);
        self
    }

    /// Bytes of a worker's stack, rounded up to a power of two of at least 8 KiB (32 KiB with debug assertions); 256 KiB by default. Only pages that are touched are
    /// memory. Where a stack overflows the process ends, with a message that names the worker.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// The name of the runtime's kernel threads, before their numbers; `umcg` by default.
    pub fn name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    /// For how long a worker may run while others wait; none, the default, for as long as it likes. With a scheduler that has ranks a more urgent worker also
    /// preempts a less urgent one at once. What preemption asks of workers: see [`set_preemption`](crate::set_preemption).
    pub fn preemption(mut self, interval: Option<Duration>) -> Self {
        self.preemption = interval;
        self
    }

    /// Whether each server stays on a CPU of its own, as far as there are: the first one on the first
    /// that the caller of `build` may use, and so on, beginning anew behind the last.
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// How many helper threads there may be, on which workers block: in [`blocking`](crate::blocking)
    /// scopes, and in calls that have no other way. 512 where nothing is said, or what `UMCG_HELPERS`
    /// in the environment says. Helpers serve all runtimes of the process, so the last that says a
    /// number decides.
    ///
    /// Further workers wait until a helper comes back, and their servers run others meanwhile. If none
    /// comes back for 10 ms one more is made, since some may wait for what those do.
    ///
    /// # Panics
    /// For 0.
    pub fn helpers(mut self, most: usize) -> Self {
        assert!(most > 0, "without helpers no worker can block");
        self.helpers = Some(most);
        self
    }

    /// What waits for I/O.
    pub fn driver(mut self, kind: DriverKind) -> Self {
        self.driver = kind;
        self
    }

    /// Calls `f` with a dump when all workers wait, and for nothing that could come by itself: no deadline, no I/O, nothing that blocks. Only another
    /// thread could make one go on then. Called once each time that happens.
    pub fn on_deadlock(mut self, f: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_deadlock = Some(Box::new(f));
        self
    }

    /// Calls `f` when a worker has kept a server for `after`, while no other server was free: once for each such stay, on a kernel thread of the
    /// runtime, which looks after all servers and therefore should not be kept long itself. A panic of `f` is caught.
    ///
    /// Without this call there is a line on standard error for a worker that *blocks* its server in one call of the kernel for a second, once for each
    /// name and call, ten in all. The environment variable `UMCG_STALLS` sets that time in milliseconds, and then workers that compute are told of, too; 0 is for
    /// never.
    pub fn on_stall(mut self, after: Duration, f: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.stalls = Some(stall::Policy::calling(after, Box::new(f)));
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// [`Error::Stack`] for an impossible stack size; [`Error::Thread`] where the kernel gives no thread, [`Error::Os`] where it gives no descriptors.
    ///
    /// # Panics
    /// For more than 1024 servers.
    pub fn build(self) -> Result<Runtime, Error> {
        let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let servers = if self.servers == 0 { cpus } else { self.servers };
        assert!(servers <= MOST_SERVERS, "a runtime has at most {MOST_SERVERS} servers");
        let processors = if self.pin { processors() } else { Vec::new() };
        let class = stack_size::class(self.stack_size).map_err(|error| Error::Stack(umcg_core::uth::Error::Stack(error)))?;
        let parts = Parts {
            scheduler: self.scheduler,
            servers,
            driver: Driver::new(self.driver).map_err(Error::from_io)?,
            class,
            name: self.name,
            preemption: self.preemption,
            stalls: self.stalls.unwrap_or_else(stall::Policy::of_environment),
            on_deadlock: self.on_deadlock,
        };
        let shared = Arc::new(Shared::new(parts));
        shared.hook();
        quit::note(&shared);
        let mut runtime = Runtime { shared, threads: Vec::new() };
        for index in 0..servers {
            runtime.start_server(index, processors.get(index % processors.len().max(1)).copied())?;
        }
        if let Some(most) = self.helpers {
            raw::set_helpers(most);
        }
        raw::set_helper_notice(stall::helpers_block);
        raw::prepare_helpers();
        runtime.start_watch()?;
        Ok(runtime)
    }
}

/// Servers that run workers until there are none. Dropping it waits for all its workers.
#[derive(Debug)]
pub struct Runtime {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).field("servers", &self.seats.len()).finish_non_exhaustive()
    }
}

impl Runtime {
    /// How to start one.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    /// One with a server for each CPU.
    ///
    /// # Errors
    /// As [`RuntimeBuilder::build`].
    pub fn new() -> Result<Runtime, Error> {
        Runtime::builder().build()
    }

    fn start_server(&mut self, index: usize, cpu: Option<usize>) -> Result<(), Error> {
        let shared = self.shared.clone();
        let name = format!("{}-{index}", shared.name);
        let interval = shared.watch.preemption();
        // The server says whether it could be made one.
        let (tell, told) = std::sync::mpsc::channel();
        let body = move || {
            if let Some(cpu) = cpu {
                pin_to(cpu);
            }
            let server = match Server::register_in(shared.group, interval) {
                Ok(server) => server,
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return;
                }
            };
            let _ = tell.send(Ok(()));
            // SAFETY: the thread keeps the runtime until the server has ended.
            let shared = unsafe { &*Arc::as_ptr(&shared) };
            server::main(shared, index, server.raw());
        };
        let thread = thread::Builder::new().name(name).spawn(body).map_err(Error::no_thread)?;
        self.threads.push(thread);
        told.recv().unwrap_or(Err(Error::OutOfMemory))
    }

    fn start_watch(&mut self) -> Result<(), Error> {
        let shared = self.shared.clone();
        let name = format!("{}-watch", shared.name);
        let thread = thread::Builder::new().name(name).spawn(move || watch::main(&shared)).map_err(Error::no_thread)?;
        self.threads.push(thread);
        Ok(())
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// How many servers it has.
    pub fn servers(&self) -> usize {
        self.shared.seats.len()
    }

    /// What waits for its I/O.
    pub fn driver(&self) -> DriverKind {
        self.shared.driver.kind()
    }

    /// How many workers it has.
    pub fn workers(&self) -> usize {
        self.shared.live() as usize
    }

    /// Makes a worker of this runtime. See [`spawn`](super::spawn()).
    ///
    /// # Panics
    /// When there is no memory for it.
    pub fn spawn<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        self.build(&Builder::new(), f).unwrap_or_else(|error| no_worker(error))
    }

    /// Makes a worker of this runtime, as the builder says.
    ///
    /// # Errors
    /// [`SpawnError`].
    pub fn build<F, R>(&self, builder: &Builder<'_>, f: F) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: the worker's storage moves along with it.
        unsafe { builder.make_outside(WorkerKind::Full, &self.shared, f, None) }
    }

    /// Calls `f` as a worker of this runtime, and returns what it returned. Not to be called by a worker of this runtime's.
    ///
    /// # Panics
    /// When `f` does, and as [`Runtime::spawn`].
    pub fn run<F, R>(&self, f: F) -> R
    where
        F: FnOnce() -> R + Send,
        R: Send,
    {
        // SAFETY: the worker's storage moves along with it, and this waits for its end, whatever happens.
        let worker = unsafe { Builder::new().make_outside(WorkerKind::Full, &self.shared, f, None) };
        let worker = worker.unwrap_or_else(|error| no_worker(error));
        join::wait_shielded(worker.task());
        worker.join().unwrap_or_else(|error| error.resume_unwind())
    }

    /// Makes a light worker of this runtime. See [`Builder::spawn_light`].
    ///
    /// # Panics
    /// When there is no memory for its stack.
    ///
    /// # Safety
    /// As [`Builder::spawn_light`].
    pub unsafe fn spawn_light<F, R>(&self, f: F) -> JoinHandle<R>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: passed on.
        unsafe { self.build_light(&Builder::new(), f) }.unwrap_or_else(|error| no_worker(error))
    }

    /// Makes a light worker of this runtime, as the builder says.
    ///
    /// # Errors
    /// [`SpawnError`].
    ///
    /// # Safety
    /// As [`Builder::spawn_light`].
    pub unsafe fn build_light<F, R>(&self, builder: &Builder<'_>, f: F) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: passed on.
        unsafe { builder.make_outside(WorkerKind::Light, &self.shared, f, None) }
    }

    /// A text with all its workers: name, what each is doing, and where those stand that wait.
    pub fn dump(&self) -> String {
        dump::dump(&self.shared)
    }

    /// Waits until there are no workers, and ends the servers. Not to be called by a worker of this runtime.
    pub fn shutdown(self) {
        drop(self);
    }

    /// Like [`Runtime::shutdown`], for `timeout` at most.
    ///
    /// # Errors
    /// How many workers there are still: they are given up, together with all that they own, and run no more.
    pub fn shutdown_timeout(mut self, timeout: Duration) -> Result<(), usize> {
        self.close();
        let deadline = Instant::now() + timeout;
        while !self.shared.is_over() && Instant::now() < deadline {
            thread::sleep((deadline - Instant::now()).min(Duration::from_millis(1)));
        }
        let left = if self.shared.is_over() { 0 } else { self.shared.live() as usize };
        if left > 0 {
            self.shared.end();
            // What the workers that are left may still refer to.
            std::mem::forget(self.shared.clone());
        }
        self.join_threads();
        if left > 0 {
            return Err(left);
        }
        self.shared.give_group_back();
        Ok(())
    }

    fn close(&self) {
        // ORDERING(closing.2): SeqCst, pairs with closing.1.
        self.shared.closing.store(true, SeqCst);
        if self.shared.live() == 0 {
            self.shared.end();
        } else {
            self.shared.sleepers.wake_all(&self.shared);
        }
    }

    fn join_threads(&mut self) {
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
        self.shared.driver.close();
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if !self.shared.is_over() {
            self.close();
            self.join_threads();
            self.shared.give_group_back();
        }
    }
}

/// The processors that the caller may use.
fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    // Refused if the process was given another set meanwhile: then it stays unpinned.
    let _ = sched_setaffinity(None, &set);
}
