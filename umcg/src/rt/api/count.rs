//! How many workers of a scope there are.

use crate::rt::task::Handle;
use crate::rt::wait::cancel::Unwinding;
use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// How many workers of a scope there are, and who waits for them. Lies in the frame of `scope`.
pub(crate) struct Count {
    /// Twice the number of workers; odd while the scope itself is open.
    pub(super) left: AtomicUsize,
    /// How many of them have panicked, and nobody has that from a `join`.
    pub(super) panics: AtomicUsize,
    pub(super) owner: Handle,
}

impl Count {
    /// As a task keeps it.
    pub(crate) fn as_ptr(&self) -> *mut () {
        (self as *const Count).cast_mut().cast()
    }
}

/// One worker more; one less, if it is dropped.
pub(super) struct Counted<'a>(&'a Count);

impl<'a> Counted<'a> {
    pub(super) fn new(count: &'a Count) -> Counted<'a> {
        count.left.fetch_add(WORKER, Relaxed);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        // By a party of the scope, for which it waits: so this is not the last.
        self.0.left.fetch_sub(WORKER, Relaxed);
    }
}

pub(super) const OPEN: usize = 1;
const WORKER: usize = 2;

/// A worker has ended; it may have been one of a scope. Who waits for the scope, if that was its
/// last one, is to be unparked.
///
/// # Safety
/// Null, or the [`Count`] of the worker's scope, which is told this once.
#[inline]
pub(crate) unsafe fn ended(scope: *mut ()) -> Option<Handle> {
    // SAFETY: null, or a scope that waits for this worker.
    let count = unsafe { scope.cast::<Count>().as_ref() }?;
    let owner = count.owner; // the scope may be gone as soon as it is told
    // ORDERING(scope.1): Release, pairs with scope.2: the scope sees all that its workers did;
    // Acquire: and the last one what the others did.
    (count.left.fetch_sub(WORKER, AcqRel) == WORKER).then_some(owner)
}

/// A worker that may be one of a scope is about to end with this.
///
/// # Safety
/// Null, or the [`Count`] of the worker's scope, which has not been told of the end.
#[cold]
pub(crate) unsafe fn note_unwound(scope: *mut (), payload: &(dyn Any + Send)) {
    // SAFETY: null, or a scope that waits for this worker.
    if let Some(count) = unsafe { scope.cast::<Count>().as_ref() } {
        if !payload.is::<Unwinding>() {
            // Seen by the scope as the end is.
            count.panics.fetch_add(1, Relaxed);
        }
    }
}

impl std::fmt::Debug for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Count")
            .field("left", &(self.left.load(Relaxed) / WORKER))
            .finish()
    }
}
