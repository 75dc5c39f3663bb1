//! The idle lists: workers with an event that is not collected yet, and servers that wait for one.
//!
//! | module | holds |
//! |---|---|
//! | `node` | a worker's state, events and place in the lists |
//! | `seat` | the seats of idle servers |
//!
//! # Invariants
//!
//! - I1: a node is in the queue exactly while its `events` are not zero, and in the timer heap
//!   exactly while `armed`.
//! - I2: an event is posted after the worker's context was saved, by the flow that runs next on
//!   that kernel thread. So a server that sees the event, or the state that collecting it sets, may
//!   resume the worker.
//! - I3: which seats are in the list of idle servers: see [`seat`]. A server checks the queue
//!   under the lock before it sits down. So an event never waits while a server sleeps that sat
//!   down after the event came. And each post wakes one server, if one sits.
//! - I4: while a server is idle, one idle server sleeps no longer than to the earliest deadline.
//!   And while a server is idle, the queue is empty or one server has been called. A thread that
//!   may have broken either calls the first server in the list ([`Lists::call_if_needed`]).
//!
//! The lock is a bare `Lock`. Once it is released, a worker that posted itself from its home thread
//! may run elsewhere, with this thread's storage. So callers that could be preempted prevent that
//! themselves (`Inside`, `Hold`).
//!
//! Not chosen: a lock-free queue. A post is needed only when a worker comes back from the kernel or
//! switches to another one. The round trip of a server and a worker touches none of this. One short
//! lock keeps the order of events total, as the interface promises, and makes WAIT followed by
//! TIMEOUT one decision.
//!
//! Modelled in `umcg-core/tests/model` (shuttle), which compiles these very files.

use crate::base::link::Link;
use crate::base::sync::{AtomicU64, AtomicUsize, Guard, Lock};
use crate::base::timer::Heap;
use rustix::io::Errno;
use seat::{CALLED, Seats, WOKEN, wake};
use std::sync::atomic::Ordering::*;

mod node;
mod seat;

pub use node::EventKind;
pub(crate) use node::{Hand, Node, state};
pub(crate) use seat::IdleSeat;

/// The order in which the events of one worker are handed over.
const IN_ORDER: [EventKind; 4] = [
    EventKind::Wake,
    EventKind::Wait,
    EventKind::Timeout,
    EventKind::Exit,
];

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitOutcome {
    /// At least one event was collected.
    Collected,
    /// The command WAKE ended it.
    Woken,
    /// The deadline passed.
    TimedOut,
    /// A signal handler ran.
    Interrupted,
    /// There was an event, but the caller could not take it.
    Refused,
}

/// Called with each event that is collected. It returns false if it cannot take the event, which
/// then stays in place.
pub(crate) type Give<'a> = &'a mut dyn FnMut(&'static Node, EventKind) -> bool;

struct Inner {
    first: Link<Node>,
    last: Link<Node>,
    idle: Seats,
    timers: Heap<Node>,
}

/// The lists of a process.
pub(crate) struct Lists {
    inner: Lock<Inner>,
    /// How many workers are in the queue. Written under the lock.
    queued: AtomicUsize,
    /// The earliest deadline, or `u64::MAX`. Written under the lock.
    next_deadline: AtomicU64,
    /// Nanoseconds of CLOCK_REALTIME.
    clock: fn() -> u64,
    /// Called once the EXIT of a node has been collected: the lists no longer need the node.
    gone: fn(&'static Node),
}

impl Lists {
    pub(crate) const fn new(clock: fn() -> u64, gone: fn(&'static Node)) -> Self {
        Self {
            inner: Lock::new(Inner {
                first: Link::none(),
                last: Link::none(),
                idle: Seats::new(),
                timers: Heap::new(),
            }),
            queued: AtomicUsize::new(0),
            next_deadline: AtomicU64::new(u64::MAX),
            clock,
            gone,
        }
    }

    fn lock(&self) -> Guard<'_, Inner> {
        self.inner.lock()
    }

    /// Whether checking the queue is worth taking the lock. This is only a hint: an event that is
    /// just coming may be missed.
    #[inline]
    pub(crate) fn has_events(&self) -> bool {
        self.queued.load(Relaxed) != 0 || self.next_deadline.load(Relaxed) != u64::MAX
    }

    /// Queues an event of a worker that no longer runs (I2), and calls an idle server for it. With
    /// a deadline, WAIT is followed by TIMEOUT once that has passed.
    pub(crate) fn post(&self, node: &'static Node, kind: EventKind, deadline: Option<u64>) {
        let inner = self.lock();
        let was_blocked = node.state() == state::BLOCKED;
        node.set_state(state::QUEUED);
        self.enqueue(&inner, node, kind);
        if let Some(deadline) = deadline {
            if deadline <= (self.clock)() {
                node.timed_out.store(true, Relaxed);
                self.enqueue(&inner, node, EventKind::Timeout);
            } else {
                self.arm(&inner, node, deadline);
            }
        }
        // Under the lock: once the lock is free, the worker may run and block again.
        let watched = was_blocked && node.stop_being_blocked();
        let seat = inner.idle.call_one(CALLED);
        drop(inner);
        wake(seat);
        if watched {
            node.wake_watchers();
        }
    }

    /// A worker that runs by its token gave its server WAIT directly, without a deadline: the
    /// server has the token again.
    #[inline]
    pub(crate) fn hold(&self, node: &'static Node) {
        if node.state() != state::HELD {
            node.set_state(state::HELD); // it ran by its tid before, or is new
        }
    }

    /// A worker gave its server WAIT or PREEMPT directly: delivers the event at once.
    #[inline]
    pub(crate) fn hand_over(&self, node: &'static Node, hand: Hand, deadline: Option<u64>) {
        match deadline {
            None => node.set_state(hand.state(false)),
            Some(deadline) => self.hand_over_timed(node, hand, deadline),
        }
    }

    #[cold]
    fn hand_over_timed(&self, node: &'static Node, hand: Hand, deadline: u64) {
        let inner = self.lock();
        node.set_state(hand.state(true));
        self.arm(&inner, node, deadline);
        let seat = self.call_if_needed(&inner);
        drop(inner);
        wake(seat);
    }

    /// Makes a RUNNABLE worker RUNNING, if it still is the worker of this tid. Of many servers, one
    /// succeeds.
    #[inline]
    pub(crate) fn claim(&self, node: &'static Node, tid: u32) -> bool {
        node.claim_runnable(tid) || self.claim_timed(node, tid)
    }

    #[cold]
    fn claim_timed(&self, node: &'static Node, tid: u32) -> bool {
        if !node.is(tid, state::RUNNABLE_TIMED) {
            return false;
        }
        let inner = self.lock();
        self.expire(&inner);
        // If the deadline has passed, TIMEOUT comes first.
        let claimed = node.is(tid, state::RUNNABLE_TIMED);
        if claimed {
            self.forget_deadline(&inner, node);
            node.set_state(state::RUNNING);
        }
        let seat = self.call_if_needed(&inner);
        drop(inner);
        wake(seat);
        claimed
    }

    /// The worker that a token holds is about to run: removes the timer or TIMEOUT that its last
    /// wait left behind.
    #[inline]
    pub(crate) fn take(&self, node: &'static Node) {
        if !node.is_held() {
            self.take_timed(node);
        }
    }

    #[cold]
    fn take_timed(&self, node: &'static Node) {
        let inner = self.lock();
        let armed = node.armed.load(Relaxed);
        self.forget_deadline(&inner, node);
        if armed && node.timer.deadline() <= (self.clock)() {
            node.timed_out.store(true, Relaxed);
        }
        node.set_state(state::HELD);
    }

    /// Removes the timer of a worker that is about to run, and an uncollected TIMEOUT.
    fn forget_deadline(&self, inner: &Guard<'_, Inner>, node: &'static Node) {
        if node.armed.load(Relaxed) {
            self.disarm(inner, node);
        }
        if node.events.load(Relaxed) != 0 {
            self.dequeue(inner, node);
        }
    }

    /// Collects events in the order they arose. `give` is called with each; `room` says how many
    /// more it takes. For `Hand::Open` a worker is taken only while there is room for two events,
    /// so that WAIT and its TIMEOUT are given together. So with room for two, one worker is handed
    /// over.
    pub(crate) fn collect(&self, hand: Hand, mut room: usize, give: Give<'_>) -> bool {
        let inner = self.lock();
        self.expire(&inner);
        let any = self.collect_locked(&inner, hand, &mut room, give);
        let seat = self.call_if_needed(&inner);
        drop(inner);
        wake(seat);
        any
    }

    fn collect_locked(
        &self,
        inner: &Guard<'_, Inner>,
        hand: Hand,
        room: &mut usize,
        give: Give<'_>,
    ) -> bool {
        let mut any = false;
        while *room >= hand.least_room() {
            let Some(node) = inner.first.get() else { break };
            let before = *room;
            self.hand_over_queued(inner, node, hand, room, give);
            if *room == before {
                break;
            }
            any = true;
        }
        any
    }

    /// Hands over the events of the first in the queue, as many as there is room for.
    fn hand_over_queued(
        &self,
        inner: &Guard<'_, Inner>,
        node: &'static Node,
        hand: Hand,
        room: &mut usize,
        give: Give<'_>,
    ) {
        let events = node.events.load(Relaxed);
        let mut left = events;
        self.dequeue(inner, node);
        for kind in IN_ORDER.into_iter().filter(|kind| events & kind.bit() != 0) {
            if *room == 0 || !give(node, kind) {
                break;
            }
            *room -= 1;
            left &= !kind.bit();
            let timed = node.armed.load(Relaxed) || left & EventKind::Timeout.bit() != 0;
            node.set_state(match kind {
                EventKind::Exit => state::GONE,
                // TIMEOUT never changes which server may run the worker: that was settled when its
                // WAIT was collected.
                EventKind::Timeout if node.state() == state::HELD_TIMED => state::HELD,
                EventKind::Timeout => state::RUNNABLE,
                _ => hand.state(timed),
            });
            if kind == EventKind::Exit {
                (self.gone)(node);
            }
        }
        if left != 0 {
            self.requeue_first(inner, node, left);
        }
    }

    /// Waits as an idle server until there are events to collect.
    pub(crate) fn wait(
        &self,
        seat: &'static IdleSeat,
        deadline: Option<u64>,
        hand: Hand,
        mut room: usize,
        give: Give<'_>,
        spurious: &dyn Fn() -> bool,
    ) -> WaitOutcome {
        let mut interrupted = false;
        let (waited, seat) = loop {
            let inner = self.lock();
            self.expire(&inner);
            if self.collect_locked(&inner, hand, &mut room, give) {
                break (WaitOutcome::Collected, self.call_if_needed(&inner));
            }
            if inner.first.get().is_some() {
                break (WaitOutcome::Refused, self.call_if_needed(&inner));
            }
            if deadline.is_some_and(|deadline| deadline <= (self.clock)()) {
                break (WaitOutcome::TimedOut, self.call_if_needed(&inner));
            }
            if interrupted {
                break (WaitOutcome::Interrupted, self.call_if_needed(&inner));
            }
            let until = deadline
                .unwrap_or(u64::MAX)
                .min(inner.timers.next_deadline());
            inner.idle.sit_down(seat, until);
            drop(inner);
            let result = seat.sleep(until);
            let inner = self.lock();
            let word = inner.idle.stand_up(seat);
            if word == WOKEN {
                self.collect_locked(&inner, hand, &mut room, give);
                break (WaitOutcome::Woken, self.call_if_needed(&inner));
            }
            // Even if we were called: the event may be gone.
            interrupted = result == Err(Errno::INTR) && !spurious();
        };
        wake(seat);
        waited
    }

    /// The command WAKE. Returns false when no server is idle.
    pub(crate) fn wake_server(&self) -> bool {
        let seat = self.lock().idle.call_one(WOKEN);
        wake(seat);
        seat.is_some()
    }

    /// Keeps the lists unchanged while the process forks. `forked` ends that. In the child it
    /// forgets everything, as the child's only thread has no servers and no workers.
    pub(crate) fn before_fork(&self) {
        std::mem::forget(self.lock());
    }

    /// # Safety
    /// Called once after each `before_fork`, by the thread that called that.
    pub(crate) unsafe fn forked(&self, in_child: bool) {
        // SAFETY: `before_fork` took the lock and forgot the guard.
        let inner = unsafe { self.inner.adopt() };
        if in_child {
            inner.first.set(None);
            inner.last.set(None);
            inner.idle.clear();
            inner.timers.clear();
            self.queued.store(0, Relaxed);
            self.next_deadline.store(u64::MAX, Relaxed);
        }
    }

    fn enqueue(&self, inner: &Guard<'_, Inner>, node: &'static Node, kind: EventKind) {
        let events = node.events.load(Relaxed);
        node.events.store(events | kind.bit(), Relaxed);
        if events != 0 {
            return; // it is in the queue already
        }
        node.next.set(None);
        node.before.set(inner.last.get());
        match inner.last.get() {
            Some(last) => last.next.set(Some(node)),
            None => inner.first.set(Some(node)),
        }
        inner.last.set(Some(node));
        self.queued.store(self.queued.load(Relaxed) + 1, Relaxed);
    }

    fn requeue_first(&self, inner: &Guard<'_, Inner>, node: &'static Node, events: u8) {
        node.events.store(events, Relaxed);
        node.before.set(None);
        node.next.set(inner.first.get());
        match inner.first.get() {
            Some(first) => first.before.set(Some(node)),
            None => inner.last.set(Some(node)),
        }
        inner.first.set(Some(node));
        self.queued.store(self.queued.load(Relaxed) + 1, Relaxed);
    }

    fn dequeue(&self, inner: &Guard<'_, Inner>, node: &'static Node) {
        let (before, next) = (node.before.take(), node.next.take());
        match before {
            Some(before) => before.next.set(next),
            None => inner.first.set(next),
        }
        match next {
            Some(next) => next.before.set(before),
            None => inner.last.set(before),
        }
        node.events.store(0, Relaxed);
        self.queued.store(self.queued.load(Relaxed) - 1, Relaxed);
    }

    fn arm(&self, inner: &Guard<'_, Inner>, node: &'static Node, deadline: u64) {
        inner.timers.insert(node, deadline);
        node.armed.store(true, Relaxed);
        self.next_deadline
            .store(inner.timers.next_deadline(), Relaxed);
    }

    fn disarm(&self, inner: &Guard<'_, Inner>, node: &'static Node) {
        inner.timers.remove(node);
        node.armed.store(false, Relaxed);
        self.next_deadline
            .store(inner.timers.next_deadline(), Relaxed);
    }

    /// Queues TIMEOUT for every deadline that has passed. Reads the clock only if there are
    /// deadlines.
    fn expire(&self, inner: &Guard<'_, Inner>) {
        if self.next_deadline.load(Relaxed) == u64::MAX {
            return;
        }
        let now = (self.clock)();
        while let Some(node) = inner.timers.pop_due(now) {
            node.armed.store(false, Relaxed);
            node.timed_out.store(true, Relaxed);
            if node.state() == state::RUNNABLE_TIMED {
                node.set_state(state::QUEUED);
            }
            self.enqueue(inner, node, EventKind::Timeout);
        }
        self.next_deadline
            .store(inner.timers.next_deadline(), Relaxed);
    }

    /// Calls an idle server if there is an event for it, or a deadline for which none of them may
    /// be awake (I4).
    fn call_if_needed(&self, inner: &Guard<'_, Inner>) -> Option<&'static IdleSeat> {
        let until = inner.idle.until()?;
        let needed = inner.first.get().is_some() || inner.timers.next_deadline() < until;
        if needed {
            inner.idle.call_one(CALLED)
        } else {
            None
        }
    }
}
