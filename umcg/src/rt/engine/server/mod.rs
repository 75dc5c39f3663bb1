//! A server of a runtime: a kernel thread that asks the scheduler for a worker, runs it, and then
//! does the step that the worker left.
//!
//! A worker that stops leaves a *step* with its server: a function that the server calls on its own
//! stack once the worker is wholly suspended, with the right to run it. So no thread finds a worker
//! that is still on its way out, and no lock is held across a switch. A step may run on the stack
//! of the next worker. So a step never asks for the caller's role: asking would let the next worker
//! be preempted in the midst of the step.
//!
//! `ServerState` is touched by its own kernel thread: by the loop here, and by workers that run on
//! it inside the library (that is, not preempted). The fields that other threads read say so.

mod inactive;
mod spares;

use super::countdown::Countdown;
use super::runtime::RuntimeState;
use super::timers::Timers;
use super::turns::{self, ServerTurn};
use crate::rt::base::here::Here;
use crate::rt::base::per_server::{Biased, Load};
use crate::rt::base::rank::{self, Post};
use crate::rt::scheduler::Why;
use crate::rt::task::runnable::Runnable;
use crate::rt::task::{Handle, IS_THREAD, Task, heap, thread};
use spares::Spares;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::*};
use umcg_core::asymmetric;
use umcg_core::context::way::nap;
use umcg_core::raw::{self, Event, EventKind, Group};

/// Called with a worker that has left, and the right to run it.
pub(crate) type Step = fn(&ServerState, Runnable);

/// How often in a row the slot is served before the scheduler is asked.
const STREAK: u32 = 16;

/// A worker, and why it is ready.
#[derive(Default)]
struct ServerSlot(Option<(Runnable, Why)>);

impl Load for ServerSlot {
    fn load(&self) -> usize {
        usize::from(self.0.is_some())
    }
}

/// The fields that each switch touches come first, so that they share cache lines.
#[repr(C, align(128))]
#[allow(unreachable_pub, reason = "in a signature of a sealed trait")]
pub struct ServerState {
    /// The worker to run next, if the scheduler has slots. `watch` takes it if this server is
    /// stuck.
    slot: Biased<ServerSlot>,
    shared: *const RuntimeState,
    step: Cell<Step>,
    /// The worker that left for another, until its step is done.
    departed: Cell<Option<&'static Task>>,
    /// Turns until the server checks timers and files.
    pub(crate) countdown: Countdown,
    /// How many workers in a row came from the slot.
    streak: Cell<u32>,
    here: Here,
    /// Workers that have ended, to be reused as they are: sharing ones, and full ones.
    spares: [Spares; 2],
    /// Workers that were made here, and workers that ended here. Read by other threads.
    pub(crate) spawned: AtomicU64,
    pub(crate) ended: AtomicU64,
    /// How many times the server has checked timers and files. Read by `watch`.
    looks: AtomicU64,
    /// How many workers it has preempted. Read by `watch`.
    preemptions: AtomicU64,
    /// The watch has asked it to preempt its worker before the tick.
    is_asked: AtomicBool,
    /// It leaves to other servers what these may run, and has no turn without its own loop.
    is_inactive: Cell<bool>,
    /// Turns until an inactive server checks timers and files.
    inactive_turns: Cell<u32>,
    /// How often it looks for work before it sleeps. Adapts to how often that has found work.
    pub(crate) patience: Cell<u32>,
    /// The worker that it runs, where urgent workers preempt less urgent ones.
    pub(crate) post: Post,
    stopped: AtomicBool,
}

impl ServerState {
    /// The state for the calling kernel thread, which is about to be this server.
    pub(crate) fn new(shared: &'static RuntimeState, index: usize) -> ServerState {
        ServerState {
            // SAFETY: workers use it under `Running`, which keeps them here.
            here: unsafe { Here::new(index) },
            shared,
            step: Cell::new(yielded),
            departed: Cell::new(None),
            slot: Biased::new(ServerSlot(None)),
            streak: Cell::new(0),
            spares: [const { Spares::new() }; 2],
            countdown: Countdown::new(),
            spawned: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            looks: AtomicU64::new(0),
            preemptions: AtomicU64::new(0),
            is_asked: AtomicBool::new(false),
            is_inactive: Cell::new(false),
            inactive_turns: Cell::new(0),
            patience: Cell::new(0),
            post: Post::new(),
            stopped: AtomicBool::new(false),
        }
    }

    #[inline(always)]
    pub(crate) fn here(&self) -> &Here {
        &self.here
    }

    #[inline(always)]
    pub(crate) fn shared(&self) -> &'static RuntimeState {
        // SAFETY: a runtime outlives its servers.
        unsafe { &*self.shared }
    }

    pub(crate) fn timers(&self) -> &'static Timers {
        &self.shared().servers[self.here.index()].timers
    }

    /// Makes a worker ready: it takes the slot, or goes to the scheduler. The caller is on this
    /// server.
    #[inline(always)]
    pub(crate) fn make_ready(&self, worker: Runnable, why: Why) {
        let shared = self.shared();
        if shared.has_slots && matches!(why, Why::Spawned | Why::Woken) && worker.server().is_none()
        {
            // SAFETY: the caller is on this server's kernel thread, not preempted. The closure does
            // not come back here.
            let before = unsafe { self.slot.own(|slot| slot.0.replace((worker, why))) };
            if let Some((before, why)) = before {
                self.schedule(before, why);
            }
        } else {
            self.schedule(worker, why);
        }
    }

    /// Not inlined: filling the slot stays short.
    #[inline(never)]
    fn schedule(&self, worker: Runnable, why: Why) {
        self.shared().ready_at(worker, why, &self.here);
    }

    /// Returns the worker to run next: from the slot, or from the scheduler. The slot is not served
    /// too often in a row if there are other workers.
    #[inline(always)]
    pub(crate) fn pick(&self) -> Option<Runnable> {
        if self.shared().ranked {
            return self.pick_ranked();
        }
        // The slot's hint, read by its owner, is exact, except for a worker that was taken away
        // just now.
        if self.slot.hint() == 0 {
            self.streak.set(0);
            return self.shared().scheduler.next(&self.here);
        }
        let streak = self.streak.get();
        if streak == STREAK {
            return self.pick_another();
        }
        self.streak.set(streak + 1);
        self.take_slot().map(|(worker, _)| worker)
    }

    /// Returns the worker to run next, where urgent workers preempt less urgent ones and there is
    /// no slot.
    #[cold]
    #[inline(never)]
    fn pick_ranked(&self) -> Option<Runnable> {
        rank::choose(self.shared(), &self.here, &self.post)
    }

    /// Other workers come before the one in the slot next time: they may have waited for long, if
    /// the turns of those in the slot are.
    pub(crate) fn end_streak(&self) {
        self.streak.set(STREAK);
    }

    #[inline(always)]
    fn take_slot(&self) -> Option<(Runnable, Why)> {
        // SAFETY: as in `make_ready`.
        unsafe { self.slot.own(|slot| slot.0.take()) }
    }

    /// The slot has been served often enough: returns another worker if there is one.
    #[cold]
    #[inline(never)]
    fn pick_another(&self) -> Option<Runnable> {
        self.streak.set(0);
        let slot = self.take_slot();
        let Some(another) = self.shared().scheduler.next_beside_slot(&self.here) else {
            return slot.map(|(worker, _)| worker);
        };
        if let Some((worker, why)) = slot {
            self.shared().ready_at(worker, why, &self.here);
        }
        Some(another)
    }

    /// Makes the server check timers and files before its next turn. Called by this server only.
    pub(crate) fn hurry(&self) {
        self.countdown.end();
    }

    /// The server is about to check timers and files.
    pub(crate) fn note_look(&self) {
        self.looks.store(self.looks.load(Relaxed) + 1, Relaxed);
    }

    pub(crate) fn preemptions(&self) -> u64 {
        self.preemptions.load(Relaxed)
    }

    pub(crate) fn looks(&self) -> u64 {
        self.looks.load(Relaxed)
    }

    /// Whether this server has a worker to run. Called by this server only.
    pub(crate) fn has_work(&self) -> bool {
        let scheduler = &self.shared().scheduler;
        self.slot.hint() > 0
            || if self.is_inactive() {
                scheduler.has_bound(&self.here)
            } else {
                scheduler.has_work(&self.here)
            }
    }

    /// The watch is about to ask for a preemption before the tick.
    pub(crate) fn note_asked(&self) {
        self.is_asked.store(true, Relaxed);
    }

    /// Whether a worker waits in the slot. Called by any thread.
    pub(crate) fn keeps_slot(&self) -> bool {
        self.slot.hint() > 0
    }

    /// Takes away the worker that was to run next here. Called by other threads when this server is
    /// stuck.
    pub(crate) fn take_from_slot(&self) -> Option<Runnable> {
        let taken = self.slot.hint() > 0;
        taken
            .then(|| self.slot.try_other(|slot| slot.0.take()))
            .flatten()
            .flatten()
            .map(|(worker, _)| worker)
    }
}

/// The calling worker of a runtime, and its server. As long as this value exists, the worker stays
/// on that server.
pub(crate) struct Running {
    running: raw::RunningWorker,
    local: *const ServerState,
}

/// The caller, if it is a worker of a runtime and a server runs it.
#[inline(always)]
pub(crate) fn running() -> Option<Running> {
    let running = raw::RunningWorker::here()?;
    let local = running.server().upper() as *const ServerState;
    if local.is_null() {
        None
    } else {
        Some(Running { running, local })
    }
}

impl Running {
    #[inline(always)]
    pub(crate) fn task(&self) -> &'static Task {
        Task::of(self.running.worker())
    }

    #[inline(always)]
    pub(crate) fn local(&self) -> &ServerState {
        // SAFETY: a runtime's server keeps its state as long as it runs workers.
        unsafe { &*self.local }
    }

    /// The same, as the layer below has it.
    pub(super) fn into_raw(self) -> raw::RunningWorker {
        self.running
    }

    /// Gives the processor to the next worker, or to the server if there is none. Then `step` is
    /// called with the right to run the caller. Returns when the caller is run again. Switches.
    #[inline(always)]
    pub(crate) fn suspend(self, step: Step) {
        match self.local().next_without_server() {
            Some(next) => self.switch_to(next, step),
            None => self.leave(step),
        }
    }

    /// Like [`Running::suspend`], but gives the processor to the server.
    #[inline(always)]
    fn leave(self, step: Step) {
        self.local().step.set(step);
        // SAFETY: the caller has not switched since `running`, as the value is not Send and lives
        // within one call of this library.
        unsafe { self.running.wait(None) };
    }

    /// Lets other workers run. The caller goes on when it is its turn again. Switches. False if it
    /// has not, as no other worker was ready.
    #[inline(always)]
    pub(crate) fn give_way(self) -> bool {
        self.give_way_by(yielded)
    }

    /// The same, also to workers that were preempted.
    #[inline(always)]
    pub(crate) fn give_way_to_all(self) -> bool {
        self.give_way_by(yielded_to_all)
    }

    /// The same for a worker that waits for another one.
    #[inline(always)]
    pub(crate) fn give_way_to_look(self) -> bool {
        self.give_way_by(yielded_to_look)
    }

    #[inline(always)]
    fn give_way_by(self, step: Step) -> bool {
        if !self.local().shared().has_slots {
            // Goes through the server, so that the scheduler chooses among all workers, the caller
            // included.
            self.leave(step);
            return true;
        }
        match self.local().next_without_server() {
            Some(next) => self.switch_to(next, step),
            // The server itself has something to do now and then.
            None if self.local().is_due() => self.leave(step),
            None => return false,
        }
        true
    }

    #[inline(always)]
    pub(crate) fn switch_to(self, next: Runnable, step: Step) {
        let local = self.local();
        local.step.set(step);
        local.departed.set(Some(self.task()));
        let argument = self.local.cast_mut().cast();
        let next = next.into_task().worker();
        if turns::note(local.here.index(), ServerTurn::Switches(next)) {
            local.hurry();
        }
        // SAFETY: as in `leave`. The Runnable was the right to run the other worker; `take_step`
        // takes the right to run the caller.
        unsafe { self.running.switch_with(next, take_step, argument) };
    }
}

impl Handle {
    /// The caller's handle.
    #[inline]
    pub fn current() -> Handle {
        if let Some(running) = running() {
            return Handle::of(running.task());
        }
        match raw::Worker::current() {
            // The worker is in a blocking scope.
            Some(worker) if is_ours(worker) => Handle::of(Task::of(worker)),
            _ => Handle::of(thread::of_thread()),
        }
    }
}

/// The server whose loop is the caller.
pub(crate) fn in_loop() -> Option<&'static ServerState> {
    let local = raw::Server::here()?.upper() as *const ServerState;
    // SAFETY: null, or the server's state, which the server keeps while it is in its loop. The
    // caller is in that loop.
    unsafe { local.as_ref() }
}

/// Recycles a worker that has ended, and whose handle is used up.
///
/// # Safety
/// The caller has the right to run it.
#[inline]
pub(crate) unsafe fn recycle(task: &'static Task) {
    if task.flags.load(Relaxed) & IS_THREAD != 0 {
        return heap::give_back(task);
    }
    match running() {
        // SAFETY: passed on; the caller is on that server.
        // Numbers are compared, not addresses: an ended runtime may have had this one's address.
        Some(running) if running.local().shared().number == task.runtime.load(Relaxed) => unsafe {
            running.local().recycle(task)
        },
        // SAFETY: passed on.
        _ => unsafe { task.worker().discard() },
    }
}

/// The task of the calling worker of a runtime, also in a blocking scope.
pub(crate) fn current_task() -> Option<&'static Task> {
    if let Some(running) = running() {
        return Some(running.task());
    }
    raw::Worker::current()
        .filter(|worker| is_ours(*worker))
        .map(Task::of)
}

/// Whether the caller is a worker of this runtime, also in a blocking scope.
pub(crate) fn is_worker_of(shared: &RuntimeState) -> bool {
    current_task().is_some_and(|task| std::ptr::eq(task.shared.load(Relaxed).cast(), shared))
}

/// Whether a worker is one of a runtime: they alone have groups of their own.
pub(crate) fn is_ours(worker: raw::Worker) -> bool {
    worker.group() != Group::first()
}

/// Runs on the stack of the next worker: does the step of the worker that switched to it.
unsafe extern "C" fn take_step(local: *mut ()) {
    // SAFETY: `switch_to` passed the server's state.
    let local = unsafe { &*local.cast::<ServerState>() };
    let step = local.step.replace(yielded);
    if let Some(task) = local.departed.take() {
        // SAFETY: its context is saved, and it left the right to run it here.
        step(local, unsafe { Runnable::new(task) });
    }
}

/// The step of a worker that left without one: by yielding, or by an operation of the crate's lower
/// half.
fn yielded(local: &ServerState, worker: Runnable) {
    local.make_ready(worker, Why::Yielded);
}

fn yielded_to_look(local: &ServerState, worker: Runnable) {
    local.shared().scheduler.note_waits(&local.here);
    local.make_ready(worker, Why::Yielded);
}

fn yielded_to_all(local: &ServerState, worker: Runnable) {
    local.shared().ready_last_at(worker, &local.here);
}

impl ServerState {
    /// Publishes that the server runs no worker, until [`ServerState::run_again`].
    pub(crate) fn stop(&self) {
        self.set_stopped(true);
    }

    /// Publishes that the server may run workers again. Waits until no thread wants it to stand
    /// still.
    pub(crate) fn run_again(&self) {
        loop {
            while self.shared().is_stopping() {
                // The server does check timers and files here.
                self.note_look();
                nap(100_000);
            }
            self.set_stopped(false);
            // Another thread may have asked for a stop since the check, and have seen this server
            // stopped. Either that thread sees that it no longer is, or this one sees the request:
            // `RuntimeState::stand_still` makes all threads pass a fence in between.
            asymmetric::light();
            if !self.shared().is_stopping() {
                return;
            }
            self.set_stopped(true);
        }
    }

    pub(crate) fn set_stopped(&self, stopped: bool) {
        // ORDERING(stopped.1): Release, pairs with stopped.2: a thread that sees this server
        // stopped sees the contexts of the workers that it ran.
        self.stopped.store(stopped, Release);
    }

    /// Whether the server runs no worker, and will run none before `stopping` is taken back.
    pub(crate) fn is_stopped(&self) -> bool {
        // ORDERING(stopped.2): Acquire, pairs with stopped.1.
        self.stopped.load(Acquire)
    }

    /// Whether the server itself has something to do.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        let shared = self.shared();
        self.countdown.is_over() || shared.attention() || shared.has_staying.load(Relaxed)
    }

    /// Returns the worker to run next. Called by the worker that is about to stop. None also if the
    /// server has something to do first.
    #[inline(always)]
    fn next_without_server(&self) -> Option<Runnable> {
        if self.is_due() {
            return None;
        }
        self.countdown.count();
        self.pick()
    }

    #[inline(always)]
    pub(crate) fn run(&self, server: raw::Server, worker: Runnable) {
        let worker = worker.into_task().worker();
        turns::begin(self.here.index(), worker);
        // SAFETY: this is the server's own flow, and the Runnable was the right to run the worker.
        let event = unsafe { server.run(worker) };
        turns::end(self.here.index(), event);
        if self.shared().ranked {
            self.post.leave();
        }
        match event {
            Event::Ready(EventKind::Wait, worker) => {
                let step = self.step.replace(yielded);
                // SAFETY: the event gave the right to run it.
                step(self, unsafe { Runnable::new(Task::of(worker)) });
            }
            event => self.settle(event),
        }
    }

    /// Handles any event but a WAIT whose step the worker has left with its server.
    #[cold]
    pub(crate) fn settle(&self, event: Event) {
        // BLOCK: a helper runs the worker now. EXIT and TIMEOUT do not happen to workers of a
        // runtime.
        let Event::Ready(kind, worker) = event else {
            if let Event::News(EventKind::Block, _) = event {
                self.shared().blocked.fetch_add(1, Relaxed);
            }
            return;
        };
        if kind == EventKind::Wake {
            self.shared().blocked.fetch_sub(1, Relaxed);
        }
        let why = match kind {
            EventKind::Wake => Why::Unblocked,
            EventKind::Preempt => Why::Preempted,
            _ => Why::Yielded,
        };
        if why == Why::Preempted {
            self.preemptions.store(self.preemptions() + 1, Relaxed);
            Task::of(worker).was_preempted.store(true, Relaxed);
            self.hurry(); // as its turns are long
            if self.is_asked.swap(false, Relaxed) {
                self.shared().scheduler.note_early(&self.here);
            }
        }
        let task = Task::of(worker);
        task.carrier.store(worker.into_ptr(), Relaxed); // new at a thread's first event only
        // SAFETY: the event gave the right to run it.
        self.make_ready(unsafe { Runnable::new(task) }, why);
    }
}
