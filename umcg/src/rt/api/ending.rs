//! The end of a worker as an operation that can be waited for beside others.
//!
//! The waiter enters the address of its `Ending` into the worker's `join` word, in the place of a
//! task. The word is a queue with room for one. The thread that ends the worker takes the address
//! from the word, so without a lock. It publishes when it no longer uses it (`told`). A waiter that
//! leaves too late waits for that.
//!
//! A worker has no operation for its own end: `ending` refuses to make one. An operation is not
//! `Send`, so the thread that made it is the one that waits for it. So once a wait begins, nothing
//! needs checking and nothing can panic.

use crate::rt::base::sync::{AtomicBool, Ordering::*, give_way};
use crate::rt::engine::server::ServerState;
use crate::rt::task::Task;
use crate::rt::wait::joined::{RUNNING, SELECTS, TASK, has_ended, is_over};
use crate::rt::wait::queue::{ClaimedList, Place, Queued, SelectQueue};
use crate::select::operation::{Operation, OperationParts};
use std::cell::Cell;
use std::marker::PhantomData;

/// Completes when a worker has ended, or was given up, so that joining it does not wait. Made by
/// [`JoinHandle::ending`](crate::rt::JoinHandle::ending).
#[repr(align(64))]
pub struct Ending<'a> {
    worker: &'static Task,
    place: Place,
    entered: Cell<bool>,
    told: AtomicBool,
    _handle: PhantomData<&'a mut ()>,
}

const _: () = assert!(align_of::<Ending<'_>>() > !TASK);

/// Ambiguous, and so an error, if an `Ending` were `Send`.
const _: fn() = || {
    trait Sent<A> {
        fn look() {}
    }
    impl<T: ?Sized> Sent<()> for T {}
    impl<T: ?Sized + Send> Sent<u8> for T {}
    <Ending<'static> as Sent<_>>::look();
};

impl Ending<'_> {
    /// The operation for this worker's end.
    pub(super) fn of<'a>(worker: &'static Task) -> Ending<'a> {
        Ending {
            worker,
            place: Place::new(),
            entered: Cell::new(false),
            told: AtomicBool::new(false),
            _handle: PhantomData,
        }
    }

    fn word(&self) -> usize {
        std::ptr::from_ref(self).addr() | SELECTS
    }
}

/// The worker has ended, and this waiter was in its word.
pub(super) fn tell(waiter: usize, local: Option<&ServerState>) {
    // SAFETY: it was found in the word, so it stays there until it has been told.
    let ending: &Ending<'_> = unsafe { &*((waiter & TASK) as *const Ending<'_>) };
    let claimed = ending.place.claim_alone();
    // ORDERING(told.1): Release, pairs with told.2. The waiter may be gone from here on, unless it
    // was claimed.
    ending.told.store(true, Release);
    if let Some(claimed) = claimed {
        claimed.resume(local);
    }
}

// SAFETY: the thread that takes the place from the word has it to itself. Leaving it there is one
// step.
unsafe impl Queued for Ending<'_> {
    fn leave(&self, _: &Place, _: &mut ClaimedList) -> bool {
        if !self.entered.replace(false) {
            return false;
        }
        if self
            .worker
            .join
            .compare_exchange(self.word(), RUNNING, Relaxed, Relaxed)
            .is_ok()
        {
            return true;
        }
        // ORDERING(told.2): Acquire, pairs with told.1.
        while !self.told.load(Acquire) {
            give_way();
        }
        false
    }
}

// SAFETY: as above.
unsafe impl SelectQueue for Ending<'_> {
    fn serve_now(&self, note: usize) -> Option<usize> {
        is_over(self.worker).then_some(note)
    }

    fn enter_or_claim(&self, _: &Place, claim: &mut dyn FnMut() -> bool, _: &mut ClaimedList) {
        self.told.store(false, Relaxed);
        // ORDERING(join.5): Release, pairs with join.6: the thread that ends the worker sees all of
        // this.
        // ORDERING(join.2): Acquire, pairs with join.1, if it has ended.
        if self
            .worker
            .join
            .compare_exchange(RUNNING, self.word(), AcqRel, Acquire)
            .is_ok()
        {
            self.entered.set(true);
        } else {
            claim();
        }
    }
}

impl OperationParts for Ending<'_> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn finish(&self, _: usize) -> bool {
        true
    }

    /// If the operation is leaked, the handle may be used up while it is still in the word.
    fn may_stay(&self) -> bool {
        false
    }
}

impl std::fmt::Debug for Ending<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ending")
            .field("ended", &has_ended(self.worker))
            .finish()
    }
}

impl Operation for Ending<'_> {
    type Output = ();

    fn outcome(&mut self) {}
}
