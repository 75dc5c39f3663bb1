//! Condition variables.
//!
//! - V1: a waiter stands in the queue before it unlocks the mutex. So a thread that changes the
//!   condition under that mutex finds the waiter there. A look at `has_waiters` is enough, because
//!   the mutex comes between.
//! - V2: a waiter that was notified stays notified, whatever else happens to it. A deadline or an
//!   abort that comes later does not take the notification away, nor does that go astray. One that
//!   comes before takes the waiter out of the queue, and the notification goes to the next waiter.
//! - V3: the wait ends with the mutex locked, also when it unwinds. To lock it again is no point of
//!   cancellation.
//!
//! Not chosen: to move a waiter that is notified while the mutex is held into the mutex's queue at
//! once, without waking it. That takes two locks together, and a waiter that can be revoked in the
//! one queue and not in the other. It would save a hop of a worker.

use super::mutex::{self, MutexGuard, RawMutex};
use crate::rt::last;
use crate::rt::spin::Spin;
use crate::rt::sync::{AtomicBool, Ordering::*};
use crate::rt::timed;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued};
use lock_api::RawMutex as _;
use std::fmt;

const REASON: &&str = &"condvar";

/// Whether a wait ended because its time had passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// True if the time had passed. False if the caller was notified; or, for a wait with a
    /// condition, if the condition no longer holds.
    pub fn timed_out(self) -> bool {
        self.0
    }
}

/// Waits, with a [`Mutex`](super::Mutex) unlocked meanwhile, until another worker or thread
/// notifies it of a change.
///
/// [`notify_one`](Condvar::notify_one) wakes the longest waiter. A wait ends when it was notified,
/// when its time has passed, or by unwinding; never without a reason. Still, the condition may no
/// longer hold by then, because others may lock the mutex before:
/// [`wait_while`](Condvar::wait_while) checks it again. A worker that is aborted while it waits
/// locks the mutex again before it unwinds, so that its guard is valid.
///
/// One condition variable may be used with many mutexes. Not for signal handlers.
///
/// ```
/// use umcg::sync::{Condvar, Mutex};
///
/// let (letters, changed) = (Mutex::new(Vec::new()), Condvar::new());
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let mut letters = letters.lock();
///         changed.wait_while(&mut letters, |letters| letters.is_empty());
///         assert_eq!(letters.pop(), Some('a'));
///     });
///     letters.lock().push('a');
///     changed.notify_one();
/// });
/// ```
#[repr(C)]
pub struct Condvar {
    places: Spin<Places>,
    /// Written under the lock.
    has_waiters: AtomicBool,
}

impl Condvar {
    /// A new one.
    pub const fn new() -> Condvar {
        Condvar {
            places: Spin::new(Places::new()),
            has_waiters: AtomicBool::new(false),
        }
    }

    /// Unlocks the mutex, waits until it is notified, and locks the mutex again. A point of
    /// cancellation. Switches.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_until(guard, u64::MAX);
    }

    /// Waits as long as `condition` says so, which is asked with the mutex locked. As
    /// [`Condvar::wait`].
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        condition: impl FnMut(&mut T) -> bool,
    ) {
        self.wait_while_until(guard, condition, u64::MAX);
    }

    timed! {
        "Condvar::wait";
        /// The time to lock the mutex again does not count.
        pub fn [T: ?Sized] wait_deadline, wait_timeout(&self, guard: &mut MutexGuard<'_, T>)
            -> WaitTimeoutResult;
        |deadline| self.wait_until(guard, deadline)
    }

    timed! {
        "Condvar::wait_while";
        /// Returns whether `condition` still says so then.
        pub fn [T: ?Sized] wait_while_deadline, wait_while_timeout(
            &self, guard: &mut MutexGuard<'_, T>, condition: impl FnMut(&mut T) -> bool
        ) -> WaitTimeoutResult;
        |deadline| self.wait_while_until(guard, condition, deadline)
    }

    /// Wakes the longest waiter. False if there is none. Does not switch.
    #[inline]
    pub fn notify_one(&self) -> bool {
        self.has_waiters.load(Relaxed) && self.notify(1) == 1
    }

    /// Wakes all waiters, in their order. Returns how many they were. Does not switch.
    #[inline]
    pub fn notify_all(&self) -> usize {
        if self.has_waiters.load(Relaxed) {
            self.notify(usize::MAX)
        } else {
            0
        }
    }

    #[cold]
    fn notify(&self, most: usize) -> usize {
        wait::undisturbed(|served| {
            let places = self.places.lock();
            let mut count = 0;
            while count < most {
                let Some(claimed) = places.claim_first() else {
                    break;
                };
                served.push(claimed);
                count += 1;
            }
            self.has_waiters.store(!places.is_empty(), Relaxed);
            count
        })
    }

    /// [`Condvar::wait_deadline`] in nanoseconds.
    pub(crate) fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: u64,
    ) -> WaitTimeoutResult {
        // SAFETY: the guard is borrowed mutably, so there is no reference to the value while the
        // mutex is unlocked.
        WaitTimeoutResult(!unsafe { self.wait_raw(mutex::raw(MutexGuard::mutex(guard)), deadline) })
    }

    pub(crate) fn wait_while_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        deadline: u64,
    ) -> WaitTimeoutResult {
        while condition(guard) {
            if self.wait_until(guard, deadline).timed_out() {
                return WaitTimeoutResult(condition(guard));
            }
        }
        WaitTimeoutResult(false)
    }

    /// False when the deadline has passed.
    ///
    /// # Safety
    /// The caller has locked the mutex, and no reference to its value is used meanwhile.
    pub(super) unsafe fn wait_raw(&self, mutex: &RawMutex, deadline: u64) -> bool {
        let waits = |(): &mut ()| {
            wait::one(self, REASON, deadline, |single, served| {
                let places = self.places.lock();
                // SAFETY: the waiter leaves the queue before the place ends.
                unsafe { places.push(single.place(0), false) };
                self.has_waiters.store(true, Relaxed);
                drop(places);
                // SAFETY: the caller has locked it, and holds no other lock any more.
                unsafe { mutex.unlock_by(served) };
                None
            })
        };
        // Locked at the end of the wait, also when that unwinds.
        let served = last::after_unwinding(&mut (), waits, |()| mutex.lock());
        mutex.lock();
        served.is_some()
    }
}

// SAFETY: the queue is touched under its lock only.
unsafe impl Queued for Condvar {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        let places = self.places.lock();
        let has_left = places.remove(place);
        self.has_waiters.store(!places.is_empty(), Relaxed);
        has_left
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl Drop for Condvar {
    fn drop(&mut self) {
        debug_assert!(
            !self.has_waiters.load(Relaxed),
            "a condition variable is dropped while somebody waits for it"
        );
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar")
            .field("waiters", &wait::undisturbed(|_| self.places.lock().len()))
            .finish()
    }
}
