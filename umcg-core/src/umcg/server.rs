//! Servers: kernel threads that run workers and collect their events.
//!
//! ```text
//!   RUNNING --run(worker)--> ATTACHED --the worker leaves--> RUNNING
//!   RUNNING --wait---------> IDLE     --an event, WAKE-----> RUNNING
//! ```
//!
//! While ATTACHED the server's own flow is suspended in `context`, on its kernel thread's stack,
//! and the mail box says how the worker left. The box has one letter. The worker that runs on this
//! very server writes it, and the server reads it once it continues. So a carried worker needs no
//! atomic operation for it. A `Staying` worker runs on its own kernel thread; for that case the box
//! has a futex.

use super::group::{self, Group};
use super::idle::{EventKind, IdleSeat};
use super::worker::{Carrier, Worker};
use super::{STORAGE_OWNERS, tick};
use crate::base::link::Link;
use crate::base::page_offset;
use crate::base::sync::{futex_sleep, futex_wake};
use crate::identity::Carrying;
use crate::uth::{self, vp::Vp};
use std::cell::UnsafeCell;
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::*,
};
use umcg_context::Context;
use umcg_context::annotate::Flow;
use umcg_context::lock::HoldLock;

/// How the worker that ran has left, and until when it wants to wait.
pub(crate) struct Mail {
    kind: AtomicU8,
    deadline: AtomicU64,
    switch: UnsafeCell<Option<Switch>>,
    posted: AtomicU32,
}

/// The contents of a [`SWITCH`] letter.
pub(crate) struct Switch {
    /// The worker to run.
    pub(crate) next: &'static Worker,
    /// The function to call before that, now that the worker that left is fully suspended.
    pub(crate) f: unsafe extern "C" fn(*mut ()),
    pub(crate) argument: *mut (),
}

/// Not an event: the server is to run another worker in place of the one that left.
const SWITCH: u8 = 0;
/// WAIT without a deadline. Nearly all letters are this one, so its paths are kept short.
pub(crate) const PLAIN_WAIT: u8 = 7;

impl Mail {
    #[inline(always)]
    pub(crate) fn set(&self, kind: EventKind, deadline: Option<u64>) {
        if let (EventKind::Wait, None) = (kind, deadline) {
            return self.kind.store(PLAIN_WAIT, Relaxed);
        }
        self.kind.store(kind as u8, Relaxed);
        self.deadline.store(deadline.unwrap_or(u64::MAX), Relaxed);
    }

    /// # Safety
    /// The caller is the worker that runs on the box's server.
    pub(crate) unsafe fn set_switch(&self, switch: Switch) {
        // SAFETY: only the server reads it, once the caller has left.
        unsafe { self.switch.get().write(Some(switch)) };
        self.kind.store(SWITCH, Relaxed);
    }

    /// # Safety
    /// The caller is the box's server, in its own flow.
    unsafe fn take_switch(&self) -> Option<Switch> {
        if self.kind.load(Relaxed) == SWITCH {
            // SAFETY: the writer has left.
            unsafe { (*self.switch.get()).take() }
        } else {
            None
        }
    }

    /// Posts the letter from another kernel thread.
    pub(crate) fn post(&self) {
        // ORDERING(mail.1): Release, pairs with mail.2.
        self.posted.store(1, Release);
        futex_wake(&self.posted, 1);
    }

    fn await_posted(&self) {
        // ORDERING(mail.2): Acquire, pairs with mail.1.
        while self.posted.swap(0, Acquire) == 0 {
            futex_sleep(&self.posted, 0);
        }
    }

    /// The event, and for WAIT the deadline. The letter is not SWITCH.
    pub(crate) fn read(&self) -> (EventKind, Option<u64>) {
        let deadline =
            || Some(self.deadline.load(Relaxed)).filter(|deadline| *deadline != u64::MAX);
        match self.kind.load(Relaxed) {
            1 => (EventKind::Block, None),
            3 => (EventKind::Wait, deadline()),
            4 => (EventKind::Exit, None),
            6 => (EventKind::Preempt, None),
            _ => (EventKind::Wait, None),
        }
    }
}

#[repr(C)]
pub(crate) struct Server {
    /// First: see `page_offset`.
    pub(crate) context: UnsafeCell<Context>,
    pub(crate) flow: UnsafeCell<Flow>,
    /// The worker that runs in its place.
    pub(crate) current: Link<Worker>,
    tp: AtomicUsize,
    vp: AtomicPtr<Vp>,
    group: Link<Group>,
    /// The word that the layer above keeps with the server.
    pub(crate) upper: AtomicUsize,
    pub(crate) mail: Mail,
    /// How many times a worker has begun to run here. By this the preemption tick sees that it is
    /// still the same turn.
    pub(crate) turns: AtomicU64,
    pub(crate) seat: IdleSeat,
    pub(crate) tick: tick::Tick,
    carrying: Link<Carrying>,
    /// The virtual processor was made for the server, and ends with it.
    owns_vp: AtomicBool,
    /// The next of all descriptors.
    next_of_all: Link<Server>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Server({self:p})")
    }
}

// SAFETY: only the server's kernel thread touches the context. A letter is touched by its writer
// and then by its reader. Everything else is atomics.
unsafe impl Sync for Server {}

/// Descriptors that are not in use.
pub(crate) static SPARE: HoldLock<Vec<&'static Server>> = HoldLock::new(Vec::new());

/// All descriptors, in use or not.
static ALL: AtomicPtr<Server> = AtomicPtr::new(std::ptr::null_mut());

fn enlist(server: &'static Server) -> &'static Server {
    let new = std::ptr::from_ref(server).cast_mut();
    let put_first = |first: *mut Server| {
        // SAFETY: null, or a descriptor, which is never freed.
        server.next_of_all.set(unsafe { first.as_ref() });
        Some(new)
    };
    // ORDERING(servers.1): Release, pairs with servers.2: the descriptor is seen whole.
    let _ = ALL.fetch_update(Release, Relaxed, put_first);
    server
}

/// Calls `f` with each descriptor of a server, in use or not.
pub(crate) fn each(f: &mut dyn FnMut(&'static Server)) {
    // ORDERING(servers.2): Acquire, pairs with servers.1.
    let first = ALL.load(Acquire);
    // SAFETY: as in `enlist`.
    let mut next = unsafe { first.as_ref() };
    while let Some(server) = next {
        f(server);
        next = server.next_of_all.get();
    }
}

impl Server {
    fn new() -> Server {
        Server {
            context: UnsafeCell::new(Context::empty()),
            flow: UnsafeCell::new(Flow::new()),
            current: Link::none(),
            tp: AtomicUsize::new(0),
            vp: AtomicPtr::new(std::ptr::null_mut()),
            group: Link::none(),
            upper: AtomicUsize::new(0),
            mail: Mail {
                kind: AtomicU8::new(SWITCH),
                deadline: AtomicU64::new(u64::MAX),
                switch: UnsafeCell::new(None),
                posted: AtomicU32::new(0),
            },
            turns: AtomicU64::new(0),
            seat: IdleSeat::new(),
            tick: tick::Tick::new(),
            carrying: Link::none(),
            owns_vp: AtomicBool::new(false),
            next_of_all: Link::none(),
        }
    }

    /// Makes the calling kernel thread a server of this group, and a virtual processor if it is
    /// none yet.
    pub(crate) fn make(group: &'static Group) -> Result<&'static Server, uth::UthError> {
        let (vp, owns) = match Vp::here() {
            Some(vp) => (vp, false),
            None => {
                uth::vp_init_with(None, uth::Method::Asm)?;
                (Vp::here().ok_or(uth::UthError::NoVp)?, true)
            }
        };
        let spare = SPARE.lock().pop();
        let server = spare
            .unwrap_or_else(|| enlist(page_offset::leak_at(page_offset::SERVER, Server::new())));
        server.tp.store(umcg_context::thread_pointer(), Relaxed);
        // SAFETY: the descriptor is ours alone. Its last server may have been another kernel
        // thread's.
        unsafe { server.flow.get().write(Flow::of_this_thread()) };
        server.carrying.set(Some(Carrying::begin(&STORAGE_OWNERS)));
        server.vp.store((vp as *const Vp).cast_mut(), Relaxed);
        server.owns_vp.store(owns, Relaxed);
        server.group.set(Some(group));
        server.upper.store(0, Relaxed);
        Ok(server)
    }

    /// Ends the server. Called by its own thread, with no worker attached.
    pub(crate) fn unmake(&'static self) {
        self.carrying.take().inspect(|carrying| carrying.end());
        if self.owns_vp.load(Relaxed) {
            // This fails only inside a uth of the program's own, which then keeps its processor.
            let _ = uth::vp_exit();
        }
        SPARE.lock().push(self);
    }

    #[inline]
    pub(crate) fn group(&self) -> &'static Group {
        self.group.get().unwrap_or(&group::FIRST)
    }

    #[inline(always)]
    pub(crate) fn tp(&self) -> usize {
        self.tp.load(Relaxed)
    }

    #[inline(always)]
    fn vp(&self) -> &'static Vp {
        // SAFETY: set by `make`; descriptors are never freed.
        unsafe { &*self.vp.load(Relaxed) }
    }

    /// Notes that `worker`, with this carrier, runs here from now on.
    #[inline(always)]
    pub(crate) fn begin(&'static self, worker: &'static Worker, carrier: Carrier) {
        if carrier != Carrier::Sharing {
            worker.server.set(Some(self)); // a sharing worker finds it in its server's storage
        }
        self.current.publish(worker);
        self.turns.store(self.turns.load(Relaxed) + 1, Relaxed);
        if matches!(carrier, Carrier::Sharing | Carrier::Owning) {
            // The worker is the uth that runs on the server's virtual processor.
            self.vp()
                .current
                .store(worker.record.load(Relaxed), Relaxed);
        }
        if carrier == Carrier::Owning {
            // SAFETY: it is an owning worker, and the caller is about to run it.
            unsafe { worker.set_vp(Some(self.vp())) };
        }
    }

    /// Runs `worker` in the server's place, until it, or another that it switched to, leaves.
    /// Returns the worker that left, and whether its letter is a [`PLAIN_WAIT`]; if not, `mail` has
    /// the letter.
    ///
    /// # Safety
    /// The caller is the server's own flow; `worker` is the caller's to run, by claim or token, and
    /// suspended.
    #[inline(always)]
    pub(crate) unsafe fn run(&'static self, worker: &'static Worker) -> (&'static Worker, bool) {
        let me = self.vp().current.load(Relaxed);
        // SAFETY: passed on.
        unsafe { self.attach(worker) };
        let letter = self.mail.kind.load(Relaxed);
        if letter == SWITCH {
            // SAFETY: passed on.
            unsafe { self.attach_next() };
        }
        self.vp().current.store(me, Relaxed);
        let departed = self.current.get().unwrap_or(worker);
        self.current.set(None);
        (departed, self.mail.kind.load(Relaxed) == PLAIN_WAIT)
    }

    /// Lets `worker` run until a worker leaves.
    ///
    /// # Safety
    /// As [`Server::run`].
    #[inline(always)]
    unsafe fn attach(&'static self, worker: &'static Worker) {
        match worker.carrier() {
            Carrier::Sharing => {
                self.begin(worker, Carrier::Sharing);
                // SAFETY: the worker is suspended, and ours.
                unsafe { Flow::leave(self.flow.get(), worker.flow()) };
                // SAFETY: as above.
                unsafe { umcg_context::switch(self.context.get(), worker.context.get()) };
                // SAFETY: back on the server's stack.
                unsafe { Flow::arrive(self.flow.get()) };
            }
            carrier @ (Carrier::Moving | Carrier::Owning) => {
                self.begin(worker, carrier);
                // SAFETY: its storage is ours, too. Nothing touches any storage before the switch.
                unsafe { umcg_context::set_thread_pointer(worker.tp.load(Relaxed)) };
                // SAFETY: as above. The flow that switches back sets our own storage again.
                unsafe { umcg_context::switch(self.context.get(), worker.context.get()) };
                // SAFETY: back on the server's stack.
                unsafe { Flow::arrive(self.flow.get()) };
            }
            Carrier::Staying => {
                self.begin(worker, Carrier::Staying);
                worker.post_go();
                self.mail.await_posted();
            }
        }
    }

    /// The worker has left for another one: calls its function and runs the other, as often as that
    /// happens.
    ///
    /// # Safety
    /// As [`Server::run`]; the letter is SWITCH.
    #[cold]
    unsafe fn attach_next(&'static self) {
        // SAFETY: passed on.
        while let Some(Switch { next, f, argument }) = unsafe { self.mail.take_switch() } {
            // The worker that left may run elsewhere as soon as `f` is called.
            self.current.publish(next);
            // SAFETY: the worker that left is fully suspended, as `f` requires.
            unsafe { f(argument) };
            // SAFETY: passed on. The worker that left had the right to run `next`, and gave it to
            // us.
            unsafe { self.attach(next) };
        }
    }
}
