//! Making workers.

use super::body::{LARGEST_IN_PLACE, first_frame, room};
use super::count::Count;
use super::join::JoinHandle;
use super::{names, on_thread};
use crate::Error;
use crate::rt::base::{clock, stack_size};
use crate::rt::engine::runtime::{self, RuntimeState};
use crate::rt::engine::server::{self, ServerState};
use crate::rt::scheduler::Why;
use crate::rt::task::runnable::Runnable;
use crate::rt::task::{DEFAULT_PRIORITY, IS_PLAIN, NO_SERVER, Task, WorkerKind};
use std::alloc::Layout;
use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::Ordering::*;
use std::time::Instant;
use umcg_core::context::stack::StackError;
use umcg_core::raw;
use umcg_core::uth;

/// Why a worker could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnError {
    /// No stack: no memory, or an impossible size.
    Stack(StackError),
    /// No memory for thread-local storage.
    Storage,
    /// No thread, where a worker with storage of its own has to be one.
    Thread,
    /// The runtime has been shut down.
    Closed,
    /// The runtime was made before a fork whose child this process is: its servers run in the
    /// parent.
    LeftBehind,
    /// The caller is in no runtime, and the global one could not be started.
    Runtime(Error),
}

impl fmt::Display for SpawnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::Stack(error) => error.fmt(f),
            SpawnError::Storage => f.write_str("no memory for thread-local storage"),
            SpawnError::Thread => f.write_str("no thread to be had"),
            SpawnError::Closed => f.write_str("the runtime has been shut down"),
            SpawnError::LeftBehind => f.write_str("the runtime was left behind by a fork"),
            SpawnError::Runtime(error) => {
                write!(f, "the global runtime could not be started: {error}")
            }
        }
    }
}

impl std::error::Error for SpawnError {}

impl From<SpawnError> for std::io::Error {
    fn from(error: SpawnError) -> Self {
        match error {
            SpawnError::Stack(StackError::TooLarge) => {
                std::io::Error::new(std::io::ErrorKind::InvalidInput, error)
            }
            SpawnError::Closed => std::io::Error::other(error),
            SpawnError::LeftBehind => std::io::Error::new(std::io::ErrorKind::Unsupported, error),
            SpawnError::Runtime(error) => error.into(),
            _ => std::io::Error::new(std::io::ErrorKind::OutOfMemory, error),
        }
    }
}

impl From<Error> for SpawnError {
    fn from(error: Error) -> Self {
        SpawnError::Runtime(error)
    }
}

impl From<uth::UthError> for SpawnError {
    fn from(error: uth::UthError) -> Self {
        match error {
            uth::UthError::Stack(error) => SpawnError::Stack(error),
            uth::UthError::Storage(_) => SpawnError::Storage,
            _ => SpawnError::Stack(StackError::OutOfMemory),
        }
    }
}

/// Options for making a worker.
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    name: Cow<'a, str>,
    stack_size: usize,
    priority: u8,
    server: u16,
    deadline: u64,
}

/// A builder with defaults only, at a fixed address: a builder may own its name, so a value would
/// be written anew for each worker.
pub(crate) static PLAIN: Builder<'static> = Builder::new();

impl Default for Builder<'_> {
    fn default() -> Self {
        Builder::new()
    }
}

impl<'a> Builder<'a> {
    /// A builder with default options.
    pub const fn new() -> Builder<'a> {
        Builder {
            name: Cow::Borrowed(""),
            stack_size: 0,
            priority: DEFAULT_PRIORITY,
            server: NO_SERVER,
            deadline: u64::MAX,
        }
    }

    /// The worker's name, of which 23 bytes are kept. Dumps and messages about the worker show it,
    /// and so does the message of its panic. See also [`current_name`](crate::current_name).
    ///
    /// The first name in a process installs a panic hook, which prints the name and then calls the
    /// previous hook.
    pub fn name(mut self, name: impl Into<Cow<'a, str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Bytes of stack, rounded up to a power of two of at least 8 KiB (32 KiB with debug
    /// assertions); 0 for the runtime's default.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// The priority, for schedulers that use it: 255 is the most urgent, 128 the default.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// The deadline, for schedulers that use it: when the worker should be done. Nothing happens to
    /// the worker when the deadline passes.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = clock::nanos(deadline);
        self
    }

    /// The server that is to run the worker, by its index in the runtime.
    pub fn server(mut self, index: usize) -> Self {
        self.server = u16::try_from(index).unwrap_or(NO_SERVER);
        self
    }

    /// # Safety
    /// For a light worker: as [`Builder::spawn_light`]. Everything that `f` and R borrow lives
    /// until the worker has ended.
    #[inline]
    pub(crate) unsafe fn make_here<F, R>(
        &self,
        kind: WorkerKind,
        running: &server::Running,
        f: F,
        scope: Option<&Count>,
    ) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R,
    {
        let local = running.local();
        let shared = local.shared();
        if on_thread::is_needed(kind) {
            shared.spawned_outside.fetch_add(1, Relaxed);
            // SAFETY: passed on.
            return unsafe { on_thread::make(self, shared, f, scope) };
        }
        // SAFETY: passed on.
        let task = unsafe { self.carve(kind, shared, Some(local), f) }?;
        put_into_scope(task, scope);
        local
            .spawned
            .store(local.spawned.load(Relaxed) + 1, Relaxed);
        // SAFETY: the worker is new, and this is its only handle.
        let handle = unsafe { JoinHandle::new(task) };
        // SAFETY: the maker of a new worker has the right to run it.
        local.make_ready(unsafe { Runnable::new(task) }, Why::Spawned);
        Ok(handle)
    }

    /// # Safety
    /// As [`Builder::make_here`].
    #[cold]
    pub(crate) unsafe fn make_outside<F, R>(
        &self,
        kind: WorkerKind,
        shared: &RuntimeState,
        f: F,
        scope: Option<&Count>,
    ) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R,
    {
        // Without this visit, a server that finds no worker to run, while this one is counted,
        // could report a deadlock wrongly.
        let _visit = shared.group.visit();
        // ORDERING(closing.1): SeqCst, pairs with closing.2: counted first, so that either the
        // closing thread sees this worker, or this thread sees it close.
        shared.spawned_outside.fetch_add(1, SeqCst);
        // A worker of the runtime in a blocking scope is outside, too. It counts itself, so the end
        // waits for the worker that it makes.
        // ORDERING(closing.1): SeqCst, as above.
        if shared.closing.load(SeqCst) && (shared.is_over() || !server::is_worker_of(shared)) {
            shared.spawned_outside.fetch_sub(1, Relaxed);
            return Err(if shared.is_left_behind() {
                SpawnError::LeftBehind
            } else {
                SpawnError::Closed
            });
        }
        if on_thread::is_needed(kind) {
            // SAFETY: passed on.
            return unsafe { on_thread::make(self, shared, f, scope) };
        }
        // SAFETY: passed on.
        let task = unsafe { self.carve(kind, shared, None, f) }.inspect_err(|_| {
            shared.spawned_outside.fetch_sub(1, Relaxed);
        })?;
        put_into_scope(task, scope);
        // SAFETY: the worker is new, and this is its only handle.
        let handle = unsafe { JoinHandle::new(task) };
        // SAFETY: the maker of a new worker has the right to run it.
        runtime::ready(unsafe { Runnable::new(task) }, Why::Spawned);
        Ok(handle)
    }

    /// # Safety
    /// As [`Builder::make_here`].
    #[inline(always)]
    unsafe fn carve<F, R>(
        &self,
        kind: WorkerKind,
        shared: &RuntimeState,
        local: Option<&ServerState>,
        f: F,
    ) -> Result<&'static Task, SpawnError>
    where
        F: FnOnce() -> R,
    {
        if size_of::<F>() > LARGEST_IN_PLACE {
            let f: Box<dyn FnOnce() -> R + '_> = Box::new(f);
            // SAFETY: passed on.
            return unsafe { self.carve_in_place(kind, shared, local, f) };
        }
        // SAFETY: passed on.
        unsafe { self.carve_in_place(kind, shared, local, f) }
    }

    /// # Safety
    /// As [`Builder::make_here`].
    #[inline(always)]
    unsafe fn carve_in_place<F, R>(
        &self,
        kind: WorkerKind,
        shared: &RuntimeState,
        local: Option<&ServerState>,
        f: F,
    ) -> Result<&'static Task, SpawnError>
    where
        F: FnOnce() -> R,
    {
        let is_plain = self.stack_size == 0 && self.name.is_empty();
        let spare = if is_plain {
            local.and_then(|local| local.take_spare(kind))
        } else {
            None
        };
        let task = match spare {
            Some(task) => {
                // SAFETY: the worker has ended, and the list of spare ones gave the right to run
                // it.
                unsafe { task.worker().rearm(room::<F, R>(), first_frame::<F, R>) };
                task.begin(kind.flags(true));
                task
            }
            None => {
                let worker =
                    self.carve_new(kind, shared, local, room::<F, R>(), first_frame::<F, R>)?;
                Task::place(worker, shared.as_of(), kind.flags(is_plain))
            }
        };
        if !self.has_default_hints() {
            self.set_hints(task);
        }
        // SAFETY: until the worker runs, the room belongs to its maker. It has place for F.
        unsafe { task.worker().room(room::<F, R>()).cast::<F>().write(f) };
        Ok(task)
    }

    fn carve_new(
        &self,
        kind: WorkerKind,
        shared: &RuntimeState,
        local: Option<&ServerState>,
        room: Layout,
        entry: unsafe extern "C" fn(*mut ()) -> !,
    ) -> Result<raw::Worker, SpawnError> {
        if !self.name.is_empty() {
            names::tell_in_panics();
        }
        let class = self.class(shared)?;
        let make = || match kind {
            WorkerKind::Sharing => {
                raw::Worker::carve_sharing(shared.group, class, &self.name, room, entry)
            }
            WorkerKind::Full => {
                raw::Worker::carve_owning(shared.group, class, &self.name, room, entry)
            }
        };
        let worker = make().or_else(|_| {
            gather_spares(shared, local);
            make()
        });
        Ok(worker?)
    }

    /// The stack class for the builder's worker.
    pub(crate) fn class(&self, shared: &RuntimeState) -> Result<raw::SizeClass, SpawnError> {
        match self.stack_size {
            0 => Ok(shared.class),
            size => stack_size::class(size).map_err(SpawnError::Stack),
        }
    }

    /// The name of the builder's worker, or `other`.
    pub(crate) fn name_or(&self, other: &str) -> String {
        if self.name.is_empty() {
            other.to_owned()
        } else {
            self.name.replace('\0', " ")
        }
    }

    #[inline(always)]
    fn has_default_hints(&self) -> bool {
        self.priority == DEFAULT_PRIORITY && self.server == NO_SERVER && self.deadline == u64::MAX
    }

    #[cold]
    pub(crate) fn set_hints(&self, task: &Task) {
        task.hints.priority.store(self.priority, Relaxed);
        task.hints.server.store(self.server, Relaxed);
        task.hints.deadline.store(self.deadline, Relaxed);
        // Unusual flags are not left to the next worker.
        task.flags
            .store(task.flags.load(Relaxed) & !IS_PLAIN, Relaxed);
    }
}

/// There is a shortage: the stacks and blocks that servers keep are shared with all.
#[cold]
fn gather_spares(shared: &RuntimeState, local: Option<&ServerState>) {
    match local {
        // The caller is on that server. It does not wait for other servers.
        Some(local) => local.share_spares(),
        None => shared.gather_spares(),
    }
}

#[cold]
pub(crate) fn no_worker(error: SpawnError) -> ! {
    panic!("no worker could be made: {error}")
}

/// The scope that a new worker belongs to.
#[inline(always)]
fn put_into_scope(task: &Task, scope: Option<&Count>) {
    if let Some(scope) = scope {
        task.scope.store(scope.as_ptr(), Relaxed);
    }
}
