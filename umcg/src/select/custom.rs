//! Objects of one's own, that can be waited for beside others.

use super::operation::{Operation, Parts};
use crate::rt::spin::Spin;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued, Source};
use std::cell::RefCell;
use std::fmt;

/// An object that can be waited for by [`wait_for`], and beside others by [`select!`](crate::select!): whoever changes it so that something can be taken tells its [`Waiters`] then.
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
///     fn is_ready(&self) -> bool {
///         self.letter.lock().unwrap().is_some()
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
    /// What is taken.
    type Output;

    /// Takes it, if it is there. Does not wait.
    fn try_take(&self) -> Option<Self::Output>;

    /// Whether it is there, as far as one can see: false if [`Waitable::try_take`] would not take anything. Does not wait; the caller is not preempted.
    fn is_ready(&self) -> bool;

    /// Who waits for it.
    fn waiters(&self) -> &Waiters;
}

/// Those that wait for an object to change. They are told in their order; who is told looks by itself, and may find that somebody else was faster.
#[derive(Default)]
pub struct Waiters(Spin<Places>);

impl Waiters {
    /// Nobody.
    pub const fn new() -> Waiters {
        Waiters(Spin::new(Places::new()))
    }

    /// Tells who waits longest, after the object has changed: one for each thing that can be taken. False when nobody waits. Does not switch.
    pub fn notify_one(&self) -> bool {
        self.notify(1) == 1
    }

    /// Tells all that wait. Returns how many they were. Does not switch.
    pub fn notify_all(&self) -> usize {
        self.notify(usize::MAX)
    }

    fn notify(&self, most: usize) -> usize {
        wait::undisturbed(|told| {
            let mut count = 0;
            let places = self.0.lock();
            while count < most {
                let Some(claimed) = places.claim_first() else { break };
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

/// The operation that takes from a [`Waitable`]. By [`taking`].
pub struct Taking<'a, W: Waitable> {
    object: &'a W,
    place: Place,
    taken: RefCell<Option<W::Output>>,
}

/// Taking from the object, beside other operations.
pub fn taking<W: Waitable>(object: &W) -> Taking<'_, W> {
    Taking { object, place: Place::new(), taken: RefCell::new(None) }
}

/// Takes from the object; waits until there is something. A point of cancellation if it has to wait. Switches.
pub fn wait_for<W: Waitable>(object: &W) -> W::Output {
    let mut operation = taking(object);
    super::Select::new().wait(&mut [&mut operation]);
    operation.outcome()
}

impl<W: Waitable> Parts for Taking<'_, W> {
    fn source(&self) -> Option<&dyn Source> {
        Some(self)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn finish(&self, _: usize) -> bool {
        let mut taken = self.taken.borrow_mut();
        if taken.is_none() {
            *taken = self.object.try_take();
        }
        taken.is_some()
    }
}

// SAFETY: places are entered, left and claimed under the lock of `Waiters`.
unsafe impl<W: Waitable> Queued for Taking<'_, W> {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        self.object.waiters().0.lock().remove(place)
    }
}

// SAFETY: as above.
unsafe impl<W: Waitable> Source for Taking<'_, W> {
    fn serve_now(&self, note: usize) -> Option<usize> {
        *self.taken.borrow_mut() = self.object.try_take();
        self.taken.borrow().is_some().then_some(note)
    }

    fn enter_or_claim(&self, place: &Place, claim: &mut dyn FnMut() -> bool, _: &mut ClaimedList) {
        let places = self.object.waiters().0.lock();
        // SAFETY: who waits leaves the queue before the place ends.
        unsafe { places.push(place, false) };
        drop(places);
        // Who changes the object now finds the place; who did so before has had the lock before, and is seen.
        if self.object.is_ready() {
            claim();
        }
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
