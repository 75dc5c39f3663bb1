//! The parts of this module that the C interface needs, beside the public ones. Nothing else should
//! use them.
//!
//! In C there are no guards, and objects are parts of the caller's data, with initialisers in the
//! header. So the C interface works below the guards, and knows the offsets of fields.

use super::any;
use super::barrier::Barrier;
use super::condvar::Condvar;
use super::joint::Joint;
use super::mutex::{self, RawMutex};
use super::objects::ObjectParts;
use super::once::{Once, OnceRun};
use super::rwlock::RawRwLock;
use super::semaphore::{Semaphore, TryAcquireError};
use super::wait_group::WaitGroup;
use crate::rt::wait::{Place, SelectQueue};
use crate::select::operation::{Operation, OperationParts};
use std::fmt;
use std::mem::offset_of;

/// For the operations of `RawMutex` and `RawRwLock`.
pub use ::lock_api;

/// The offsets of a mutex's fairness, and of a barrier's number.
pub const MUTEX_IS_FAIR: usize = mutex::IS_FAIR;
pub const BARRIER_PARTIES: usize = offset_of!(Barrier, parties);

/// [`Condvar::wait_deadline`] in nanoseconds, or without one: false when it has passed.
///
/// # Safety
/// The caller has locked the mutex.
pub unsafe fn wait(condvar: &Condvar, mutex: &RawMutex, deadline: Option<u64>) -> bool {
    // SAFETY: passed on.
    unsafe { condvar.wait_raw(mutex, deadline.unwrap_or(u64::MAX)) }
}

/// [`try_acquire_any`](super::try_acquire_any), but one after the other: for a caller that is going
/// to wait if that finds nothing.
///
/// # Errors
/// [`TryAcquireError`].
pub fn try_each(semaphores: &[&Semaphore]) -> Result<usize, TryAcquireError> {
    any::scan(semaphores, any::fair(semaphores))
}

/// Whether there are plain readers; the upgradable lock does not count.
pub fn has_readers(lock: &RawRwLock) -> bool {
    lock.has_readers()
}

/// Whether the upgradable lock is held.
pub fn has_upgradable(lock: &RawRwLock) -> bool {
    lock.has_upgradable()
}

/// The right to do the action of a `Once`. If it is dropped the action was not done.
#[must_use = "dropped at once it was not done"]
pub struct Begun<'a>(OnceRun<'a>);

impl fmt::Debug for Begun<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Begun").finish_non_exhaustive()
    }
}

/// Waits until it is done, or the caller's to do. A point of cancellation if it has to wait.
/// Switches.
pub fn begin(once: &Once) -> Option<Begun<'_>> {
    once.begin().map(Begun)
}

/// The same if it is not being done now, and was not done. Never waits.
pub fn try_begin(once: &Once) -> Option<Begun<'_>> {
    once.try_begin().map(Begun)
}

/// It was done.
pub fn end(mut doing: Begun<'_>) {
    doing.0.is_done = true;
}

/// [`WaitGroup::add`]: false if it is too much.
pub fn add(group: &WaitGroup, more: u32) -> bool {
    group.try_add(more)
}

/// [`WaitGroup::done`]: false if there is nothing to do.
pub fn done(group: &WaitGroup) -> bool {
    group.try_done()
}

/// Whether there is nothing to do. If so, everything that was done is seen.
pub fn is_done(group: &WaitGroup) -> bool {
    group.is_done()
}

impl ObjectParts for RawMutex {
    fn queue(&self) -> &dyn SelectQueue {
        self.gate()
    }

    fn joint(&self) -> &dyn Joint {
        self.gate()
    }
}

/// Locks a mutex, when it is selected. The caller that has selected it unlocks it.
#[derive(Debug)]
pub struct Locking<'a> {
    mutex: &'a RawMutex,
    place: Place,
}

/// Locking a mutex as an operation.
pub fn locking(mutex: &RawMutex) -> Locking<'_> {
    Locking {
        mutex,
        place: Place::new(),
    }
}

impl OperationParts for Locking<'_> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        Some(self.mutex.gate())
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn finish(&self, _: usize) -> bool {
        true
    }
}

impl Operation for Locking<'_> {
    type Output = ();

    fn outcome(&mut self) {}
}
