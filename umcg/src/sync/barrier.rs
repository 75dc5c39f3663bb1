//! Barriers.

use crate::rt::spin::Spin;
use crate::rt::time::Elapsed;
use crate::rt::timed;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued};
use std::fmt;

const REASON: &&str = &"barrier";

/// Lets nobody through before a number of workers or threads have come; then all of them, and it
/// begins anew.
///
/// A wait that is cancelled or late has not come. Not for signal handlers.
///
/// ```
/// let barrier = umcg::sync::Barrier::new(3);
/// let leaders = std::thread::scope(|scope| {
///     let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| barrier.wait().is_leader())).collect();
///     threads.into_iter().filter_map(|thread| thread.join().unwrap().then_some(())).count()
/// });
/// assert_eq!(leaders, 1);
/// ```
#[repr(C)]
pub struct Barrier {
    arrivals: Spin<Arrivals>,
    pub(super) parties: u32,
}

#[derive(Default)]
struct Arrivals {
    places: Places,
    /// How many there are.
    count: u32,
}

/// Of those that a barrier lets through together one is the leader: who came last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Whether it is the caller.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

/// In a place's note, and what the leader says.
const LED: usize = 0;
const LEADER: usize = 1;

impl Barrier {
    /// For so many; 0 is as 1.
    pub const fn new(parties: u32) -> Barrier {
        Barrier {
            arrivals: Spin::new(Arrivals {
                places: Places::new(),
                count: 0,
            }),
            parties,
        }
    }

    /// Waits until all have come. What each did before is seen by all after. A point of
    /// cancellation if it has to wait. Switches.
    pub fn wait(&self) -> BarrierWaitResult {
        // Without a deadline it returns when all have come.
        self.wait_until(u64::MAX)
            .unwrap_or(BarrierWaitResult(false))
    }

    timed! {
        "Barrier::wait";
        /// # Errors
        /// [`Elapsed`]: the caller is not among those that have come.
        pub fn wait_deadline, wait_timeout(&self) -> Result<BarrierWaitResult, Elapsed>;
        |deadline| self.wait_until(deadline)
    }

    /// [`Barrier::wait_deadline`] in nanoseconds.
    pub(crate) fn wait_until(&self, deadline: u64) -> Result<BarrierWaitResult, Elapsed> {
        let how = wait::one(self, REASON, deadline, |single, served| {
            let mut arrivals = self.arrivals.lock();
            if arrivals.count + 1 < self.parties {
                arrivals.count += 1;
                // SAFETY: the waiter leaves the queue before the place ends.
                unsafe { arrivals.places.push(single.place(LED), false) };
                return None;
            }
            arrivals.count = 0;
            while let Some(claimed) = arrivals.places.claim_first() {
                served.push(claimed);
            }
            Some(LEADER)
        });
        how.map(|how| BarrierWaitResult(how == LEADER))
            .ok_or(Elapsed)
    }
}

// SAFETY: the queue is touched under its lock only.
unsafe impl Queued for Barrier {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        let mut arrivals = self.arrivals.lock();
        let has_left = arrivals.places.remove(place);
        arrivals.count -= u32::from(has_left);
        has_left
    }
}

impl fmt::Debug for Barrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Barrier")
            .field("parties", &self.parties)
            .field(
                "waiters",
                &wait::undisturbed(|_| self.arrivals.lock().count),
            )
            .finish()
    }
}
