//! The readiness of one file descriptor, and its waiters.
//!
//! A source's state is one word. It holds which directions may be tried without waiting, which are
//! closed for good, which the driver was asked to report, and a *tick* that each report of the
//! driver advances:
//!
//! ```text
//!   63           8   7      6        5 4       3 2        1 0
//!  +--------------+-----+--------+---------+----------+---------+
//!  | tick         |  -  | urgent | armed   | closed   | ready   |      bit 0, 2, 4: reading; bit 1, 3, 5: writing
//!  +--------------+-----+--------+---------+----------+---------+
//! ```
//!
//! Invariants:
//!
//! - S1. *Ready is optimistic.* A direction that is not armed is ready: the system call is tried.
//!   Only a caller that saw the kernel say "not now" (EAGAIN, or a short read) makes it unready, by
//!   a compare-and-swap from the word that it read *before* its system call. A report in between
//!   changes the tick, so the compare-and-swap fails and no edge is lost.
//! - S2. An armed direction is reported whenever it becomes ready (edge-triggered). It is armed
//!   after it was made unready, under `registration`. Arming reports a direction that is ready
//!   already.
//! - S3. A waiter enters the slot of its direction, or the list when the slot is taken, *before* it
//!   reads the state for the last time. A reporter changes the state before it reads slot and list.
//!   One of them sees the other (quartet `ready`).
//! - S4. Only the waiter itself takes its entry out of the slot or list. It does so before its
//!   stack frame goes, also when `park` unwinds. The poller only reads the entries. A waiter that
//!   it unparks may have left since, and is then woken without a reason. A `select` stands in a
//!   queue instead ([`Source::enter`]), by the same rule. The reporter claims it there, as a hint.
//! - S5. Sources are never freed, only recycled. A report carries the generation of the source it
//!   was armed with. A report that comes late all the same makes the new owner try once in vain,
//!   and keeps "closed" from sparing it system calls.
//!
//! Access: any thread may touch `state`, `slots` and `others`. `more` and `selects` are touched
//! under their locks; arming, and the driver, under `registration`. `registration` is taken before
//! `more` or `selects`. No other lock is taken under any of them.
//!
//! | module | holds |
//! |---|---|
//! | this | the state's word, and reports |
//! | `waiters` | slot, list and queue |
//! | `arming` | what the driver knows |
//!
//! Not chosen: *clearing the bit before the system call* instead of after it: that is a locked
//! operation as well, and another one to set it again after a full read. *Registering both
//! directions at once*: a Unix socket reports room to write after each message that its peer reads,
//! so an echo would cost two reports.

mod arming;
mod waiters;

use super::{Driver, pool, resume};
use crate::io::wait;
use crate::rt::Handle;
use crate::rt::spin::Spin;
use crate::rt::wait::{ClaimedList, Places};
use rustix::event::epoll::EventFlags;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use umcg_core::context::lock::HoldLock;
use waiters::IoWaiters;

/// The direction in which data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the caller.
    Read = 0,
    /// Away from the caller.
    Write = 1,
}

impl Direction {
    const fn ready(self) -> u64 {
        1 << self as u32
    }

    const fn closed(self) -> u64 {
        4 << self as u32
    }

    const fn armed(self) -> u64 {
        16 << self as u32
    }
}

const READY: u64 = 3;
const CLOSED: u64 = 12;
const ARMED: u64 = 48;
const URGENT: u64 = 64;
const TICK: u64 = 256;

/// The state that [`Source::look`] read.
#[derive(Clone, Copy)]
pub(crate) struct ReadinessSnapshot(u64);

impl ReadinessSnapshot {
    #[inline]
    pub(crate) fn is_ready(self, direction: Direction) -> bool {
        self.0 & direction.ready() != 0
    }

    /// Whether the driver was asked to report `direction`.
    #[inline]
    pub(crate) fn is_armed(self, direction: Direction) -> bool {
        self.0 & direction.armed() != 0
    }
}

/// See the module's documentation. The fields are in this order so that a report and a wait touch
/// one cache line.
#[repr(C, align(64))]
pub(crate) struct Source {
    state: AtomicU64,
    slots: [AtomicPtr<()>; 2],
    /// How many waiters stand in `more` and in `selects`.
    others: AtomicU32,
    generation: AtomicU32,
    /// The process in which it was handed out, as counted by [`pool::forks`].
    born: AtomicU32,
    more: HoldLock<IoWaiters>,
    registration: HoldLock<Option<Driver>>,
    /// The waiters that wait for other events, too. A place's note holds the direction.
    selects: Spin<Places>,
}

/// Called with the handles of the waiters to unpark.
pub(crate) type UnparkFn<'a> = &'a mut dyn FnMut(Handle);

impl Source {
    pub(super) const fn new() -> Source {
        Source {
            state: AtomicU64::new(READY),
            slots: [
                AtomicPtr::new(std::ptr::null_mut()),
                AtomicPtr::new(std::ptr::null_mut()),
            ],
            others: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            born: AtomicU32::new(0),
            more: HoldLock::new(IoWaiters::new()),
            registration: HoldLock::new(None),
            selects: Spin::new(Places::new()),
        }
    }

    /// Notes that it was handed out in this process.
    pub(super) fn adopt(&self) {
        self.born.store(pool::forks(), Relaxed);
    }

    /// Whether it was handed out before a fork whose child this process is. Its driver and its
    /// locks then belong to the parent.
    pub(crate) fn is_inherited(&self) -> bool {
        self.born.load(Relaxed) != pool::forks()
    }

    /// The data of a report about this source: its address, and its generation in the bits that an
    /// address leaves free.
    fn key(&'static self) -> u64 {
        let generation = u64::from(self.generation.load(Relaxed));
        (self as *const Source).expose_provenance() as u64 | generation << 48
    }

    /// The source that a report is about. None if it is about a former owner.
    pub(super) fn of_key(key: u64) -> Option<&'static Source> {
        let address = (key & ((1 << 48) - 1)) as usize;
        // SAFETY: keys are made by `key`, of sources, which are never freed (S5).
        let source: &'static Source =
            unsafe { &*std::ptr::with_exposed_provenance::<Source>(address) };
        (u64::from(source.generation.load(Relaxed)) & 0xffff == key >> 48).then_some(source)
    }

    /// Reads which directions may be tried without waiting.
    #[inline]
    pub(crate) fn look(&self) -> ReadinessSnapshot {
        // ORDERING(report.1): Acquire, pairs with report.2: a caller that relies on a report sees
        // everything that was done before it.
        ReadinessSnapshot(self.state.load(Acquire))
    }

    /// The kernel said "not now" to a system call made after `seen` (S1).
    #[inline]
    pub(crate) fn not_now(&self, direction: Direction, seen: ReadinessSnapshot) {
        // A failure is caused by a report, or by the other direction. Then one more system call
        // says it again.
        let _ = self
            .state
            .compare_exchange(seen.0, seen.0 & !direction.ready(), Relaxed, Relaxed);
    }

    /// A read got less than it asked for, so there is no more. The next read waits at once, unless
    /// the stream has ended, or may have stopped before urgent data.
    #[inline]
    pub(crate) fn drained(&self, direction: Direction, seen: ReadinessSnapshot) {
        if seen.0 & (direction.closed() | URGENT) == 0 {
            self.not_now(direction, seen);
        }
    }

    /// Whether the driver was asked to report `direction`.
    #[inline]
    pub(crate) fn is_armed(&self, direction: Direction) -> bool {
        self.look().is_armed(direction)
    }

    /// Handles a report of the kernel. `unpark` gets the handles of those that wait for it;
    /// `claimed` gets those that wait for other events as well.
    pub(super) fn report(
        &self,
        events: EventFlags,
        unpark: UnparkFn<'_>,
        claimed: &mut ClaimedList,
    ) {
        let bits = state_bits(events);
        self.set(|state| (state | bits).wrapping_add(TICK));
        for direction in [Direction::Read, Direction::Write] {
            if bits & direction.ready() != 0 {
                self.call(direction, unpark, claimed);
            }
        }
    }

    /// Makes all waiters try again.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for interception")
    )]
    pub(crate) fn rouse(&self) {
        let mut claimed = ClaimedList::new();
        self.set(|state| (state | READY).wrapping_add(TICK));
        self.call(Direction::Read, &mut wait::wake, &mut claimed);
        self.call(Direction::Write, &mut wait::wake, &mut claimed);
        resume(claimed);
    }

    fn set(&self, f: impl Fn(u64) -> u64) {
        // ORDERING(ready.3): SeqCst, quartet with ready.1, ready.2, ready.4: change the state, then
        // look for waiters (S3).
        // ORDERING(report.2): Release, pairs with report.1.
        let _ = self
            .state
            .fetch_update(SeqCst, Relaxed, |state| Some(f(state)));
    }
}

/// The state bits for a report.
fn state_bits(events: EventFlags) -> u64 {
    let mut bits = 0;
    if events.intersects(
        EventFlags::IN | EventFlags::PRI | EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR,
    ) {
        bits |= Direction::Read.ready();
    }
    if events.intersects(EventFlags::OUT | EventFlags::HUP | EventFlags::ERR) {
        bits |= Direction::Write.ready();
    }
    if events.intersects(EventFlags::RDHUP | EventFlags::HUP) {
        bits |= Direction::Read.closed();
    }
    if events.contains(EventFlags::PRI) {
        bits |= URGENT;
    }
    bits
}
