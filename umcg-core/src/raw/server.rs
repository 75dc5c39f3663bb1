//! Servers: running workers, collecting events.

use super::{Group, Worker};
use crate::umcg::idle::{EventKind, Hand, Node, WaitOutcome};
use crate::umcg::{self, Role, operation, preempt, role, stuck};
use crate::uth;
use rustix::io::Errno;
use std::sync::atomic::Ordering::Relaxed;
use umcg_context::local::Hold;

/// A server. The program has the right to use it on the thread that registered it, until it
/// unregisters.
#[derive(Clone, Copy, Debug)]
pub struct Server(pub(super) &'static umcg::server::Server);

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
    /// [`wake_server`](super::wake_server) woke the server.
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
    /// or that of a worker that [stays](super::threads_move) on its own. A hint.
    pub fn carried_by(self) -> i32 {
        preempt::carrying_thread(self.0)
    }

    /// Takes the worker that runs on this server off it, if it can be preempted just now: the
    /// server gets PREEMPT for it. Any thread may call this. A request that comes at a wrong moment
    /// is lost; the tick, if there is one, comes later.
    pub fn preempt(self) {
        preempt::ask(self.0);
    }

    /// Calls `f` with each server there is, and with descriptors of those that have ended, on which
    /// nothing runs.
    pub fn each(f: &mut dyn FnMut(Server)) {
        umcg::server::each(&mut |server| f(Server(server)));
    }

    /// The worker of this turn sleeps in the kernel, and keeps the server: takes it off with BLOCK,
    /// if it is in its own code. What it sleeps in begins anew, in a blocking scope; a system call
    /// must be one that can be restarted. A handler of SIGTRAP calls [`on_trap`](super::on_trap).
    /// May wait for a helper to be made. One thread calls this, after
    /// [`settle_stuck`](Self::settle_stuck).
    pub fn release_stuck(self, turn: u64) {
        stuck::ask(self.0, turn);
    }

    /// Gives back what [`release_stuck`](Self::release_stuck) has reserved, if the turn was over
    /// before the worker could be taken off. The same thread calls this.
    pub fn settle_stuck(self) {
        stuck::settle(self.0);
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
