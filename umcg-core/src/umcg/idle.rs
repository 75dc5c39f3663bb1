//! The idle lists: workers with an event that is not collected yet, and servers that wait for one.
//!
//! # States of a worker
//!
//! ```text
//!                 post                 collect              claim / take
//!   RUNNING ----------------> QUEUED ------------> RUNNABLE ------------> RUNNING
//!      |  \                      ^                 or HELD
//!      |   \ its server learns WAIT or PREEMPT directly -----^
//!      |    \ BLOCK: goes home   | post(WAKE)
//!      |     `----> BLOCKED -----'
//!      `-> GONE by EXIT
//! ```
//!
//! - `RUNNABLE`: any server may claim it by its tid. One compare-and-swap decides between servers
//!   ([`Node::claim`]).
//! - `HELD`: a token for it exists, or a server runs it by its token (the safe Rust form). Only the
//!   token's owner may run it. So running it takes no locked operation ([`Lists::take`]), and the
//!   state need not change when it runs and waits.
//! - `RUNNABLE_TIMED`, `HELD_TIMED`: the same with an armed timer, or with an uncollected TIMEOUT.
//!   Both are left only under the lock.
//!
//! # Invariants
//!
//! - I1: a node is in the queue exactly while its `events` are not zero, and in the timer heap
//!   exactly while `armed`.
//! - I2: an event is posted after the worker's context was saved, by the flow that runs next on
//!   that kernel thread. So a server that sees the event, or the state that collecting it sets, may
//!   resume the worker.
//! - I3: a seat is in the list of idle servers exactly while its word is `SEATED`. The thread that
//!   takes it out writes the word, under the lock, and then wakes the server. A server checks the
//!   queue under the lock before it sits down. So an event never waits while a server sleeps that
//!   sat down after the event came. And each post wakes one server, if one sits.
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
//! Modelled in `umcg-core/tests/model` (shuttle), which compiles this very file.

use crate::base::link::Link;
use crate::base::sync::{AtomicU32, AtomicU64, AtomicUsize, Guard, Lock, futex_wait, futex_wake};
use crate::base::timer::{Heap, HeapTimer, Timed};
use rustix::io::Errno;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::*};

/// A worker's state: the low half of its state word. The high half is its tid.
pub(crate) mod state {
    pub(crate) const GONE: u32 = 0;
    pub(crate) const QUEUED: u32 = 1;
    pub(crate) const RUNNABLE: u32 = 2;
    pub(crate) const RUNNABLE_TIMED: u32 = 3;
    pub(crate) const HELD: u32 = 4;
    pub(crate) const HELD_TIMED: u32 = 5;
    pub(crate) const RUNNING: u32 = 6;
    pub(crate) const BLOCKED: u32 = 7;
}

/// Kinds of events, by their numbers in the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// It blocked in the kernel.
    Block = 1,
    /// It can continue after having blocked, or has just registered.
    Wake = 2,
    /// It gave the processor back, or switched to another worker.
    Wait = 3,
    /// It unregistered or ended.
    Exit = 4,
    /// Its deadline passed.
    Timeout = 5,
    /// It ran for too long.
    Preempt = 6,
}

impl EventKind {
    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// The order in which the events of one worker are handed over.
const IN_ORDER: [EventKind; 4] = [
    EventKind::Wake,
    EventKind::Wait,
    EventKind::Timeout,
    EventKind::Exit,
];

/// The form of collecting: whether the worker may then be claimed by tid, or is held by a token.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hand {
    /// By tid, as `umcg_ctl` does.
    Open,
    /// By token.
    Held,
}

impl Hand {
    /// With less room, no worker is taken out of the queue.
    const fn least_room(self) -> usize {
        match self {
            Hand::Open => 2,
            // Its two events may come separately.
            Hand::Held => 1,
        }
    }

    const fn state(self, timed: bool) -> u32 {
        match (self, timed) {
            (Hand::Open, false) => state::RUNNABLE,
            (Hand::Open, true) => state::RUNNABLE_TIMED,
            (Hand::Held, false) => state::HELD,
            (Hand::Held, true) => state::HELD_TIMED,
        }
    }
}

/// A worker's place in the lists. First field of the worker, so that one pointer names both.
pub(crate) struct Node {
    state: AtomicU64,
    /// The high half of `state` repeats it. Reading it here keeps a store to `state` from waiting
    /// for the one before.
    tid: AtomicU32,
    id: AtomicU64,
    /// Under the lock: the events not yet collected, a bit a kind.
    events: AtomicU8,
    /// Under the lock: the timer is in the heap.
    armed: AtomicBool,
    /// Under the lock, read by the worker once it runs: the deadline passed before it was switched
    /// to.
    timed_out: AtomicBool,
    /// How often it has stopped being BLOCKED. Servers that wait for that sleep on it.
    unblocked: AtomicU32,
    /// How many servers sleep on `unblocked`.
    watchers: AtomicU32,
    next: Link<Node>,
    before: Link<Node>,
    timer: HeapTimer<Node>,
}

impl Timed for Node {
    fn timer(&self) -> &HeapTimer<Node> {
        &self.timer
    }
}

impl Node {
    pub(crate) fn new() -> Self {
        Self {
            state: AtomicU64::new(0),
            tid: AtomicU32::new(0),
            id: AtomicU64::new(0),
            events: AtomicU8::new(0),
            armed: AtomicBool::new(false),
            timed_out: AtomicBool::new(false),
            unblocked: AtomicU32::new(0),
            watchers: AtomicU32::new(0),
            next: Link::none(),
            before: Link::none(),
            timer: HeapTimer::new(),
        }
    }

    /// Makes this the node of a new worker, which is in no list.
    pub(crate) fn reset(&self, tid: u32, id: u64, state: u32) {
        self.id.store(id, Relaxed);
        self.events.store(0, Relaxed);
        self.armed.store(false, Relaxed);
        self.timed_out.store(false, Relaxed);
        self.tid.store(tid, Relaxed);
        self.state.store(word(tid, state), Relaxed);
    }

    pub(crate) fn id(&self) -> u64 {
        self.id.load(Relaxed)
    }

    #[inline]
    pub(crate) fn tid(&self) -> u32 {
        self.tid.load(Relaxed)
    }

    #[inline]
    pub(crate) fn state(&self) -> u32 {
        self.state.load(Relaxed) as u32
    }

    /// Only the party that has the right to the worker may call this: the one that runs it or holds
    /// it, or the lock's holder for a queued one.
    #[inline]
    pub(crate) fn set_state(&self, to: u32) {
        // ORDERING(worker.1): Release, pairs with worker.2. A claimer sees all that the worker did,
        // its context included.
        self.state.store(word(self.tid(), to), Release);
    }

    /// Counts it. Returns true when a server waits for that.
    fn stop_being_blocked(&self) -> bool {
        // ORDERING(unblocked.1): SeqCst, with unblocked.2.
        self.unblocked.fetch_add(1, SeqCst);
        self.watchers.load(SeqCst) != 0
    }

    /// Whether the worker's deadline passed; forgets that. Called by the worker itself.
    #[inline]
    pub(crate) fn take_timed_out(&self) -> bool {
        self.timed_out.load(Relaxed) && self.timed_out.swap(false, Relaxed)
    }

    /// Makes a RUNNABLE worker RUNNING, if it still is the worker of this tid. Of many servers, one
    /// succeeds.
    #[inline]
    pub(crate) fn claim(&'static self, tid: u32, lists: &Lists) -> bool {
        // ORDERING(worker.2): Acquire, pairs with worker.1.
        let (from, to) = (word(tid, state::RUNNABLE), word(tid, state::RUNNING));
        self.state
            .compare_exchange(from, to, Acquire, Relaxed)
            .is_ok()
            || self.claim_timed(tid, lists)
    }

    #[cold]
    fn claim_timed(&'static self, tid: u32, lists: &Lists) -> bool {
        if self.state.load(Relaxed) != word(tid, state::RUNNABLE_TIMED) {
            return false;
        }
        let inner = lists.lock();
        lists.expire(&inner);
        // If the deadline has passed, TIMEOUT comes first.
        let claimed = self.state.load(Relaxed) == word(tid, state::RUNNABLE_TIMED);
        if claimed {
            lists.forget_deadline(&inner, self);
            self.set_state(state::RUNNING);
        }
        let seat = lists.call_if_needed(&inner);
        drop(inner);
        wake(seat);
        claimed
    }
}

/// Where in a node its state is, for debuggers: in the low half of a word.
pub(crate) const STATE_OFFSET: usize = std::mem::offset_of!(Node, state);

const fn word(tid: u32, state: u32) -> u64 {
    (tid as u64) << 32 | state as u64
}

/// A server's place in the list of idle servers.
pub(crate) struct IdleSeat {
    word: AtomicU32,
    /// The time until which the server sleeps.
    until: AtomicU64,
    next: Link<IdleSeat>,
}

const SEATED: u32 = 0;
const STANDING: u32 = 1;
/// An event was posted, or a timer armed: look again.
const CALLED: u32 = 2;
/// The command WAKE.
const WOKEN: u32 = 3;

impl IdleSeat {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(STANDING),
            until: AtomicU64::new(u64::MAX),
            next: Link::none(),
        }
    }
}

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
    idle: Link<IdleSeat>,
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
                idle: Link::none(),
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
        let seat = self.call_one(&inner, CALLED);
        drop(inner);
        wake(seat);
        if watched {
            futex_wake(&node.unblocked, i32::MAX as u32);
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

    /// The worker that a token holds is about to run: removes the timer or TIMEOUT that its last
    /// wait left behind.
    #[inline]
    pub(crate) fn take(&self, node: &'static Node) {
        // ORDERING(worker.2): another server may have collected TIMEOUT meanwhile.
        if node.state.load(Acquire) as u32 != state::HELD {
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
            sit_down(&inner, seat, until);
            drop(inner);
            let result = futex_wait(&seat.word, SEATED, until);
            let inner = self.lock();
            let word = stand_up(&inner, seat);
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
        let seat = self.call_one(&self.lock(), WOKEN);
        wake(seat);
        seat.is_some()
    }

    /// Waits until `node` is no longer BLOCKED. Returns false when a signal handler ran.
    pub(crate) fn wait_unblocked(
        &self,
        node: &'static Node,
        tid: u32,
        spurious: &dyn Fn() -> bool,
    ) -> bool {
        // ORDERING(unblocked.2): SeqCst, with unblocked.1. Either we see the new count or state, or
        // the poster sees us.
        node.watchers.fetch_add(1, SeqCst);
        let before = node.unblocked.load(SeqCst);
        let mut interrupted = false;
        while !interrupted
            && node.unblocked.load(Acquire) == before
            && node.state.load(SeqCst) == word(tid, state::BLOCKED)
        {
            interrupted =
                futex_wait(&node.unblocked, before, u64::MAX) == Err(Errno::INTR) && !spurious();
        }
        node.watchers.fetch_sub(1, Relaxed);
        !interrupted
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
            inner.idle.set(None);
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
        let until = inner.idle.get()?.until.load(Relaxed);
        let needed = inner.first.get().is_some() || inner.timers.next_deadline() < until;
        if needed {
            self.call_one(inner, CALLED)
        } else {
            None
        }
    }

    /// Takes an idle server out of the list and stores the reason in its word. The caller wakes it
    /// once the lock is free.
    fn call_one(&self, inner: &Guard<'_, Inner>, why: u32) -> Option<&'static IdleSeat> {
        let seat = inner.idle.get()?;
        inner.idle.set(seat.next.take());
        // The lock orders this with the server's reading, which is under the lock too.
        seat.word.store(why, Relaxed);
        Some(seat)
    }
}

/// Puts a server into the list of idle ones.
fn sit_down(inner: &Inner, seat: &'static IdleSeat, until: u64) {
    seat.word.store(SEATED, Relaxed);
    seat.until.store(until, Relaxed);
    seat.next.set(inner.idle.get());
    inner.idle.set(Some(seat));
}

/// Takes a seat out of the list if it is still there. Returns its word.
fn stand_up(inner: &Inner, seat: &'static IdleSeat) -> u32 {
    let word = seat.word.load(Relaxed);
    if word == SEATED {
        let mut at = &inner.idle;
        while let Some(other) = at.get() {
            if std::ptr::eq(other, seat) {
                at.set(seat.next.get());
                break;
            }
            at = &other.next;
        }
    }
    seat.word.store(STANDING, Relaxed);
    word
}

fn wake(seat: Option<&'static IdleSeat>) {
    if let Some(seat) = seat {
        futex_wake(&seat.word, 1);
    }
}
