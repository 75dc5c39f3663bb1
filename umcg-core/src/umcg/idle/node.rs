//! A worker as the idle lists know it: its state, the events it waits to hand over, and its place
//! in the queue and in the heap of deadlines.
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
//!   ([`Lists::claim`](super::Lists::claim)).
//! - `HELD`: a token for it exists, or a server runs it by its token (the safe Rust form). Only the
//!   token's owner may run it. So running it takes no locked operation
//!   ([`Lists::take`](super::Lists::take)), and the state need not change when it runs and waits.
//! - `RUNNABLE_TIMED`, `HELD_TIMED`: the same with an armed timer, or with an uncollected TIMEOUT.
//!   Both are left only under the lock.
//!
//! The state, the tid and the count of servers that wait for the worker change only here. The lists
//! change the rest, under their lock.

use crate::base::link::Link;
use crate::base::sync::{AtomicU32, AtomicU64, futex_wait, futex_wake};
use crate::base::timer::{HeapTimer, Timed};
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
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }
}

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
    pub(super) const fn least_room(self) -> usize {
        match self {
            Hand::Open => 2,
            // Its two events may come separately.
            Hand::Held => 1,
        }
    }

    #[inline]
    pub(super) const fn state(self, timed: bool) -> u32 {
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
    pub(super) events: AtomicU8,
    /// Under the lock: the timer is in the heap.
    pub(super) armed: AtomicBool,
    /// Under the lock, read by the worker once it runs: the deadline passed before it was switched
    /// to.
    pub(super) timed_out: AtomicBool,
    /// How often it has stopped being BLOCKED. Servers that wait for that sleep on it.
    unblocked: AtomicU32,
    /// How many servers sleep on `unblocked`.
    watchers: AtomicU32,
    pub(super) next: Link<Node>,
    pub(super) before: Link<Node>,
    pub(super) timer: HeapTimer<Node>,
}

impl Timed for Node {
    fn timer(&self) -> &HeapTimer<Node> {
        &self.timer
    }
}

impl Node {
    /// Where in a node its state is, for debuggers: in the low half of a word.
    pub(crate) const STATE_OFFSET: usize = std::mem::offset_of!(Node, state);

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

    /// Whether it is the worker of this tid, and in this state. Meant for the lock's holder.
    pub(super) fn is(&self, tid: u32, state: u32) -> bool {
        self.state.load(Relaxed) == word(tid, state)
    }

    /// Whether it is HELD, and not HELD_TIMED.
    #[inline]
    pub(super) fn is_held(&self) -> bool {
        // ORDERING(worker.2): Acquire, pairs with worker.1. Another server may have collected
        // TIMEOUT meanwhile.
        self.state.load(Acquire) as u32 == state::HELD
    }

    /// Makes a RUNNABLE worker RUNNING, if it still is the worker of this tid. Of many servers, one
    /// succeeds.
    #[inline]
    pub(super) fn claim_runnable(&self, tid: u32) -> bool {
        // ORDERING(worker.2): Acquire, pairs with worker.1.
        let (from, to) = (word(tid, state::RUNNABLE), word(tid, state::RUNNING));
        self.state
            .compare_exchange(from, to, Acquire, Relaxed)
            .is_ok()
    }

    /// Whether the worker's deadline passed; forgets that. Called by the worker itself.
    #[inline]
    pub(crate) fn take_timed_out(&self) -> bool {
        self.timed_out.load(Relaxed) && self.timed_out.swap(false, Relaxed)
    }

    /// Counts that it stops being BLOCKED. Returns true when a server waits for that.
    pub(super) fn stop_being_blocked(&self) -> bool {
        // ORDERING(unblocked.1): SeqCst, with unblocked.2.
        self.unblocked.fetch_add(1, SeqCst);
        self.watchers.load(SeqCst) != 0
    }

    /// Wakes the servers that wait for that.
    pub(super) fn wake_watchers(&self) {
        futex_wake(&self.unblocked, i32::MAX as u32);
    }

    /// Waits until the worker of this tid is no longer BLOCKED. Returns false when a signal handler
    /// ran.
    pub(crate) fn wait_unblocked(&self, tid: u32, spurious: &dyn Fn() -> bool) -> bool {
        // ORDERING(unblocked.2): SeqCst, with unblocked.1. Either we see the new count or state, or
        // the poster sees us.
        self.watchers.fetch_add(1, SeqCst);
        let before = self.unblocked.load(SeqCst);
        let mut interrupted = false;
        while !interrupted
            && self.unblocked.load(Acquire) == before
            && self.state.load(SeqCst) == word(tid, state::BLOCKED)
        {
            interrupted =
                futex_wait(&self.unblocked, before, u64::MAX) == Err(Errno::INTR) && !spurious();
        }
        self.watchers.fetch_sub(1, Relaxed);
        !interrupted
    }
}

const fn word(tid: u32, state: u32) -> u64 {
    (tid as u64) << 32 | state as u64
}
