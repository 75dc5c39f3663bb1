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
//! Not chosen: *clearing the bit before the system call* instead of after it: that is a locked
//! operation as well, and another one to set it again after a full read. *Registering both
//! directions at once*: a Unix socket reports room to write after each message that its peer reads,
//! so an echo would cost two reports.

use super::{Driver, pool, resume};
use crate::io::wait::{self, Reason};
use crate::rt::Handle;
use crate::rt::spin::Spin;
use crate::rt::wait::{ClaimedList, Place, Places};
use rustix::event::epoll::EventFlags;
use std::io;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::*};
use umcg_core::context::local::Hold;
use umcg_core::context::lock::HoldLock;

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
}

/// A waiter that found the slot taken. It lies in the waiter's stack frame.
struct IoWaiter {
    handle: Handle,
    direction: Direction,
    next: Option<NonNull<IoWaiter>>,
}

/// The list of these waiters, newest first.
struct IoWaiters(Option<NonNull<IoWaiter>>);

// SAFETY: the list is used under its lock. Its entries stay until they were taken out under the
// same lock (S4).
unsafe impl Send for IoWaiters {}

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
            more: HoldLock::new(IoWaiters(None)),
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

    /// Asks the driver to report `directions`, for which the kernel has just said "not now". If no
    /// driver knows the descriptor yet, the caller's is asked.
    ///
    /// # Errors
    /// The driver's: the descriptor cannot be waited for, or there are too many.
    #[cold]
    pub(crate) fn arm(
        &'static self,
        fd: BorrowedFd<'_>,
        directions: &[Direction],
        here: Driver,
    ) -> io::Result<()> {
        let mut registration = self.registration.lock();
        // Checked under the lock: a driver that ends later finds this source.
        here.check()?;
        let state = self.state.load(Relaxed);
        let ready = directions
            .iter()
            .fold(0, |bits, direction| bits | direction.ready());
        let wanted = directions
            .iter()
            .fold(state & ARMED, |bits, direction| bits | direction.armed());
        if wanted == state & ARMED {
            return Ok(()); // another waiter was first
        }
        let flags = interest(wanted);
        // Done before the kernel is asked: its report may come at once (S2).
        self.state.fetch_and(!ready, Relaxed);
        let result = match &*registration {
            Some(driver) => driver.modify(fd, self.key(), flags),
            None => here.add(fd, self.key(), flags),
        };
        match result {
            Ok(()) => {
                self.state.fetch_or(wanted, Relaxed);
                registration.get_or_insert(here);
                Ok(())
            }
            Err(error) => {
                self.state.fetch_or(ready, Relaxed);
                Err(error)
            }
        }
    }

    /// As [`arm`](Source::arm), for a source that stands for whatever file the descriptor's number
    /// names now: the driver is asked each time, since the file that it knows may be another one. A
    /// direction that is ready is reported again. True if the driver did not know the file by this
    /// number.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for interception")
    )]
    pub(crate) fn arm_anew(
        &'static self,
        fd: BorrowedFd<'_>,
        direction: Direction,
        here: Driver,
    ) -> io::Result<bool> {
        let mut registration = self.registration.lock();
        here.check()?;
        let wanted = self.state.load(Relaxed) & ARMED | direction.armed();
        let flags = interest(wanted);
        // Done before the kernel is asked: its report may come at once (S2). Waiters that were told
        // of the direction, and have not looked yet, are told again.
        self.state.fetch_and(!direction.ready(), Relaxed);
        let known = match &*registration {
            Some(driver) => match driver.modify(fd, self.key(), flags) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                result => Some(result),
            },
            None => None,
        };
        let is_new = known.is_none();
        let result = known.unwrap_or_else(|| {
            registration
                .as_ref()
                .unwrap_or(&here)
                .add(fd, self.key(), flags)
        });
        match result {
            Ok(()) => {
                self.state.fetch_or(wanted, Relaxed);
                registration.get_or_insert(here);
                Ok(is_new)
            }
            Err(error) => {
                self.state.fetch_or(direction.ready(), Relaxed);
                Err(error)
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

    /// Whether a party may wait.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for interception")
    )]
    pub(crate) fn may_have_waiters(&self) -> bool {
        // ORDERING(ready.4): as in `call`.
        let is_taken = |slot: &AtomicPtr<()>| !slot.load(SeqCst).is_null();
        self.slots.iter().any(is_taken) || self.others.load(SeqCst) != 0
    }

    /// Waits until `direction` may be tried. The caller arms it before. False if `deadline` passes
    /// first.
    pub(crate) fn wait(&'static self, direction: Direction, reason: Reason, deadline: u64) -> bool {
        let mut own = IoWaiter {
            handle: Handle::current(),
            direction,
            next: None,
        };
        let _entered = EnteredWaiter::take(self, &mut own);
        let mut in_time = true;
        loop {
            // ORDERING(ready.2): SeqCst, quartet with ready.1, ready.3, ready.4: enter the slot or
            // list, then read the state (S3).
            let state = self.state.load(SeqCst);
            if state & direction.ready() != 0 {
                return true;
            }
            if !in_time {
                return false;
            }
            in_time = wait::park_until(reason, deadline);
        }
    }

    /// Waits until `direction` of this source or of another one may be tried. The caller arms both
    /// before.
    pub(crate) fn wait_either(
        &'static self,
        other: &'static Source,
        direction: Direction,
        reason: Reason,
    ) {
        let handle = Handle::current();
        let (mut here, mut there) = (
            IoWaiter {
                handle,
                direction,
                next: None,
            },
            IoWaiter {
                handle,
                direction,
                next: None,
            },
        );
        let _entered = (
            EnteredWaiter::take(self, &mut here),
            EnteredWaiter::take(other, &mut there),
        );
        // ORDERING(ready.2): as in `wait`.
        while (self.state.load(SeqCst) | other.state.load(SeqCst)) & direction.ready() == 0 {
            wait::park(reason);
        }
    }

    /// Whether the driver was asked to report `direction`.
    #[inline]
    pub(crate) fn is_armed(&self, direction: Direction) -> bool {
        // ORDERING(report.1)
        self.state.load(Acquire) & direction.armed() != 0
    }

    /// Puts the place of a `select` into the queue, with the direction in its note. True if that
    /// direction may be tried now. The place may have been told of that already, or not.
    ///
    /// # Safety
    /// The place stays where it is until it has left the queue.
    pub(crate) unsafe fn enter(&self, place: &Place, direction: Direction) -> bool {
        // SAFETY: passed on.
        unsafe { self.selects.lock().push(place, false) };
        // ORDERING(ready.1): SeqCst, quartet with ready.2, ready.3, ready.4.
        self.others.fetch_add(1, SeqCst);
        // ORDERING(ready.2): as in `wait`.
        self.state.load(SeqCst) & direction.ready() != 0
    }

    /// Takes a place that has entered the queue out of it, once. False if it is no longer in it.
    pub(crate) fn leave(&self, place: &Place) -> bool {
        let was_queued = self.selects.lock().remove(place);
        self.others.fetch_sub(1, Relaxed);
        was_queued
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

    /// The driver ends. No direction is armed any more. All waiters try again, with the driver that
    /// they find then.
    pub(super) fn driver_gone(
        &self,
        gone: &Driver,
        unpark: UnparkFn<'_>,
        claimed: &mut ClaimedList,
    ) {
        let mut registration = self.registration.lock();
        if !registration.as_ref().is_some_and(|driver| driver.is(gone)) {
            return;
        }
        *registration = None;
        self.set(|state| (state & !ARMED | READY).wrapping_add(TICK));
        drop(registration);
        self.call(Direction::Read, unpark, claimed);
        self.call(Direction::Write, unpark, claimed);
    }

    fn set(&self, f: impl Fn(u64) -> u64) {
        // ORDERING(ready.3): SeqCst, quartet with ready.1, ready.2, ready.4: change the state, then
        // look for waiters (S3).
        // ORDERING(report.2): Release, pairs with report.1.
        let _ = self
            .state
            .fetch_update(SeqCst, Relaxed, |state| Some(f(state)));
    }

    /// Gives the waiters for `direction` to `unpark` and `claimed`.
    #[inline]
    fn call(&self, direction: Direction, unpark: UnparkFn<'_>, claimed: &mut ClaimedList) {
        // ORDERING(ready.4): SeqCst, quartet with ready.1, ready.2, ready.3.
        let first = self.slots[direction as usize].load(SeqCst);
        if !first.is_null() {
            // SAFETY: the slot held a handle's raw form; handles stay usable for ever.
            unpark(unsafe { Handle::from_raw(first) });
        }
        // ORDERING(ready.4)
        if self.others.load(SeqCst) != 0 {
            self.call_others(direction, unpark);
            self.claim_selects(direction, claimed);
        }
    }

    /// Wakes the waiters in the list. No party may be unparked under a hold, so the handles are
    /// copied first. Called only if there may be such waiters.
    #[cold]
    fn call_others(&self, direction: Direction, unpark: UnparkFn<'_>) {
        loop {
            let expected = self.others.load(Relaxed) as usize;
            let mut handles = Vec::with_capacity(expected);
            let complete = self.note_others(direction, &mut handles);
            handles.into_iter().for_each(&mut *unpark);
            if complete {
                return;
            }
        }
    }

    /// Claims the waiters in the queue. They go on when the caller holds no lock.
    #[cold]
    fn claim_selects(&self, direction: Direction, claimed: &mut ClaimedList) {
        let _hold = Hold::begin();
        let places = self.selects.lock();
        while let Some(waiter) = places.claim_where(|place| place.note.get() == direction as usize)
        {
            claimed.push(waiter);
        }
    }

    /// Fills `handles` up to its capacity. False if there are more.
    fn note_others(&self, direction: Direction, handles: &mut Vec<Handle>) -> bool {
        let waiters = self.more.lock();
        let mut at = waiters.0;
        while let Some(waiter) = at {
            // SAFETY: it is in the list, and this thread holds the lock (S4).
            let waiter = unsafe { waiter.as_ref() };
            if waiter.direction == direction {
                if handles.len() == handles.capacity() {
                    return false;
                }
                handles.push(waiter.handle);
            }
            at = waiter.next;
        }
        true
    }

    /// Called when the descriptor is about to be closed or given away. The caller is the last user
    /// of the source.
    pub(crate) fn release(&'static self, fd: BorrowedFd<'_>) {
        if self.is_inherited() {
            return; // the parent's driver still has it
        }
        let driver = self.registration.lock().take();
        if let Some(driver) = driver {
            driver.remove(fd);
        }
        self.generation.fetch_add(1, Relaxed);
        self.state.store(READY, Relaxed);
        pool::give(self);
    }
}

/// A waiter that has entered the slot or the list. Dropping this takes it out.
struct EnteredWaiter<'a> {
    source: &'a Source,
    direction: Direction,
    /// None if it is in the slot.
    waiter: Option<NonNull<IoWaiter>>,
}

impl<'a> EnteredWaiter<'a> {
    fn take(source: &'a Source, waiter: &mut IoWaiter) -> EnteredWaiter<'a> {
        let direction = waiter.direction;
        let own = waiter.handle.into_raw().cast_mut();
        let slot = &source.slots[direction as usize];
        // ORDERING(ready.1): SeqCst, quartet with ready.2, ready.3, ready.4.
        if slot
            .compare_exchange(std::ptr::null_mut(), own, SeqCst, Relaxed)
            .is_ok()
        {
            return EnteredWaiter {
                source,
                direction,
                waiter: None,
            };
        }
        let waiter = NonNull::from(waiter);
        let mut waiters = source.more.lock();
        // SAFETY: it belongs to the caller, and is not in the list yet.
        unsafe { (*waiter.as_ptr()).next = waiters.0 };
        waiters.0 = Some(waiter);
        // ORDERING(ready.1)
        source.others.fetch_add(1, SeqCst);
        EnteredWaiter {
            source,
            direction,
            waiter: Some(waiter),
        }
    }
}

impl Drop for EnteredWaiter<'_> {
    fn drop(&mut self) {
        let Some(own) = self.waiter else {
            self.source.slots[self.direction as usize].store(std::ptr::null_mut(), Relaxed);
            return;
        };
        let mut waiters = self.source.more.lock();
        let mut link: *mut Option<NonNull<IoWaiter>> = &mut waiters.0;
        // SAFETY: links lead from the list's head through waiters that are in it; this thread holds
        // the lock (S4).
        while let Some(at) = unsafe { *link } {
            // SAFETY: as above.
            let next = unsafe { &raw mut (*at.as_ptr()).next };
            if at == own {
                // SAFETY: as above, for both links.
                unsafe { std::ptr::copy(next, link, 1) };
                break;
            }
            link = next;
        }
        self.source.others.fetch_sub(1, Relaxed);
    }
}

/// The events to ask the kernel for.
fn interest(armed: u64) -> EventFlags {
    let mut flags = EventFlags::ET;
    if armed & Direction::Read.armed() != 0 {
        flags |= EventFlags::IN | EventFlags::RDHUP | EventFlags::PRI;
    }
    if armed & Direction::Write.armed() != 0 {
        flags |= EventFlags::OUT;
    }
    flags
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
