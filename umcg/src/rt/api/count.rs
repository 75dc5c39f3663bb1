//! How many workers of a scope there are.

use crate::rt::task::Handle;
use crate::rt::wait::cancel::Unwinding;
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// How many workers of a scope there are, and the handle of the caller that waits for them. Lies in
/// the frame of `scope`.
pub(crate) struct Count {
    /// Twice the number of workers; odd while the scope itself is open.
    pub(super) remaining: AtomicUsize,
    /// How many of them have panicked without a `join` that returned the panic.
    pub(super) panics: AtomicUsize,
    pub(super) owner: Handle,
}

impl Count {
    /// The count, as a task stores it.
    pub(crate) fn as_ptr(&self) -> *mut () {
        (self as *const Count).cast_mut().cast()
    }
}

/// Counts one worker more. Dropping it counts one less.
pub(super) struct Counted<'a>(&'a Count);

impl<'a> Counted<'a> {
    pub(super) fn new(count: &'a Count) -> Counted<'a> {
        count.remaining.fetch_add(WORKER, Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // Dropped by a party of the scope, which the scope waits for: so this is not the last.
        self.0.remaining.fetch_sub(WORKER, Relaxed);
    }
}

pub(super) const OPEN: usize = 1;
const WORKER: usize = 2;

/// A worker has ended; it may have been one of a scope. If it was the scope's last, returns the
/// handle of the waiter, which the caller must unpark.
///
/// # Safety
/// The pointer is null, or the [`Count`] of the worker's scope. Called once for the worker.
#[inline]
pub(crate) unsafe fn ended(scope: *mut ()) -> Option<Handle> {
    // SAFETY: null, or a scope that waits for this worker.
    let count = unsafe { scope.cast::<Count>().as_ref() }?;
    let owner = count.owner; // read first: the scope may be gone once it is told
    // ORDERING(scope.1): Release, pairs with scope.2: the scope sees all writes of its workers;
    // Acquire: and the last worker sees those of the others.
    (count.remaining.fetch_sub(WORKER, AcqRel) == WORKER).then_some(owner)
}

/// Records that a worker, which may be one of a scope, is about to end with this payload.
///
/// # Safety
/// The pointer is null, or the [`Count`] of the worker's scope, which has not been told of the end.
#[cold]
pub(crate) unsafe fn note_unwound(scope: *mut (), payload: &(dyn Any + Send)) {
    // SAFETY: null, or a scope that waits for this worker.
    if let Some(count) = unsafe { scope.cast::<Count>().as_ref() } {
        if !payload.is::<Unwinding>() {
            // The scope sees this as it sees the end.
            count.panics.fetch_add(1, Relaxed);
        }
    }
}

impl std::fmt::Debug for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Count")
            .field("remaining", &(self.remaining.load(Relaxed) / WORKER))
            .finish()
    }
}
