//! Making workers.

use super::cancel::Unwinding;
use super::join::{self, JoinHandle, Packet};
use super::runnable::Runnable;
use super::runtime::{self, Shared};
use super::scheduler::Why;
use super::server::{self, Local};
use super::task::{DEFAULT_PRIORITY, IS_FULL, IS_PLAIN, IS_WORKER, NO_SERVER, Task};
use super::{global, local, names, on_thread, scope, stack_size, time};
use crate::Error;
use std::alloc::Layout;
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
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
    /// The runtime was made before a fork whose child this process is: its servers are the
    /// parent's.
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

impl From<uth::Error> for SpawnError {
    fn from(error: uth::Error) -> Self {
        match error {
            uth::Error::Stack(error) => SpawnError::Stack(error),
            uth::Error::Storage(_) => SpawnError::Storage,
            _ => SpawnError::Stack(StackError::OutOfMemory),
        }
    }
}

/// Whose thread-local storage a worker runs with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    /// That of the server.
    Light,
    /// Its own.
    Full,
}

/// How to make a worker.
#[derive(Clone, Debug)]
pub struct Builder<'a> {
    name: Cow<'a, str>,
    stack_size: usize,
    priority: u8,
    server: u16,
    deadline: u64,
}

/// With nothing said, and at a fixed address: as a builder may own its name, a value would be
/// written anew for each worker.
pub(crate) static PLAIN: Builder<'static> = Builder::new();

impl Default for Builder<'_> {
    fn default() -> Self {
        Builder::new()
    }
}

impl<'a> Builder<'a> {
    /// With nothing said.
    pub const fn new() -> Builder<'a> {
        Builder {
            name: Cow::Borrowed(""),
            stack_size: 0,
            priority: DEFAULT_PRIORITY,
            server: NO_SERVER,
            deadline: u64::MAX,
        }
    }

    /// Its name, of which 23 bytes are kept: dumps and messages about the worker carry it, and so
    /// does what it prints when it panics. See also [`current_name`](crate::current_name).
    ///
    /// The first name of a process puts a panic hook around the one that there is then, which
    /// prints the name and calls that.
    pub fn name(mut self, name: impl Into<Cow<'a, str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Bytes of stack, rounded up to a power of two of at least 8 KiB (32 KiB with debug
    /// assertions); 0 for the runtime's choice.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = bytes;
        self
    }

    /// For schedulers that look at priorities: 255 is the most urgent, 128 what has none.
    pub fn priority(mut self, priority: u8) -> Self {
        self.priority = priority;
        self
    }

    /// For schedulers that look at deadlines: when it should be done. Nothing happens to it when
    /// that passes.
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = time::nanos(deadline);
        self
    }

    /// The server that is to run it, by its index in the runtime.
    pub fn server(mut self, index: usize) -> Self {
        self.server = u16::try_from(index).unwrap_or(NO_SERVER);
        self
    }

    /// Makes a worker with thread-local storage of its own: all that is sound in a thread is sound
    /// in it. Its thread-locals are made anew for it, and their destructors run at its end.
    ///
    /// # Errors
    /// [`SpawnError`].
    #[inline]
    pub fn spawn<F, R>(&self, f: F) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: the worker's storage moves along with it.
        unsafe { self.make(WorkerKind::Full, f) }
    }

    /// Makes a worker that shares the thread-local storage of whatever server runs it: the lightest
    /// kind, and the fastest to switch to.
    ///
    /// # Errors
    /// [`SpawnError`].
    ///
    /// # Safety
    /// The worker may be on another kernel thread after each call that waits, yields or blocks, and
    /// other workers run there meanwhile. So `f` keeps across such a call
    /// - no reference into thread-local storage (`LocalKey::with` around it, for one), and
    /// - no value that must stay on its thread (that is not `Send`), such as a guard of a lock that
    ///   knows its owner;
    ///
    /// nor does a destructor wait while it unwinds. With preemption on, the same holds at every
    /// instruction outside a [`critical`](crate::critical) section.
    #[inline]
    pub unsafe fn spawn_light<F, R>(&self, f: F) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        // SAFETY: passed on.
        unsafe { self.make(WorkerKind::Light, f) }
    }

    /// # Safety
    /// As [`Builder::make_here`].
    #[inline]
    unsafe fn make<F, R>(&self, kind: WorkerKind, f: F) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R,
    {
        match server::running() {
            // SAFETY: passed on.
            Some(running) => unsafe { self.make_here(kind, &running, f, None) },
            // SAFETY: passed on.
            None => unsafe { self.make_outside(kind, global::shared_of_caller()?, f, None) },
        }
    }

    /// # Safety
    /// As [`Builder::spawn_light`] for a light one; what `f` and R borrow lives until the worker
    /// has ended.
    #[inline]
    pub(crate) unsafe fn make_here<F, R>(
        &self,
        kind: WorkerKind,
        running: &server::Running,
        f: F,
        scope: Option<&scope::Count>,
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
        // SAFETY: the worker is new, and left to this handle.
        let handle = unsafe { JoinHandle::new(task) };
        // SAFETY: the right to run a new worker is its maker's.
        local.make_ready(unsafe { Runnable::new(task) }, Why::Spawned);
        Ok(handle)
    }

    /// # Safety
    /// As [`Builder::make_here`].
    #[cold]
    pub(crate) unsafe fn make_outside<F, R>(
        &self,
        kind: WorkerKind,
        shared: &Shared,
        f: F,
        scope: Option<&scope::Count>,
    ) -> Result<JoinHandle<R>, SpawnError>
    where
        F: FnOnce() -> R,
    {
        // A server that finds nobody to run, and this one counted, may be told so wrongly.
        let _visit = shared.group.visit();
        // ORDERING(closing.1): SeqCst, pairs with closing.2: counted first, so that either the
        // closer sees this one, or this one sees it close.
        shared.spawned_outside.fetch_add(1, SeqCst);
        // A worker of the runtime in a blocking scope is outside, too. It counts itself, so the end
        // waits for what it makes.
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
        // SAFETY: the worker is new, and left to this handle.
        let handle = unsafe { JoinHandle::new(task) };
        // SAFETY: the right to run a new worker is its maker's.
        runtime::ready(unsafe { Runnable::new(task) }, Why::Spawned);
        Ok(handle)
    }

    /// # Safety
    /// As [`Builder::make_here`].
    #[inline(always)]
    unsafe fn carve<F, R>(
        &self,
        kind: WorkerKind,
        shared: &Shared,
        local: Option<&Local>,
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
        shared: &Shared,
        local: Option<&Local>,
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
                // SAFETY: it has ended, and the list of spare ones gave us the right to it.
                unsafe { task.worker().rearm(room::<F, R>(), first_frame::<F, R>) };
                task.begin(kind.flags(true));
                task
            }
            None => {
                let worker =
                    self.carve_new(kind, shared, local, room::<F, R>(), first_frame::<F, R>)?;
                Task::place(worker, shared, kind.flags(is_plain))
            }
        };
        if !self.has_default_hints() {
            self.set_hints(task);
        }
        // SAFETY: the room is the maker's until the worker runs, and has place for F.
        unsafe { task.worker().room(room::<F, R>()).cast::<F>().write(f) };
        Ok(task)
    }

    fn carve_new(
        &self,
        kind: WorkerKind,
        shared: &Shared,
        local: Option<&Local>,
        room: Layout,
        entry: unsafe extern "C" fn(*mut ()) -> !,
    ) -> Result<raw::Worker, SpawnError> {
        if !self.name.is_empty() {
            names::tell_in_panics();
        }
        let class = self.class(shared)?;
        let make = || match kind {
            WorkerKind::Light => raw::Worker::carve(shared.group, class, &self.name, room, entry),
            WorkerKind::Full => {
                raw::Worker::carve_full(shared.group, class, &self.name, room, entry)
            }
        };
        let worker = make().or_else(|_| {
            gather_spares(shared, local);
            make()
        });
        Ok(worker?)
    }

    /// The stack of its worker.
    pub(crate) fn class(&self, shared: &Shared) -> Result<raw::Class, SpawnError> {
        match self.stack_size {
            0 => Ok(shared.class),
            size => stack_size::class(size).map_err(SpawnError::Stack),
        }
    }

    /// The name of its worker, or this one.
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
        // What is not as usual is not left to the next one.
        task.flags
            .store(task.flags.load(Relaxed) & !IS_PLAIN, Relaxed);
    }
}

/// There is a shortage: what servers keep of stacks and blocks is for all.
#[cold]
fn gather_spares(shared: &Shared, local: Option<&Local>) {
    match local {
        // The caller is on that server, which does not wait for others.
        Some(local) => local.share_spares(),
        None => shared.gather_spares(),
    }
}

impl WorkerKind {
    #[inline(always)]
    const fn flags(self, is_plain: bool) -> u32 {
        let plain = if is_plain { IS_PLAIN } else { 0 };
        IS_WORKER
            | plain
            | if matches!(self, WorkerKind::Full) {
                IS_FULL
            } else {
                0
            }
    }
}

/// Larger closures are kept on the heap, to leave the stack to the frames.
const LARGEST_IN_PLACE: usize = 512;

/// Room on the worker's stack for its function, and later for what that returned.
const fn room<F, R>() -> Layout {
    let (f, packet) = (Layout::new::<F>(), Layout::new::<Packet<R>>());
    let packet = if join::in_place::<R>() {
        packet
    } else {
        Layout::new::<()>()
    };
    let size = if f.size() > packet.size() {
        f.size()
    } else {
        packet.size()
    };
    let align = if f.align() > packet.align() {
        f.align()
    } else {
        packet.align()
    };
    match Layout::from_size_align(size, align) {
        Ok(layout) => layout,
        Err(_) => panic!("a layout no larger than those of two types is valid"),
    }
}

/// What a worker runs first: its function, and its end.
unsafe extern "C" fn first_frame<F: FnOnce() -> R, R>(argument: *mut ()) -> ! {
    // SAFETY: first thing in the entry function that `carve` was given.
    let worker = unsafe { raw::Worker::begin(argument) };
    let task = Task::of(worker);
    let room = worker.room(room::<F, R>());
    // SAFETY: `carve_in_place` wrote it there; it is read once.
    let f = unsafe { room.cast::<F>().read() };
    let mut packet: Option<Packet<R>> = None;
    let body = || packet = run_body(task, f);
    // SAFETY: the caller is that worker, and this is done once.
    unsafe { worker.run(body) };
    // SAFETY: nothing is left on the stack but the packet, which is moved; the room is empty.
    unsafe { join::end(task, room.cast(), packet) }
}

/// Calls the function of the calling worker, and drops what nobody wants of what it returned, and
/// its locals.
pub(crate) fn run_body<F: FnOnce() -> R, R>(task: &'static Task, f: F) -> Option<Packet<R>> {
    let packet = if super::cancel::is_asked(task) {
        // Not begun, but what it owns has destructors as well. They may wait: what asked for the
        // end is not to cut them short.
        super::cancel::shield_for_good(task);
        catch_unwind(AssertUnwindSafe(|| drop(f))).and_then(|()| Err(Box::new(Unwinding(1))))
    } else {
        catch_unwind(AssertUnwindSafe(f))
    };
    if let Err(payload) = &packet {
        // SAFETY: the scope that the worker was put into, if any; its end is told later.
        unsafe { scope::note_unwound(task.scope.load(Relaxed), &**payload) };
    }
    // What comes now are destructors, of locals too: unwinding out of them would end the process.
    super::cancel::shield_for_good(task);
    let packet = join::wanted(task, packet);
    local::clear(task);
    packet
}

/// Makes a worker that shares the thread-local storage of whatever server runs it. See
/// [`Builder::spawn_light`].
///
/// # Panics
/// When there is no memory for its stack, or the global runtime is needed and cannot be started.
///
/// # Safety
/// As [`Builder::spawn_light`].
#[inline]
pub unsafe fn spawn_light<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    // SAFETY: passed on.
    unsafe { PLAIN.spawn_light(f) }.unwrap_or_else(|error| no_worker(error))
}

/// Makes a worker with thread-local storage of its own, in the caller's runtime, or in the global
/// one. Like `std::thread::spawn`, at a thousandth of the price.
///
/// # Panics
/// When there is no memory for it, or the global runtime is needed and cannot be started;
/// [`Builder::spawn`] gives an error then.
///
/// ```
/// let worker = umcg::spawn(|| 6 * 7);
/// assert_eq!(worker.join().unwrap(), 42);
/// ```
#[inline]
pub fn spawn<F, R>(f: F) -> JoinHandle<R>
where
    F: FnOnce() -> R + Send + 'static,
    R: Send + 'static,
{
    PLAIN.spawn(f).unwrap_or_else(|error| no_worker(error))
}

#[cold]
pub(crate) fn no_worker(error: SpawnError) -> ! {
    panic!("no worker could be made: {error}")
}

/// The scope that a new worker belongs to.
#[inline(always)]
fn put_into_scope(task: &Task, scope: Option<&scope::Count>) {
    if let Some(scope) = scope {
        task.scope.store(scope.as_ptr(), Relaxed);
    }
}
