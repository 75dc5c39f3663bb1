//! Actions that are done once.
//!
//! ```text
//!              call_once                       returns
//!    NEW -----------------------> RUNNING -----------------> DONE
//!     ^                           |     ^
//!     `-- unwinds, no waiter -----'     `-- unwinds: the longest waiter for a turn is next
//! ```
//!
//! - O1: the state changes under the lock of the queue. A caller waits for its turn only while the
//!   state is RUNNING.
//! - O2: a waiter that was handed RUNNING does the action, even if it was asked to end meanwhile.
//!   So the right to do it is not lost.

use crate::rt::spin::Spin;
use crate::rt::sync::{AtomicU32, Ordering::*};
use crate::rt::time::Elapsed;
use crate::rt::timed;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued};
use std::convert::Infallible;
use std::fmt;

const NEW: u32 = 0;
const RUNNING: u32 = 1;
const DONE: u32 = 2;

/// In a place's note: it waits for its turn, or only for the end.
const TURN: usize = 0;
const END: usize = 1;
/// In the note after it was served: the action is done.
const IS_DONE: usize = 2;

const REASON: &&str = &"once";

/// An action that is done once: [`call_once`](Once::call_once) does it, or waits until another
/// caller has done it.
///
/// There is no poisoning: if it unwinds, by a panic or because the worker was aborted, it was not
/// done, and the next caller or waiter does it. To call it again from within waits for ever. Not
/// for signal handlers.
///
/// ```
/// use umcg::sync::Once;
///
/// static START: Once = Once::new();
///
/// fn start() {
///     START.call_once(|| println!("started"));
/// }
///
/// start();
/// start();
/// assert!(START.is_completed());
/// ```
#[repr(C)]
pub struct Once {
    state: AtomicU32,
    places: Spin<Places>,
}

impl Once {
    /// Not done.
    pub const fn new() -> Once {
        Once {
            state: AtomicU32::new(NEW),
            places: Spin::new(Places::new()),
        }
    }

    /// Calls `f` if it was not done before. If another caller is doing it, waits until that is
    /// done. Everything that was done is seen afterwards. A point of cancellation if it has to
    /// wait. Switches.
    #[inline]
    pub fn call_once(&self, f: impl FnOnce()) {
        if !self.is_completed() {
            let _ = self.call_slow(|| {
                f();
                Ok::<(), Infallible>(())
            });
        }
    }

    /// As [`Once::call_once`], with an `f` that may fail: then it was not done.
    ///
    /// # Errors
    /// Those of `f`.
    #[inline]
    pub fn try_call_once<E>(&self, f: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        if self.is_completed() {
            Ok(())
        } else {
            self.call_slow(f)
        }
    }

    /// Whether it is done. If so, everything that was done is seen.
    #[inline]
    pub fn is_completed(&self) -> bool {
        // ORDERING(once.1): Acquire, pairs with once.2.
        self.state.load(Acquire) == DONE
    }

    /// Waits until it was done. A point of cancellation if it has to wait. Switches.
    #[inline]
    pub fn wait(&self) {
        if !self.is_completed() {
            self.stand(END, u64::MAX);
        }
    }

    timed! {
        "Once::wait";
        /// # Errors
        /// [`Elapsed`].
        pub fn wait_deadline, wait_timeout(&self) -> Result<(), Elapsed>;
        |deadline| self.wait_until(deadline)
    }

    /// [`Once::wait_deadline`] in nanoseconds.
    pub(crate) fn wait_until(&self, deadline: u64) -> Result<(), Elapsed> {
        if self.is_completed() || self.stand(END, deadline).is_some() {
            Ok(())
        } else {
            Err(Elapsed)
        }
    }

    #[cold]
    fn call_slow<E>(&self, f: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let Some(mut turn) = self.begin() else {
            return Ok(());
        };
        let result = f();
        turn.is_done = result.is_ok();
        result
    }

    /// Waits for the turn, and takes it; none if it is done.
    pub(super) fn begin(&self) -> Option<OnceRun<'_>> {
        (self.stand(TURN, u64::MAX) != Some(IS_DONE)).then(|| OnceRun {
            once: self,
            is_done: false,
        })
    }

    /// Takes the turn, if it is free and the action is not done. Never waits.
    pub(super) fn try_begin(&self) -> Option<OnceRun<'_>> {
        let has_begun = wait::undisturbed(|_| {
            let _places = self.places.lock();
            let is_new = self.state.load(Relaxed) == NEW;
            if is_new {
                self.state.store(RUNNING, Relaxed);
            }
            is_new
        });
        has_begun.then(|| OnceRun {
            once: self,
            is_done: false,
        })
    }

    /// Waits for the turn or for the end. Returns which it was; none if the deadline has passed.
    #[cold]
    fn stand(&self, what: usize, deadline: u64) -> Option<usize> {
        wait::one(self, REASON, deadline, |single, _| {
            let places = self.places.lock();
            // ORDERING(once.1): as above.
            match self.state.load(Acquire) {
                DONE => return Some(IS_DONE),
                NEW if what == TURN => {
                    self.state.store(RUNNING, Relaxed);
                    return Some(TURN);
                }
                _ => {}
            }
            // SAFETY: the waiter leaves the queue before the place ends.
            unsafe { places.push(single.place(what), false) };
            None
        })
    }

    /// The action is done: all waiters go on.
    fn finish(&self) {
        wait::undisturbed(|served| {
            let places = self.places.lock();
            // ORDERING(once.2): Release, pairs with once.1.
            self.state.store(DONE, Release);
            while let Some(claimed) = places.claim_first() {
                claimed.place().note.set(IS_DONE);
                served.push(claimed);
            }
        });
    }

    /// The action was not done: the turn goes to the next waiter.
    #[cold]
    fn pass_on(&self) {
        wait::undisturbed(|served| {
            let places = self.places.lock();
            match places.claim_where(|place| place.note.get() == TURN) {
                Some(next) => served.push(next),
                None => self.state.store(NEW, Relaxed),
            }
        });
    }
}

/// The right to do the action, which the caller has.
pub(super) struct OnceRun<'a> {
    once: &'a Once,
    pub(super) is_done: bool,
}

impl Drop for OnceRun<'_> {
    fn drop(&mut self) {
        if self.is_done {
            self.once.finish()
        } else {
            self.once.pass_on()
        }
    }
}

// SAFETY: the queue is touched under its lock only.
unsafe impl Queued for Once {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        self.places.lock().remove(place)
    }
}

impl Default for Once {
    fn default() -> Once {
        Once::new()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once")
            .field("is_completed", &self.is_completed())
            .field("waiters", &wait::undisturbed(|_| self.places.lock().len()))
            .finish()
    }
}
