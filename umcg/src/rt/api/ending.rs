//! The end of a worker as something to wait for beside others.
//!
//! The waiter enters the worker's `join` word, in the place of a task, by the address of what is
//! here: it stands in a queue that has room for one. Who ends the worker takes it from there with
//! the word, so without a lock; and says when it has done with it (`told`), which the waiter waits
//! for if it leaves too late.
//!
//! A worker has no operation for its own end: `ending` refuses to make one. Who has made an
//! operation waits for it, as it is not `Send`; so nothing has to be looked at, or can panic, once
//! a wait begins.

use crate::rt::base::sync::{AtomicBool, Ordering::*, give_way};
use crate::rt::engine::server::ServerState;
use crate::rt::task::Task;
use crate::rt::wait::joined::{RUNNING, SELECTS, TASK, has_ended, is_over};
use crate::rt::wait::queue::{ClaimedList, Place, Queued, Source};
use crate::select::operation::{Operation, Parts};
use std::cell::Cell;
use std::marker::PhantomData;

/// Done when a worker has ended, or was given up, so that joining it does not wait. By
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
    /// That of this worker.
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

/// The worker has ended, and this was in its word.
pub(super) fn tell(waiter: usize, local: Option<&ServerState>) {
    // SAFETY: it stays there until it has been told, as it was found in the word.
    let ending: &Ending<'_> = unsafe { &*((waiter & TASK) as *const Ending<'_>) };
    let claimed = ending.place.claim_alone();
    // ORDERING(told.1): Release, pairs with told.2. The waiter may be gone from here on, unless it
    // was claimed.
    ending.told.store(true, Release);
    if let Some(claimed) = claimed {
        claimed.resume(local);
    }
}

// SAFETY: who takes the place from the word has it to itself; leaving it there is one step.
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
unsafe impl Source for Ending<'_> {
    fn serve_now(&self, note: usize) -> Option<usize> {
        is_over(self.worker).then_some(note)
    }

    fn enter_or_claim(&self, _: &Place, claim: &mut dyn FnMut() -> bool, _: &mut ClaimedList) {
        self.told.store(false, Relaxed);
        // ORDERING(join.5): Release, pairs with join.6: who ends finds this whole.
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

impl Parts for Ending<'_> {
    fn source(&self) -> Option<&dyn Source> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn finish(&self, _: usize) -> bool {
        true
    }

    /// The handle may be used up when this is forgotten.
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
