//! Those that wait for a source: how they enter and leave (S3, S4), and how a report calls them.

use super::{Direction, Source, UnparkFn};
use crate::io::wait::{self, Reason};
use crate::rt::Handle;
use crate::rt::wait::{ClaimedList, Place};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::*;
use umcg_core::context::local::Hold;

/// A waiter that found the slot taken. It lies in the waiter's stack frame.
struct IoWaiter {
    handle: Handle,
    direction: Direction,
    next: Option<NonNull<IoWaiter>>,
}

/// The list of these waiters, newest first.
pub(super) struct IoWaiters(Option<NonNull<IoWaiter>>);

// SAFETY: the list is used under its lock. Its entries stay until they were taken out under the
// same lock (S4).
unsafe impl Send for IoWaiters {}

impl IoWaiters {
    pub(super) const fn new() -> IoWaiters {
        IoWaiters(None)
    }
}

impl Source {
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

    /// Gives the waiters for `direction` to `unpark` and `claimed`.
    #[inline]
    pub(super) fn call(
        &self,
        direction: Direction,
        unpark: UnparkFn<'_>,
        claimed: &mut ClaimedList,
    ) {
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
