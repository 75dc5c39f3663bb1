//! The program's own objects, which can be waited for beside others.
//!
//! - C1: [`Waiters`] count how often they were told. A waiter reads the count before it looks at
//!   the object, and stands in the queue only if the count is still the same there. So it misses no
//!   change, whether that was told before the look or after it.
//! - C2: the user's code (`try_take`, `waiters`) is called while the caller stands in no queue. So
//!   it may unwind, or even wait. It does not matter whether `waiters` returns the same each time:
//!   the operation remembers the queue that it has entered.

use super::operation::{Operation, OperationParts};
use crate::rt::spin::Spin;
use crate::rt::sync::{AtomicU64, Ordering::*};
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued, SelectQueue};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::time::{Duration, Instant};

/// An object that can be waited for by [`wait_for`], and beside others by
/// [`select!`](crate::select!). After each change that makes something available, the program tells
/// the object's [`Waiters`].
///
/// ```
/// use std::sync::Mutex;
/// use umcg::select::{Waitable, Waiters, wait_for};
///
/// struct Mailbox {
///     letter: Mutex<Option<String>>,
///     readers: Waiters,
/// }
///
/// impl Waitable for Mailbox {
///     type Output = String;
///
///     fn try_take(&self) -> Option<String> {
///         self.letter.lock().unwrap().take()
///     }
///
///     fn waiters(&self) -> &Waiters {
///         &self.readers
///     }
/// }
///
/// let mailbox = Mailbox { letter: Mutex::new(None), readers: Waiters::new() };
/// std::thread::scope(|scope| {
///     scope.spawn(|| assert_eq!(wait_for(&mailbox), "hello"));
///     *mailbox.letter.lock().unwrap() = Some("hello".to_owned());
///     mailbox.readers.notify_one();
/// });
/// ```
pub trait Waitable {
    /// The thing that is taken.
    type Output;

    /// Takes it, if it is there. Does not wait.
    fn try_take(&self) -> Option<Self::Output>;

    /// The waiters for it.
    fn waiters(&self) -> &Waiters;
}

/// The waiters for an object's change. They are told in their order. A waiter that is told tries by
/// itself, and may find that another caller was faster.
#[derive(Default)]
pub struct Waiters {
    places: Spin<Places>,
    /// How often they were told; written under the lock.
    told: AtomicU64,
}

impl Waiters {
    /// No waiters.
    pub const fn new() -> Waiters {
        Waiters {
            places: Spin::new(Places::new()),
            told: AtomicU64::new(0),
        }
    }

    /// Tells the longest waiter, after the object has changed: call it once for each thing that can
    /// be taken. False if there is no waiter. Does not switch.
    pub fn notify_one(&self) -> bool {
        self.notify(1) == 1
    }

    /// Tells all waiters. Returns how many they were. Does not switch.
    pub fn notify_all(&self) -> usize {
        self.notify(usize::MAX)
    }

    fn notify(&self, most: usize) -> usize {
        wait::undisturbed(|told| {
            let mut count = 0;
            let places = self.places.lock();
            // ORDERING(changed.1): Release, pairs with changed.2: a reader of this count sees the
            // changes made before.
            self.told.store(self.told.load(Relaxed) + 1, Release);
            while count < most {
                let Some(claimed) = places.claim_first() else {
                    break;
                };
                told.push(claimed);
                count += 1;
            }
            count
        })
    }
}

impl fmt::Debug for Waiters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiters").finish_non_exhaustive()
    }
}

/// The operation that takes from a [`Waitable`], made by [`taking`]. If the thing was taken, and
/// the outcome was not asked for, the next wait for this operation returns it at once; or it is
/// dropped with the operation.
pub struct Taking<'a, W: Waitable> {
    object: &'a W,
    place: Place,
    /// The waiters, and how often they had been told when nothing was there. None if there was
    /// something, or the object was not looked at.
    seen: Cell<Option<(&'a Waiters, u64)>>,
    /// The waiters in whose queue the place is.
    entered: Cell<Option<&'a Waiters>>,
    taken: RefCell<Option<W::Output>>,
}

/// In the note of a place: the thing was taken. Any other note: there is a change to look at.
const TAKEN: usize = 1;

/// Taking from the object, beside other operations.
pub fn taking<W: Waitable>(object: &W) -> Taking<'_, W> {
    Taking {
        object,
        place: Place::new(),
        seen: Cell::new(None),
        entered: Cell::new(None),
        taken: RefCell::new(None),
    }
}

/// Takes from the object; waits until there is something. A point of cancellation if it has to
/// wait. Switches.
pub fn wait_for<W: Waitable>(object: &W) -> W::Output {
    let mut operation = taking(object);
    super::Select::new().wait(&mut [&mut operation]);
    operation.outcome()
}

/// Like [`wait_for`], until `deadline` at most.
pub fn wait_for_deadline<W: Waitable>(object: &W, deadline: Instant) -> Option<W::Output> {
    let mut operation = taking(object);
    super::Select::new()
        .wait_deadline(&mut [&mut operation], deadline)
        .map(|_| operation.outcome())
}

/// Like [`wait_for`], for `timeout` at most.
pub fn wait_for_timeout<W: Waitable>(object: &W, timeout: Duration) -> Option<W::Output> {
    let mut operation = taking(object);
    super::Select::new()
        .wait_timeout(&mut [&mut operation], timeout)
        .map(|_| operation.outcome())
}

impl<W: Waitable> Taking<'_, W> {
    /// Takes the thing if it is there. The caller stands in no queue (C2).
    fn look(&self) -> bool {
        if self.taken.borrow().is_some() {
            // Taken before, and not asked for.
            self.seen.set(None);
            return true;
        }
        let waiters = self.object.waiters();
        // ORDERING(changed.2): Acquire, pairs with changed.1.
        let told = waiters.told.load(Acquire);
        let taken = self.object.try_take();
        let is_taken = taken.is_some();
        self.seen.set((!is_taken).then_some((waiters, told)));
        self.taken.replace(taken);
        is_taken
    }
}

impl<W: Waitable> OperationParts for Taking<'_, W> {
    fn queue(&self) -> Option<&dyn SelectQueue> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn finish(&self, note: usize) -> bool {
        note == TAKEN || self.look()
    }
}

// SAFETY: places are entered, left and claimed under the lock of the `Waiters` that were entered.
unsafe impl<W: Waitable> Queued for Taking<'_, W> {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        self.entered
            .take()
            .is_some_and(|waiters| waiters.places.lock().remove(place))
    }
}

// SAFETY: as above.
unsafe impl<W: Waitable> SelectQueue for Taking<'_, W> {
    fn serve_now(&self, _: usize) -> Option<usize> {
        self.look().then_some(TAKEN)
    }

    fn enter_or_claim(&self, place: &Place, claim: &mut dyn FnMut() -> bool, _: &mut ClaimedList) {
        if let Some((waiters, told)) = self.seen.get() {
            let places = waiters.places.lock();
            if waiters.told.load(Relaxed) == told {
                self.entered.set(Some(waiters));
                // SAFETY: the waiter leaves the queue before the place ends.
                unsafe { places.push(place, false) };
                return;
            }
        }
        claim();
    }
}

impl<W: Waitable> Operation for Taking<'_, W> {
    type Output = W::Output;

    fn outcome(&mut self) -> W::Output {
        self.taken.take().expect("the operation was not selected")
    }
}

impl<W: Waitable> fmt::Debug for Taking<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Taking").finish_non_exhaustive()
    }
}
