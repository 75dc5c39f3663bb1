//! Workers, which servers run.
//!
//! A worker is carried in one of four ways:
//!
//! | carrier | its context | its thread-local storage | where it blocks |
//! |---|---|---|---|
//! | `Sharing` | on a pooled stack | that of the kernel thread that runs it | on a helper thread |
//! | `Owning` | on a pooled stack | a [block](crate::storage) of its own | on a helper thread |
//! | `Moving` | a pthread's, which moves to the server's kernel thread | its own, which moves along | on its home thread |
//! | `Staying` | a pthread's, which stays where it is | its own | where it is |
//!
//! `Staying` is the fallback where the thread pointer cannot be written in user mode: a switch is
//! then a futex hand-over.
//!
//! # The parties that may touch each field
//!
//! - `context`, `record`: the worker when it leaves, then the flow that runs it. I2 of `idle`
//!   orders the two.
//! - `server`: the flow that is about to run the worker.
//! - `critical`: the worker, and the preemption handler on the same kernel thread.
//! - `go`: posted by the server that settles BLOCK or EXIT, and by one that runs a `Staying`
//!   worker; awaited by the home thread.
//!
//! Descriptors are recycled and never freed: a stale pointer finds the state word of the worker
//! that uses the memory now.

use super::adoption::{self, Adoption};
use super::group::Group;
use super::idle::{EventKind, Lists, Node, state};
use super::server::{Server, Switch};
use super::{group, tick};
use crate::base::link::Link;
use crate::base::scarce::try_box;
use crate::base::sync::{futex_sleep, futex_wake};
use crate::identity::credentials::Takeover;
use crate::uth::record::UthRecord;
use crate::uth::vp::Vp;
use std::cell::UnsafeCell;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};
use umcg_context::annotate::{self, Flow, StackId};
use umcg_context::lock::HoldLock;
use umcg_context::stack::Stack;
use umcg_context::{Context, local};

/// How a worker is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Carrier {
    Sharing,
    Moving,
    Staying,
    Owning,
}

/// The part that only thread workers use.
pub(crate) struct Home {
    /// The loop of the home thread, while the worker is away.
    pub(crate) context: UnsafeCell<Context>,
    pub(crate) stack: UnsafeCell<Option<Stack>>,
    /// Valgrind's name of the pthread's stack.
    pub(crate) stack_id: UnsafeCell<Option<StackId>>,
    /// The worker's signal mask on its home thread, while it is away.
    pub(crate) mask: AtomicU64,
    /// The credentials that the home thread is to take over.
    pub(crate) takeover: Takeover,
    /// How many bytes of the worker's area of restartable sequences were registered for the home
    /// thread, before it was a worker.
    pub(crate) rseq_bytes: AtomicUsize,
    pub(crate) name: HoldLock<String>,
    /// The worker's frames lie from here to below `base`. See `callers::stack`.
    pub(crate) low: AtomicUsize,
    pub(crate) base: AtomicUsize,
    /// Only for a staying worker, which runs on its own kernel thread.
    pub(crate) tick: tick::Tick,
    /// Only for an adopted thread.
    pub(crate) adoption: Adoption,
}

/// A kernel thread that light workers block on, as the workers see it.
pub(crate) struct Helper {
    pub(crate) context: UnsafeCell<Context>,
    pub(crate) flow: UnsafeCell<Flow>,
    pub(crate) tp: usize,
    /// The worker that blocks here.
    pub(crate) current: Link<Worker>,
}

// SAFETY: only the helper's kernel thread touches the context.
unsafe impl Sync for Helper {}

/// A bit of `critical`: the worker was to be preempted in a critical section.
pub(crate) const PREEMPT_WANTED: u32 = 1 << 31;

#[repr(C)]
pub(crate) struct Worker {
    /// First: a pointer to the node is one to the worker.
    pub(crate) node: Node,
    pub(crate) context: UnsafeCell<Context>,
    group: Link<Group>,
    /// The server that runs it.
    pub(crate) server: Link<Server>,
    /// The thread pointer to run it with; 0 for the server's.
    pub(crate) tp: AtomicUsize,
    /// The worker's uth; null if it is a thread.
    pub(crate) record: AtomicPtr<UthRecord>,
    /// The storage that an owning worker runs with.
    pub(crate) block: AtomicPtr<()>,
    /// The helper that an owning worker blocks on. (A sharing worker finds it in the storage that
    /// they share.)
    pub(crate) helper: Link<Helper>,
    /// How many critical sections of its own it is in, plus [`PREEMPT_WANTED`].
    pub(crate) critical: AtomicU32,
    carrier: AtomicU8,
    /// How many blocking scopes it is in.
    pub(crate) blocking: AtomicU32,
    /// It was stuck, and makes one step in a blocking scope.
    pub(crate) steps: AtomicBool,
    /// 1: the home thread (or the staying worker) may continue.
    pub(crate) go: AtomicU32,
    /// If it leaves by a direct switch: its deadline, for the flow that publishes it.
    pub(crate) deadline: AtomicU64,
    /// How many users the descriptor still has: the thread itself, and its EXIT.
    pub(crate) users: AtomicU32,
    pub(crate) home: Option<Box<Home>>,
    /// The next worker that waits for a helper. Last field, as all others are used more often.
    pub(crate) next_job: Link<Worker>,
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Worker({self:p})")
    }
}

// SAFETY: the cells are touched as the module's comment says; everything else is atomics.
unsafe impl Sync for Worker {}

impl Worker {
    /// A descriptor for workers with home threads. None if there is no memory.
    pub(crate) fn with_home() -> Option<Self> {
        let home = Home {
            context: UnsafeCell::new(Context::empty()),
            stack: UnsafeCell::new(None),
            stack_id: UnsafeCell::new(None),
            mask: AtomicU64::new(0),
            takeover: Takeover::new(),
            rseq_bytes: AtomicUsize::new(0),
            name: HoldLock::new(String::new()),
            low: AtomicUsize::new(0),
            base: AtomicUsize::new(0),
            tick: tick::Tick::new(),
            adoption: Adoption::new(),
        };
        Some(Self {
            node: Node::new(),
            context: UnsafeCell::new(Context::empty()),
            group: Link::none(),
            server: Link::none(),
            tp: AtomicUsize::new(0),
            record: AtomicPtr::new(std::ptr::null_mut()),
            block: AtomicPtr::new(std::ptr::null_mut()),
            helper: Link::none(),
            critical: AtomicU32::new(0),
            carrier: AtomicU8::new(0),
            blocking: AtomicU32::new(0),
            steps: AtomicBool::new(false),
            go: AtomicU32::new(0),
            deadline: AtomicU64::new(0),
            users: AtomicU32::new(0),
            home: Some(try_box(home)?),
            next_job: Link::none(),
        })
    }

    /// Makes this the descriptor of a new worker. Uses atomics only: another thread may be reading
    /// it by a tid that no longer exists.
    pub(crate) fn reset(
        &self,
        group: &'static Group,
        carrier: Carrier,
        tid: u32,
        id: u64,
        tp: usize,
        record: *mut UthRecord,
    ) {
        self.group.set(Some(group));
        self.server.set(None);
        self.tp.store(tp, Relaxed);
        self.record.store(record, Relaxed);
        self.helper.set(None);
        self.critical.store(0, Relaxed);
        self.carrier.store(carrier as u8, Relaxed);
        self.blocking.store(0, Relaxed);
        self.steps.store(false, Relaxed);
        self.go.store(0, Relaxed);
        self.users.store(2, Relaxed);
        self.node.reset(tid, id, state::RUNNING);
    }

    #[inline]
    pub(crate) fn group(&self) -> &'static Group {
        self.group.get().unwrap_or(&group::FIRST)
    }

    /// The idle lists of its group.
    #[inline]
    pub(crate) fn lists(&self) -> &'static Lists {
        &self.group().lists
    }

    /// Queues an event for the servers of its group. The worker no longer runs.
    pub(crate) fn post(&'static self, kind: EventKind, deadline: Option<u64>) {
        self.group().post(&self.node, kind, deadline);
    }

    #[inline(always)]
    pub(crate) fn carrier(&self) -> Carrier {
        match self.carrier.load(Relaxed) {
            0 => Carrier::Sharing,
            1 => Carrier::Moving,
            2 => Carrier::Staying,
            _ => Carrier::Owning,
        }
    }

    /// Whether it is a light worker, which is a uth and not a thread.
    #[inline(always)]
    pub(crate) fn is_light(&self) -> bool {
        matches!(self.carrier(), Carrier::Sharing | Carrier::Owning)
    }

    /// The worker that a node is the first field of.
    #[inline]
    pub(crate) fn of(node: &'static Node) -> &'static Worker {
        // SAFETY: nodes are made as the first field of a worker (repr(C)) only.
        unsafe { &*(node as *const Node).cast::<Worker>() }
    }

    /// Whether it is in a blocking scope, away from servers. Asked by the worker itself.
    #[inline]
    pub(crate) fn is_blocked(&self) -> bool {
        self.node.state() == state::BLOCKED
    }

    /// Writes into the storage of an owning worker that it runs on this processor now.
    ///
    /// # Safety
    /// The worker is an owning one, and the caller has the right to run it.
    #[inline(always)]
    pub(crate) unsafe fn set_vp(&self, vp: Option<&'static Vp>) {
        let vp = vp.map_or(std::ptr::null_mut(), |vp| {
            (vp as *const Vp).cast_mut().cast()
        });
        // SAFETY: an owning worker's thread pointer is that of its block, which goes with the right
        // to run it.
        unsafe { local::Words::of(self.tp.load(Relaxed)) }.set_vp(vp);
    }

    /// The sanitizers' name of a light worker's flow.
    #[inline(always)]
    pub(crate) fn flow(&self) -> *mut Flow {
        if !annotate::ON {
            return std::ptr::null_mut(); // not used, and not worth a load
        }
        // SAFETY: a light worker has a record.
        unsafe { (*self.record.load(Relaxed)).flow.get() }
    }

    /// Its name, or an empty one.
    pub(crate) fn name(&self) -> String {
        // SAFETY: null or a record, which is readable for ever.
        if let Some(record) = unsafe { self.record.load(Relaxed).as_ref() } {
            let (name, len) = record.name();
            return String::from_utf8_lossy(&name[..len]).into_owned();
        }
        self.home
            .as_ref()
            .map_or_else(String::new, |home| home.name.lock().clone())
    }

    /// Lets the home thread, or a staying worker, continue.
    pub(crate) fn post_go(&self) {
        // ORDERING(go.1): Release, pairs with go.2.
        self.go.store(1, Release);
        let is_adopted = |home: &Home| home.adoption.is_adopted();
        if self.home.as_deref().is_some_and(is_adopted) {
            adoption::wake(self.node.tid());
        } else {
            futex_wake(&self.go, 1);
        }
    }

    /// Waits for [`post_go`](Worker::post_go). Touches no thread-local storage: a moving worker's
    /// is in use elsewhere.
    pub(crate) fn await_go(&self) {
        // ORDERING(go.2): Acquire, pairs with go.1.
        while self.go.swap(0, Acquire) == 0 {
            futex_sleep(&self.go, 0);
        }
    }

    /// Gives the kernel thread of the calling worker back to its server. Returns when the worker
    /// runs again.
    ///
    /// # Safety
    /// The caller is this worker, RUNNING on `server`, inside the library ([`Inside`]).
    #[inline(always)]
    pub(crate) unsafe fn leave(
        &'static self,
        server: &'static Server,
        kind: EventKind,
        deadline: Option<u64>,
    ) {
        server.mail.set(kind, deadline);
        // SAFETY: passed on.
        unsafe { self.leave_with_letter(server) };
    }

    /// # Safety
    /// As [`Worker::leave`]; the letter is written.
    #[inline(always)]
    unsafe fn leave_with_letter(&'static self, server: &'static Server) {
        match self.carrier() {
            Carrier::Sharing => {
                // SAFETY: the server is suspended in `run`, on this kernel thread, and waits for
                // this.
                unsafe { Flow::leave(self.flow(), server.flow.get()) };
                // SAFETY: as above.
                unsafe { umcg_context::switch(self.context.get(), server.context.get()) };
                // SAFETY: back on the worker's stack.
                unsafe { Flow::arrive(self.flow()) };
            }
            // Sanitizers need no flow for an owning worker.
            Carrier::Moving | Carrier::Owning => {
                // SAFETY: the server's storage is not in use while it is suspended, and nothing
                // touches any storage before the switch.
                unsafe { umcg_context::set_thread_pointer(server.tp()) };
                // SAFETY: as above.
                unsafe { umcg_context::switch(self.context.get(), server.context.get()) };
            }
            Carrier::Staying => {
                server.mail.post();
                self.await_go();
            }
        }
    }

    /// Runs `next` on the caller's server, and queues the caller's WAIT for the first server that
    /// collects it.
    ///
    /// # Safety
    /// As [`Worker::leave`]; `next` is another worker, which the caller has claimed or taken.
    pub(crate) unsafe fn leave_to(
        &'static self,
        server: &'static Server,
        next: &'static Worker,
        deadline: Option<u64>,
    ) {
        self.deadline.store(deadline.unwrap_or(u64::MAX), Relaxed);
        let this = (self as *const Worker).cast_mut().cast::<()>();
        // SAFETY: passed on.
        unsafe { self.leave_with(server, next, publish, this) };
    }

    /// Runs `next` on the caller's server, and calls `f(argument)` once the caller is fully
    /// suspended. `f` runs on the stack of `next`, or on the server's if one of the two stays on
    /// its own kernel thread.
    ///
    /// # Safety
    /// As [`Worker::leave_to`]. `f` makes sure that some server or token has the right to run the
    /// caller.
    #[inline(always)]
    pub(crate) unsafe fn leave_with(
        &'static self,
        server: &'static Server,
        next: &'static Worker,
        f: unsafe extern "C" fn(*mut ()),
        argument: *mut (),
    ) {
        // Between two sharing workers the storage stays the server's.
        if self.carrier() == Carrier::Sharing && next.carrier() == Carrier::Sharing {
            server.begin(next, Carrier::Sharing);
        } else if self.carrier() == Carrier::Staying || next.carrier() == Carrier::Staying {
            // SAFETY: passed on.
            return unsafe { self.leave_by_server(server, next, f, argument) };
        } else {
            let tp = match next.carrier() {
                Carrier::Sharing => {
                    server.begin(next, Carrier::Sharing);
                    server.tp()
                }
                its => {
                    server.begin(next, its);
                    next.tp.load(Relaxed)
                }
            };
            // SAFETY: `next` is ours to run, and so is its storage. Nothing touches any storage
            // before the switch.
            unsafe { umcg_context::set_thread_pointer(tp) };
        }
        if annotate::ON && self.carrier() == Carrier::Sharing && next.carrier() == Carrier::Sharing
        {
            // SAFETY: `next` is suspended and claimed.
            unsafe { Flow::leave(self.flow(), next.flow()) };
        }
        // SAFETY: `next` is suspended and claimed; `f` runs once this context is saved.
        unsafe { umcg_context::switch_with(self.context.get(), next.context.get(), f, argument) };
        if annotate::ON && self.carrier() == Carrier::Sharing {
            // SAFETY: back on the worker's stack.
            unsafe { Flow::arrive(self.flow()) };
        }
    }

    /// The same by way of the server. Only the server can hand its turn to another kernel thread,
    /// or take it back from there. `next` may be the caller itself: then the server calls `f` in
    /// its own flow, and lets the caller continue.
    ///
    /// # Safety
    /// As [`Worker::leave_with`].
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn leave_by_server(
        &'static self,
        server: &'static Server,
        next: &'static Worker,
        f: unsafe extern "C" fn(*mut ()),
        argument: *mut (),
    ) {
        // SAFETY: the caller runs on the server.
        unsafe { server.mail.set_switch(Switch { next, f, argument }) };
        // SAFETY: passed on.
        unsafe { self.leave_with_letter(server) };
    }
}

/// Queues the WAIT of a worker that has left for another one, once it is fully suspended.
unsafe extern "C" fn publish(worker: *mut ()) {
    // SAFETY: `leave_to` passed a worker; descriptors are never freed.
    let worker: &'static Worker = unsafe { &*worker.cast::<Worker>() };
    let deadline = worker.deadline.load(Relaxed);
    worker.post(EventKind::Wait, (deadline != u64::MAX).then_some(deadline));
}

/// A worker's time inside the library, in which it is not preempted.
///
/// The hold count of the storage that the worker runs with expresses this. It is 0 in a worker's
/// own code. A worker that leaves sets it, and the next flow with that storage finds it set. That
/// flow is a server, for which it is always set, or a worker, which clears it. So a switch is held
/// on both sides, at the cost of two stores.
pub(crate) struct Inside(pub(crate) &'static Worker);

impl Inside {
    /// The caller is `worker`.
    #[inline(always)]
    pub(crate) fn enter(worker: &'static Worker) -> Inside {
        local::set_holds(1);
        Inside(worker)
    }
}

impl Drop for Inside {
    #[inline(always)]
    fn drop(&mut self) {
        local::set_holds(0);
    }
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Inside").field(&self.0).finish()
    }
}
