//! Workers: registered pthreads and light workers.

use super::Group;
use crate::umcg::idle::{EventKind, state};
use crate::umcg::light::LightSpec;
use crate::umcg::worker::Carrier;
use crate::umcg::{self, Role, blocking, current_worker, light, operation, role, thread};
use crate::uth;
use rustix::io::Errno;
use std::alloc::Layout;
use std::ops::ControlFlow;
use umcg_context::local::Hold;
use umcg_context::stack::SizeClass;

/// A worker.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Worker(pub(super) &'static umcg::worker::Worker);

// SAFETY: a worker's descriptor is shared by design. The contracts of the functions say which
// caller may run it.
unsafe impl Send for Worker {}
// SAFETY: as above.
unsafe impl Sync for Worker {}

/// The resources that a thread needs to become a worker, reserved before the thread exists.
/// Dropping it frees them.
pub struct Reservation(pub(super) thread::Reservation);

impl Reservation {
    /// Reserves the resources for one worker.
    ///
    /// # Errors
    /// `ENOMEM`: no memory or stack.
    pub fn new() -> Result<Reservation, Errno> {
        operation::reserve().map(Reservation)
    }
}

/// Whether the caller may become a worker.
fn require_plain() -> Result<(), Errno> {
    if matches!(role(), Role::Plain) && !umcg::is_apart() {
        Ok(())
    } else {
        Err(Errno::INVAL)
    }
}

/// A light worker whose id is its address.
#[inline(always)]
fn spec(group: Group, class: SizeClass, name: &str, carrier: Carrier) -> LightSpec<'_> {
    LightSpec {
        group: group.0,
        class,
        name,
        id: None,
        tid: 0,
        carrier,
    }
}

/// What a worker is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activity {
    /// It blocks in the kernel, or is on a helper thread.
    Blocked,
    /// It has an event that no server has collected.
    Queued,
    /// It runs, or is suspended and some party has the right to run it.
    Suspended,
}

/// Calls `f` with each light worker of the process that has not ended.
pub fn each_light_worker(f: &mut dyn FnMut(Worker)) {
    light::each(&mut |worker| f(Worker(worker)));
}

impl Worker {
    /// Makes the calling pthread a worker of this group; returns when a server runs it. `interval`
    /// is the default interval of preemption if the worker stays on its own kernel thread.
    /// Switches.
    ///
    /// # Errors
    /// `EINVAL`: the thread is a server or worker already. `ENOMEM`, `EAGAIN`: no memory, stack or
    /// thread key left.
    pub fn register(group: Group, id: u64, interval: u64) -> Result<Worker, Errno> {
        require_plain()?;
        operation::register_worker(group.0, id, interval).map(Worker)
    }

    /// Like [`Worker::register`], with the resources reserved for it: few errors for lack of memory
    /// are left.
    ///
    /// # Errors
    /// As [`Worker::register`].
    pub fn register_with(
        reserved: Reservation,
        group: Group,
        id: u64,
        interval: u64,
    ) -> Result<Worker, Errno> {
        require_plain()?;
        operation::register_reserved(reserved.0, group.0, id, interval).map(Worker)
    }

    /// Makes the calling worker a plain thread again. Switches.
    ///
    /// # Safety
    /// Called by the worker itself, which is a thread worker.
    pub unsafe fn unregister(self) {
        thread::unregister(self.0);
    }

    /// Makes a sharing worker that will run `f`; the caller has the right to run it. `stack_size` 0
    /// for the default.
    ///
    /// # Errors
    /// Those of a stack.
    ///
    /// # Safety
    /// `f` is sound to run on any server's kernel thread, and to continue on another one, with
    /// another thread-local storage, after any call that switches or blocks.
    pub unsafe fn sharing<F: FnOnce() + 'static>(
        group: Group,
        id: u64,
        stack_size: usize,
        name: &str,
        f: F,
    ) -> Result<Worker, uth::UthError> {
        let spec = spec(group, uth::class_for(stack_size)?, name, Carrier::Sharing);
        // SAFETY: passed on.
        unsafe { Self::create(spec, id, f) }
    }

    /// Like [`Worker::sharing`], for an owning worker, with thread-local storage of its own:
    /// functions that `f` calls see a thread.
    ///
    /// # Errors
    /// Those of a stack, or of a [block](crate::storage).
    pub fn owning<F: FnOnce() + Send + 'static>(
        group: Group,
        id: u64,
        stack_size: usize,
        name: &str,
        f: F,
    ) -> Result<Worker, uth::UthError> {
        let spec = spec(group, uth::class_for(stack_size)?, name, Carrier::Owning);
        // SAFETY: the worker's storage moves along with it.
        unsafe { Self::create(spec, id, f) }
    }

    /// # Safety
    /// As [`Worker::sharing`], if the worker is a sharing one.
    unsafe fn create<F: FnOnce() + 'static>(
        spec: LightSpec<'_>,
        id: u64,
        f: F,
    ) -> Result<Worker, uth::UthError> {
        let spec = LightSpec {
            id: Some(id),
            ..spec
        };
        // SAFETY: passed on.
        unsafe { light::create(spec, f) }.map(Self::held)
    }

    /// Makes a sharing worker that will call `entry` with an argument for [`Worker::begin`], and
    /// has `room` for its maker at [`Worker::room`]. Its id is the address of its
    /// [`Worker::upper`]. It ends when its maker discards it; `entry` does not return. The caller
    /// has the right to run it.
    ///
    /// # Errors
    /// Those of a stack.
    #[inline]
    pub fn carve_sharing(
        group: Group,
        class: SizeClass,
        name: &str,
        room: Layout,
        entry: unsafe extern "C" fn(*mut ()) -> !,
    ) -> Result<Worker, uth::UthError> {
        let spec = spec(group, class, name, Carrier::Sharing);
        light::carve(spec, room, entry).map(Self::held)
    }

    /// Like [`Worker::carve_sharing`], for an owning worker, with thread-local storage of its own.
    /// [`Worker::run`] ends with the destructors of its thread-locals.
    ///
    /// # Errors
    /// Those of a stack, or of a [block](crate::storage).
    #[inline]
    pub fn carve_owning(
        group: Group,
        class: SizeClass,
        name: &str,
        room: Layout,
        entry: unsafe extern "C" fn(*mut ()) -> !,
    ) -> Result<Worker, uth::UthError> {
        let spec = spec(group, class, name, Carrier::Owning);
        light::carve(spec, room, entry).map(Self::held)
    }

    /// A new worker, as the right to run it.
    #[inline(always)]
    fn held(worker: &'static umcg::worker::Worker) -> Worker {
        worker.lists().hold(&worker.node);
        Worker(worker)
    }

    /// The calling light worker, in the first frame of its entry function.
    ///
    /// # Safety
    /// The entry function that the worker was carved with calls this first, with its argument.
    #[inline(always)]
    pub unsafe fn begin(argument: *mut ()) -> Worker {
        // SAFETY: passed on.
        Worker(unsafe { light::arrive(argument) })
    }

    /// Calls `f`, the worker's function. The worker may be preempted from here on. A panic that
    /// leaves `f` ends the process. So does an exception of another language, which
    /// [`boundary::call`](crate::os::boundary::call) within `f` can report first. A worker with
    /// storage of its own then runs the destructors of its thread-locals, and uses none afterwards.
    ///
    /// # Safety
    /// Called by the worker itself, after [`Worker::begin`], once. It may be called again, to drop
    /// values that the first call has left: their destructors may use thread-locals, too.
    #[inline]
    pub unsafe fn run(self, f: impl FnOnce()) {
        light::run(self.0, f);
    }

    /// The maker's part of a light worker's descriptor: [`UPPER_BYTES`](super::UPPER_BYTES),
    /// 64-aligned. Stacks are never unmapped, so this is readable for ever and always of the same
    /// type. It is all zeros on a new stack.
    #[inline(always)]
    pub fn upper(self) -> *mut u8 {
        light::upper(self.0)
    }

    /// The worker as a word. Descriptors are recycled and never freed.
    #[inline(always)]
    pub fn into_ptr(self) -> *mut () {
        (self.0 as *const umcg::worker::Worker).cast_mut().cast()
    }

    /// Turns the word into the worker again.
    ///
    /// # Safety
    /// The word came from [`Worker::into_ptr`].
    #[inline(always)]
    pub unsafe fn from_ptr(pointer: *mut ()) -> Worker {
        // SAFETY: by the contract; descriptors are never freed.
        Worker(unsafe { &*pointer.cast::<umcg::worker::Worker>() })
    }

    /// The room of a light worker that was made with this layout.
    #[inline(always)]
    pub fn room(self, room: Layout) -> *mut u8 {
        light::reserved(self.0, room)
    }

    /// Makes a carved worker that has ended begin anew, as [`Worker::carve_sharing`] does, with the
    /// stack, name and storage that it has.
    ///
    /// # Safety
    /// The caller has the right to run the worker, which has left [`Worker::run`]. No destructors
    /// run for its frames.
    #[inline(always)]
    pub unsafe fn rearm(self, room: Layout, entry: unsafe extern "C" fn(*mut ()) -> !) {
        // SAFETY: passed on.
        unsafe { light::rearm(self.0, room, entry) };
    }

    /// Recycles a suspended light worker: it no longer runs. No destructors run for its frames.
    ///
    /// # Safety
    /// The caller has the right to run the worker, and gives it up.
    #[inline]
    pub unsafe fn discard(self) {
        light::discard(self.0);
    }

    /// What the worker is doing just now. A hint, unless the caller keeps it from doing anything
    /// else.
    pub fn doing(self) -> Activity {
        match self.0.node.state() {
            state::BLOCKED => Activity::Blocked,
            state::QUEUED | state::RUNNABLE | state::RUNNABLE_TIMED => Activity::Queued,
            _ => Activity::Suspended,
        }
    }

    /// Calls `f` with the addresses at which the worker's functions continue, from where it was
    /// suspended outwards, until `f` breaks. Makes no call if less than `room` bytes of its stack
    /// are left, on which both the look and `f` run, nor under sanitizers. Takes no lock, except
    /// the loader's with a C library older than glibc 2.35.
    ///
    /// # Safety
    /// It is a suspended light worker, and no server runs it meanwhile. `f` does not unwind.
    pub unsafe fn callers(self, room: usize, f: &mut dyn FnMut(usize) -> ControlFlow<()>) {
        // SAFETY: passed on.
        unsafe { light::callers(self.0, room, f) }
    }

    /// Its group.
    pub fn group(self) -> Group {
        Group(self.0.group())
    }

    /// The worker that the caller is, running or in a blocking scope.
    #[inline]
    pub fn current() -> Option<Worker> {
        current_worker().map(Worker)
    }

    /// Its id.
    #[inline]
    pub fn id(self) -> u64 {
        self.0.node.id()
    }

    /// Its name, or an empty one.
    pub fn name(self) -> String {
        self.0.name()
    }

    /// Names the calling worker.
    pub fn set_name(self, name: &str) {
        operation::set_name(self.0, name);
    }

    /// Gives up the right to run the worker: it is idle, with WAKE, and any server may collect
    /// that.
    ///
    /// # Safety
    /// The caller has the right to run it.
    pub unsafe fn put_back(self) {
        let _hold = Hold::begin();
        self.0.lists().take(&self.0.node);
        self.0.post(EventKind::Wake, None);
    }

    /// Begins a scope in which the worker may block. Switches. Returns whether the worker has left
    /// its server: see [`blocking_begin`](crate::ctl::blocking_begin).
    ///
    /// # Safety
    /// Called by the worker itself.
    pub unsafe fn begin_blocking(self) -> bool {
        blocking::begin(self.0)
    }

    /// Ends the scope. Switches.
    ///
    /// # Safety
    /// As [`Worker::begin_blocking`]. Without such a scope nothing happens.
    pub unsafe fn end_blocking(self) {
        blocking::end(self.0);
    }

    /// Begins a section without preemption.
    ///
    /// # Safety
    /// Called by the worker itself.
    #[inline]
    pub unsafe fn begin_critical(self) {
        operation::critical_begin(self.0);
    }

    /// Ends the section. May switch.
    ///
    /// # Safety
    /// As [`Worker::begin_critical`]. Without such a section nothing happens.
    #[inline]
    pub unsafe fn end_critical(self) {
        operation::critical_end(self.0);
    }
}
