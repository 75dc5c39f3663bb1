//! Building a runtime.

use super::owner::Runtime;
use crate::Error;
use crate::io::driver::{Driver, DriverKind};
use crate::rt::base::stack_size;
use crate::rt::engine::runtime::{OnDeadlock, RuntimeConfig, RuntimeState};
use crate::rt::engine::stalls::{Stall, StallPolicy};
use crate::rt::run::{registry, stall};
use crate::rt::scheduler::{Chosen, Scheduler, WorkStealing};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use umcg_core::{raw, storage};

/// Builds a [`Runtime`].
#[must_use = "`build` starts it"]
pub struct RuntimeBuilder {
    servers: usize,
    has_standby: bool,
    /// How many servers there are at least, where their number adapts.
    reserve: usize,
    scheduler: Chosen,
    stack_size: usize,
    name: String,
    preemption: Option<Duration>,
    pin: bool,
    helpers: Option<usize>,
    driver: DriverKind,
    stalls: Option<StallPolicy>,
    on_deadlock: Option<OnDeadlock>,
}

impl std::fmt::Debug for RuntimeBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RuntimeBuilder")
            .field("servers", &self.servers)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// The most servers of a runtime.
const MOST_SERVERS: usize = 1024;

impl Runtime {
    /// A builder with default settings.
    pub fn builder() -> RuntimeBuilder {
        RuntimeBuilder::new()
    }

    /// A runtime with a server for each CPU.
    ///
    /// # Errors
    /// As [`RuntimeBuilder::build`].
    pub fn new() -> Result<Runtime, Error> {
        Runtime::builder().build()
    }
}

impl RuntimeBuilder {
    pub(super) fn new() -> RuntimeBuilder {
        RuntimeBuilder {
            servers: 0,
            has_standby: false,
            reserve: 0,
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

    /// How many servers run workers. The default, 0, is one for each CPU that the process may use.
    /// Then, unless servers are pinned, their number adapts about once a second while workers run:
    /// if the process may use fewer CPUs later, by its affinity or a limit of its cgroup, as many
    /// servers run only the workers that are bound to them. There are never more than at the start.
    pub fn servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// The scheduler, which decides the worker that runs next; [`WorkStealing`] by default.
    pub fn scheduler(mut self, scheduler: impl Scheduler) -> Self {
        self.scheduler = Chosen::other(scheduler);
        self
    }

    /// One server more, which runs workers only while the kernel keeps all others.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for guests")
    )]
    pub(crate) fn standby(mut self) -> Self {
        self.has_standby = true;
        self
    }

    /// At least so many servers, if their number adapts. Those beyond the CPUs that the process may
    /// use are inactive until it may use more.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for guests")
    )]
    pub(crate) fn reserve(mut self, servers: usize) -> Self {
        self.reserve = servers;
        self
    }

    /// Bytes of a worker's stack, rounded up to a power of two of at least 8 KiB (32 KiB with debug
    /// assertions); 256 KiB by default. Only pages that are touched take memory. If a stack
    /// overflows, the process ends with a message that names the worker.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// The name of the runtime's kernel threads, before their numbers; `umcg` by default. If it
    /// contains a NUL byte, [`build`](RuntimeBuilder::build) fails.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// How long a worker may run while others wait; none, the default, for no limit. With a
    /// scheduler that has ranks, a more urgent worker also preempts a less urgent one at once. For
    /// what preemption requires of workers see [`set_preemption`](crate::set_preemption).
    pub fn preemption(mut self, interval: Option<Duration>) -> Self {
        self.preemption = interval;
        self
    }

    /// Whether each server stays on a CPU of its own, as far as there are enough: the first server
    /// on the first CPU that the caller of `build` may use, and so on, starting again after the
    /// last CPU.
    pub fn pin(mut self, pin: bool) -> Self {
        self.pin = pin;
        self
    }

    /// How many helper threads there may be. Workers block on helper threads: in
    /// [`blocking`](crate::blocking) scopes, and in calls that have no other way. The default is
    /// 512, or the value of `UMCG_HELPERS` in the environment. Helpers serve all runtimes of the
    /// process, so the last number that was set counts.
    ///
    /// Further workers wait until a helper comes back, and their servers run others meanwhile. If
    /// none comes back for 10 ms, one more is made, since blocked workers may wait for these.
    ///
    /// # Panics
    /// For 0.
    pub fn helpers(mut self, most: usize) -> Self {
        assert!(most > 0, "without helpers no worker can block");
        self.helpers = Some(most);
        self
    }

    /// The driver that waits for I/O.
    pub fn driver(mut self, kind: DriverKind) -> Self {
        self.driver = kind;
        self
    }

    /// Calls `f` with a dump when all workers wait and no event can wake one by itself: no
    /// deadline, no I/O, nothing that blocks. Then only another thread could make a worker go on.
    /// `f` is called once each time that happens, on a server, which runs no worker meanwhile. A
    /// panic of `f` is caught.
    pub fn on_deadlock(mut self, f: impl Fn(&str) + Send + Sync + 'static) -> Self {
        self.on_deadlock = Some(Box::new(f));
        self
    }

    /// Calls `f` when a worker has kept a server for `after` while no other server was free: once
    /// for each such stay. `f` is called on the runtime's kernel thread that looks after all
    /// servers, so it should be short. A panic of `f` is caught. `f` is also called, at once, when
    /// there are as many helper threads as there may be and workers have to wait for one, or when
    /// the system gives no thread for a helper and workers keep their servers: once for each such
    /// shortage.
    ///
    /// Without this call there is a line on standard error for a worker that *blocks* its server in
    /// one system call for a second, once for each name and call, ten in all; and one for the first
    /// shortage of helper threads. The environment variable `UMCG_STALLS` sets that time in
    /// milliseconds; then workers that compute are reported, too; 0 is for never.
    pub fn on_stall(mut self, after: Duration, f: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.stalls = Some(StallPolicy::calling(after, Box::new(f)));
        self
    }

    /// Starts the runtime. If the caller is a worker of another runtime, this is done on a helper
    /// thread, as in [`blocking`](crate::blocking).
    ///
    /// # Errors
    /// [`Error::Name`] for a name with a NUL byte; [`Error::Stack`] for an impossible stack size;
    /// [`Error::Thread`] if the kernel gives no thread; [`Error::Os`] if it gives no descriptors.
    ///
    /// # Panics
    /// For more than 1024 servers.
    pub fn build(self) -> Result<Runtime, Error> {
        // A calling worker's server runs others while threads begin.
        crate::blocking(|| self.start())
    }

    fn start(self) -> Result<Runtime, Error> {
        if self.name.contains('\0') {
            return Err(Error::Name);
        }
        // Find this out now, while there is a thread for it: the servers' threads may be the last.
        let _ = storage::available();
        let cpus = thread::available_parallelism().map_or(1, |cpus| cpus.get());
        let adapts = self.servers == 0 && !self.pin;
        let active = if self.servers == 0 {
            cpus
        } else {
            self.servers
        };
        assert!(
            active <= MOST_SERVERS,
            "a runtime has at most {MOST_SERVERS} servers"
        );
        let reserve = if adapts { self.reserve } else { 0 };
        let servers = active.max(reserve) + usize::from(self.has_standby);
        let processors = if self.pin { processors() } else { Vec::new() };
        let class = stack_size::class(self.stack_size)
            .map_err(|error| Error::Stack(umcg_core::uth::UthError::Stack(error)))?;
        let config = RuntimeConfig {
            scheduler: self.scheduler,
            servers,
            active,
            has_standby: self.has_standby,
            adapts,
            driver: Box::new(Driver::new(self.driver).map_err(Error::from_io)?),
            class,
            name: self.name,
            preemption: self.preemption,
            stalls: self.stalls.unwrap_or_else(StallPolicy::of_environment),
            on_deadlock: self.on_deadlock,
        };
        let shared = Arc::new(RuntimeState::new(config));
        shared.hook();
        registry::note(&shared);
        let mut runtime = Runtime::without_threads(shared);
        for index in 0..servers {
            runtime.start_server(
                index,
                processors.get(index % processors.len().max(1)).copied(),
            )?;
        }
        if let Some(most) = self.helpers {
            raw::set_helpers(most);
        }
        raw::set_helper_notice(stall::helpers_block);
        runtime.start_watch()?;
        raw::prepare_helpers(); // last: a runtime needs its own threads more than helpers
        Ok(runtime)
    }
}

/// The processors that the caller may use.
fn processors() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}
