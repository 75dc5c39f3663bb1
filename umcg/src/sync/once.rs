//! What is done once.
//!
//! ```text
//!              call_once                       returns
//!    NEW -----------------------> RUNNING -----------------> DONE
//!     ^                           |     ^
//!     `-- unwinds, nobody waits --'     `-- unwinds: who waits longest to do it is next
//! ```
//!
//! - O1: the state changes under the lock of the queue. Nobody waits for a turn but while it is
//!   RUNNING.
//! - O2: who was handed RUNNING does it, even if it was asked to end meanwhile: so the right to do
//!   it is not lost.

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

/// What somebody waits for, in a place's note: its turn, or only the end.
const TURN: usize = 0;
const END: usize = 1;
/// It is done: in the same, afterwards.
const IS_DONE: usize = 2;

const REASON: &&str = &"once";

/// Something that is done once: [`call_once`](Once::call_once) does it, or waits until somebody
/// else has.
///
/// There is no poisoning: if it unwinds, by a panic or because the worker was aborted, it was not
/// done, and the next who comes or waits does it. To call it again from within waits for ever. Not
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

    /// Calls `f` if nobody has before; if somebody is doing so, waits until it is done. What was
    /// done is seen then. A point of cancellation if it has to wait. Switches.
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

    /// Whether it is done; what was done is seen then.
    #[inline]
    pub fn is_completed(&self) -> bool {
        // ORDERING(once.1): Acquire, pairs with once.2.
        self.state.load(Acquire) == DONE
    }

    /// Waits until somebody has done it. A point of cancellation if it has to wait. Switches.
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

    /// Takes the turn, if nobody has it and it is not done. Never waits.
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

    /// Waits for the turn or for the end: which it was; none when the deadline has passed.
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

    /// It is done: all that wait go on.
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

    /// It was not done: somebody else may.
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

/// The caller is doing it.
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
