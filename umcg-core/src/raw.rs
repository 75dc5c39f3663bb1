//! Servers and workers by reference: the base of the safe types of the crate `umcg`. Each function
//! says what its caller must rule out. The types there do that by ownership.

mod adopted;

pub use crate::umcg::idle::EventKind;
pub use adopted::*;

use crate::umcg::group;
use crate::umcg::idle::{Hand, Node, WaitOutcome, state};
use crate::umcg::light::LightSpec;
pub use crate::umcg::light::UPPER_BYTES;
use crate::umcg::operation;
use crate::umcg::worker::{Carrier, Inside};
use crate::umcg::{
    self, CallerRole, Role, blocking, caller, current_worker, helper, light, preempt, role, thread,
};
use crate::uth;
use rustix::io::Errno;
use std::alloc::Layout;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering::Relaxed;
use umcg_context::local::Hold;
pub use umcg_context::stack::SizeClass;

/// A group: servers, and the workers whose events they collect. Copies mean the same group.
#[derive(Clone, Copy)]
pub struct Group(&'static group::Group);

/// A visit to a group.
pub struct Visit(#[allow(dead_code, reason = "it ends with this")] group::Visit);

impl PartialEq for Group {
    fn eq(&self, other: &Group) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for Group {}

impl Group {
    /// The default group, which `umcg_ctl` uses.
    pub fn first() -> Group {
        Group(&group::FIRST)
    }

    /// A new group, without servers and workers.
    pub fn make() -> Group {
        Group(group::Group::make())
    }

    /// Makes the group available again.
    ///
    /// # Safety
    /// The group is not the first. It was made once for each call of this. It has no servers and no
    /// workers.
    pub unsafe fn unmake(self) {
        self.0.unmake();
    }

    /// Calls `hook(argument)` after each event that is posted for the servers of this group. The
    /// call comes on any kernel thread, perhaps with the thread-local storage of a worker that runs
    /// elsewhere, and with all signals blocked. So the hook touches no thread-local storage, errno
    /// included, and does not allocate.
    ///
    /// # Safety
    /// The hook keeps to that, and the group has no workers yet.
    pub unsafe fn set_hook(self, hook: fn(usize), argument: usize) {
        self.0.set_hook(Some(hook), argument);
    }

    /// Keeps the group alive while a thread that has just woken a worker still uses the owner's
    /// data: [`Group::unmake`] does not return as long as the result lives. Called while a worker
    /// of the group cannot end.
    pub fn visit(self) -> Visit {
        Visit(self.0.visit())
    }

    /// Whether the group has a visitor just now.
    pub fn is_visited(self) -> bool {
        self.0.is_visited()
    }

    /// Whether an event or a deadline may be waiting to be collected. This is only a hint.
    #[inline]
    pub fn has_events(self) -> bool {
        self.0.lists.has_events()
    }
}

/// A server. The program has the right to use it on the thread that registered it, until it
/// unregisters.
#[derive(Clone, Copy, Debug)]
pub struct Server(&'static umcg::server::Server);

/// A worker.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Worker(&'static umcg::worker::Worker);

// SAFETY: a worker's descriptor is shared by design. The contracts of the functions say which
// caller may run it.
unsafe impl Send for Worker {}
// SAFETY: as above.
unsafe impl Sync for Worker {}

/// The resources that a thread needs to become a worker, reserved before the thread exists.
/// Dropping it frees them.
pub struct Reservation(thread::Reservation);

impl Reservation {
    /// Reserves the resources for one worker.
    ///
    /// # Errors
    /// `ENOMEM`: no memory or stack.
    pub fn new() -> Result<Reservation, Errno> {
        operation::reserve().map(Reservation)
    }
}

/// An event.
#[derive(Clone, Copy)]
pub enum Event {
    /// Wake, Wait or Preempt: the caller, and no other server, may run this worker now.
    Ready(EventKind, Worker),
    /// Block, Exit or Timeout of the worker with this id.
    News(EventKind, u64),
}

/// Why a server's wait ended without an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nothing {
    /// [`wake_server`] woke the server.
    Woken,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
}

fn event(node: &'static Node, kind: EventKind) -> Event {
    match kind {
        EventKind::Wake | EventKind::Wait | EventKind::Preempt => {
            Event::Ready(kind, Worker(umcg::worker::Worker::of(node)))
        }
        EventKind::Block | EventKind::Exit | EventKind::Timeout => Event::News(kind, node.id()),
    }
}

impl Server {
    /// Makes the calling thread a server of this group. `interval` is the default interval of
    /// preemption, in nanoseconds; 0 for none.
    ///
    /// # Errors
    /// `EINVAL`: the thread is a server or worker already. `ENOMEM`, `EAGAIN`: the system has no
    /// memory, timer or thread key left.
    pub fn register(group: Group, interval: u64) -> Result<Server, Errno> {
        operation::register_server(group.0, interval).map(Server)
    }

    /// The caller, if it is a server in its own flow.
    #[inline]
    pub fn here() -> Option<Server> {
        match role() {
            Role::Server(server) => Some(Server(server)),
            Role::Plain | Role::Worker(..) | Role::Blocked(_) => None,
        }
    }

    /// The server as a word. It means the same server until that is unregistered, and some server
    /// afterwards.
    pub fn into_ptr(self) -> *mut () {
        (self.0 as *const umcg::server::Server).cast_mut().cast()
    }

    /// Turns the word into the server again.
    ///
    /// # Safety
    /// The word came from [`Server::into_ptr`].
    pub unsafe fn from_ptr(pointer: *mut ()) -> Server {
        // SAFETY: by the contract; descriptors are never freed.
        Server(unsafe { &*pointer.cast::<umcg::server::Server>() })
    }

    /// Whether this worker runs on this server just now.
    pub fn runs(self, worker: Worker) -> bool {
        self.0.current.is(worker.0)
    }

    /// The worker that runs on this server just now. A hint.
    pub fn current(self) -> Option<Worker> {
        self.0.current.see().map(Worker)
    }

    /// The kernel thread that carries the flow running on this server just now: the server's own,
    /// or that of a worker that [stays](threads_move) on its own. A hint.
    pub fn carried_by(self) -> i32 {
        preempt::carrying_thread(self.0)
    }

    /// Takes the worker that runs on this server off it, if it can be preempted just now: the
    /// server gets PREEMPT for it. Any thread may call this. A request that comes at a wrong moment
    /// is lost; the tick, if there is one, comes later.
    pub fn preempt(self) {
        preempt::ask(self.0);
    }

    /// How many times a worker has begun to run here.
    #[inline]
    pub fn turns(self) -> u64 {
        self.0.turns.load(Relaxed)
    }

    /// Gives all threads access to the free stacks and blocks that the caller's server keeps for
    /// itself.
    pub fn share_pools() {
        let _hold = Hold::begin();
        if let Some(vp) = uth::vp::Vp::here() {
            vp.share_pools();
        }
    }

    /// A word that the program keeps with the server; 0 at first.
    #[inline(always)]
    pub fn upper(self) -> usize {
        self.0.upper.load(Relaxed)
    }

    /// Sets that word.
    pub fn set_upper(self, to: usize) {
        self.0.upper.store(to, Relaxed);
    }

    /// Makes the server a plain thread again.
    ///
    /// # Safety
    /// Called once, by the server's own flow.
    pub unsafe fn unregister(self) {
        operation::unregister_server(self.0);
    }

    /// Whether a worker runs in the server's place.
    #[inline]
    pub fn is_attached(self) -> bool {
        self.0.current.get().is_some()
    }

    /// Runs a worker in the server's place until it, or another that it switched to, leaves.
    ///
    /// # Safety
    /// Called by the server's own flow, which has the right to run `worker`.
    #[inline(always)]
    pub unsafe fn run(self, worker: Worker) -> Event {
        worker.0.lists().take(&worker.0.node);
        // SAFETY: passed on.
        let (departed, plain_wait) = unsafe { self.0.run(worker.0) };
        if plain_wait {
            departed.lists().hold(&departed.node);
            return Event::Ready(EventKind::Wait, Worker(departed));
        }
        self.settle(departed)
    }

    /// Settles any letter but the most common one, and returns its event.
    #[cold]
    fn settle(self, departed: &'static umcg::worker::Worker) -> Event {
        let (kind, deadline) = self.0.mail.read();
        let event = event(&departed.node, kind);
        operation::settle(departed, kind, Hand::Held, deadline);
        event
    }

    /// The next event of an idle worker; waits for one until `deadline` (nanoseconds of
    /// CLOCK_REALTIME; 0 for not at all).
    ///
    /// # Errors
    /// The [`Nothing`] that ended the wait.
    ///
    /// # Safety
    /// Called by the server's own flow.
    pub unsafe fn wait(self, deadline: Option<u64>) -> Result<Event, Nothing> {
        let mut found = None;
        let waited = operation::wait(self.0, deadline, Hand::Held, 1, &mut |node, kind| {
            found = Some(event(node, kind));
            true
        });
        match (found, waited) {
            (Some(event), _) => Ok(event),
            (None, WaitOutcome::TimedOut) => Err(Nothing::TimedOut),
            (None, WaitOutcome::Interrupted) => Err(Nothing::Interrupted),
            (None, _) => Err(Nothing::Woken),
        }
    }

    /// The next event of an idle worker if there is one. If there is none, this costs reading two
    /// words.
    #[inline]
    pub fn try_wait(self) -> Option<Event> {
        if self.0.group().lists.has_events() {
            self.collect_one()
        } else {
            None
        }
    }

    #[cold]
    fn collect_one(self) -> Option<Event> {
        let mut found = None;
        self.0
            .group()
            .lists
            .collect(Hand::Held, 1, &mut |node, kind| {
                found = Some(event(node, kind));
                true
            });
        found
    }
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
        if !matches!(role(), Role::Plain) || umcg::is_apart() {
            return Err(Errno::INVAL);
        }
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
        if !matches!(role(), Role::Plain) || umcg::is_apart() {
            return Err(Errno::INVAL);
        }
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
        let class = uth::class_for(stack_size)?;
        let spec = LightSpec {
            group: group.0,
            class,
            name,
            id: Some(id),
            tid: 0,
            carrier: Carrier::Sharing,
        };
        // SAFETY: passed on.
        unsafe { light::create(spec, f) }.map(Self::held)
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
        let class = uth::class_for(stack_size)?;
        let spec = LightSpec {
            group: group.0,
            class,
            name,
            id: Some(id),
            tid: 0,
            carrier: Carrier::Owning,
        };
        // SAFETY: the worker's storage moves along with it.
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
        let spec = LightSpec {
            group: group.0,
            class,
            name,
            id: None,
            tid: 0,
            carrier: Carrier::Sharing,
        };
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
        let spec = LightSpec {
            group: group.0,
            class,
            name,
            id: None,
            tid: 0,
            carrier: Carrier::Owning,
        };
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

    /// The maker's part of a light worker's descriptor: [`UPPER_BYTES`], 64-aligned. Stacks are
    /// never unmapped, so this is readable for ever and always of the same type. It is all zeros on
    /// a new stack.
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

    /// Begins a scope in which the worker may block. Switches.
    ///
    /// # Safety
    /// Called by the worker itself.
    pub unsafe fn begin_blocking(self) {
        blocking::begin(self.0);
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

/// A worker in its own flow, and the server that runs it. While this exists the worker is not
/// preempted.
#[derive(Debug)]
pub struct RunningWorker {
    inside: Inside,
    server: &'static umcg::server::Server,
}

impl RunningWorker {
    /// The server that runs it.
    #[inline(always)]
    pub fn server(&self) -> Server {
        Server(self.server)
    }

    /// The worker.
    #[inline(always)]
    pub fn worker(&self) -> Worker {
        Worker(self.inside.0)
    }

    /// The caller, if it is a worker that a server runs.
    #[inline(always)]
    pub fn here() -> Option<RunningWorker> {
        match caller() {
            CallerRole::Worker(inside, server) => Some(RunningWorker { inside, server }),
            CallerRole::Server(_) | CallerRole::Neither => None,
        }
    }

    /// Gives the processor back with WAIT. Returns false when `deadline` passed before a server ran
    /// the worker again. Switches.
    ///
    /// # Safety
    /// The caller has not switched since [`RunningWorker::here`].
    #[inline(always)]
    pub unsafe fn wait(self, deadline: Option<u64>) -> bool {
        // SAFETY: both are the caller's, by the contract.
        unsafe { operation::worker_wait(self.inside, self.server, deadline) }
    }

    /// Lets `next` run on the caller's server, and calls `f(argument)` once the caller is fully
    /// suspended. So `f` may let other servers run the caller. `f` is called on the stack of
    /// `next`, or on the server's if one of the two [stays](threads_move) on its own kernel thread.
    /// No server gets an event. Switches.
    ///
    /// # Safety
    /// As [`RunningWorker::wait`]. The caller has the right to run `next`, and passes the right to
    /// run itself to `f`. Neither was ever run by its tid.
    #[inline(always)]
    pub unsafe fn switch_with(
        self,
        next: Worker,
        f: unsafe extern "C" fn(*mut ()),
        argument: *mut (),
    ) {
        next.0.lists().take(&next.0.node);
        // SAFETY: both are the caller's, by the contract. A worker that is run by token, and stops
        // this way, stays HELD.
        unsafe { self.inside.0.leave_with(self.server, next.0, f, argument) };
    }

    /// Lets `next` run on the caller's server. The caller becomes idle, with WAIT. Returns false as
    /// [`RunningWorker::wait`] does. Switches.
    ///
    /// # Safety
    /// As [`RunningWorker::wait`], and the caller has the right to run `next`.
    #[inline(always)]
    pub unsafe fn switch_to(self, next: Worker, deadline: Option<u64>) -> bool {
        let hold = Hold::begin();
        next.0.lists().take(&next.0.node);
        drop(hold);
        // SAFETY: passed on.
        unsafe { operation::worker_switch(self.inside, self.server, next.0, deadline) }
    }
}

/// Whether thread workers move to their servers' kernel threads, so that any two workers can switch
/// to each other directly. If they stay on their own, a switch from or to one is two hand-overs
/// between kernel threads.
pub fn threads_move() -> bool {
    thread::carrier() == Carrier::Moving
}

/// Sets how many helper threads there may be in the process, on which workers without threads of
/// their own block; 0 for the value of `UMCG_HELPERS` in the environment, or 512.
///
/// Further workers wait until a helper comes back. If none does for 10 ms, one more is made: the
/// workers on helpers may depend on the waiting ones.
pub fn set_helpers(most: usize) {
    helper::set_most(most);
}

/// Gives helpers the process's attributes, and not the caller's, from here on. A kernel thread
/// makes them. It is made now, if the system gives one, and otherwise when the first helper is
/// needed.
pub fn prepare_helpers() {
    helper::POOL.prepare();
}

/// Sets `notice`, which is called each time that a helper is made beyond the bound, with the number
/// of helpers and the number of waiting workers. It runs on a kernel thread of the library's, and
/// needed helpers wait for it.
///
/// It is also called each time that a worker is to block and the system gives no thread for a
/// helper, so that the worker blocks its server. Then the worker calls it, with 0 as the second
/// number, and `notice` must not switch, and must not unwind.
pub fn set_helper_notice(notice: fn(usize, usize)) {
    helper::set_notice(notice);
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

/// Calls `f` as if the caller were a plain thread, whatever its role. So nothing in `f` switches,
/// and it is not preempted. The caller can become neither a server nor a worker meanwhile. For
/// foreign code that is called in the middle of a switch. A panic that leaves `f` ends the process.
#[inline]
pub fn apart<R>(f: impl FnOnce() -> R) -> R {
    /// Ends the process, with the panic's message as the reason.
    struct Unwound;
    impl Drop for Unwound {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let unwound = Unwound;
    let result = umcg::apart(f);
    std::mem::forget(unwound);
    result
}

/// Wakes an idle server of this group. Returns false when there is none.
pub fn wake_server(group: Group) -> bool {
    let _hold = Hold::begin();
    group.0.lists.wake_server()
}

/// Sets the preemption interval of all servers, in nanoseconds; 0 for none.
///
/// # Errors
/// The kernel's error for the interval.
pub fn set_preemption(nanoseconds: u64) -> Result<(), Errno> {
    preempt::set_interval(nanoseconds)
}
