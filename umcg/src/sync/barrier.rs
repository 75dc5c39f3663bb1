//! Barriers.

use crate::rt::spin::Spin;
use crate::rt::time::Elapsed;
use crate::rt::timed;
use crate::rt::wait::{self, ClaimedList, Place, Places, Queued};
use std::fmt;

const REASON: &&str = &"barrier";

/// Holds back workers and threads until a number of them have come. Then it lets all of them
/// through, and begins anew.
///
/// A wait that is cancelled, or ended by its deadline, does not count. Not for signal handlers.
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
    /// The number of waiters.
    count: u32,
}

/// Of the callers that a barrier lets through together, the last to come is the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierWaitResult(bool);

impl BarrierWaitResult {
    /// Whether the caller is the leader.
    pub fn is_leader(&self) -> bool {
        self.0
    }
}

/// In a place's note, and the result of the leader's own wait.
const LED: usize = 0;
const LEADER: usize = 1;

impl Barrier {
    /// A barrier for so many; 0 means 1.
    pub const fn new(parties: u32) -> Barrier {
        Barrier {
            arrivals: Spin::new(Arrivals {
                places: Places::new(),
                count: 0,
            }),
            parties,
        }
    }

    /// Waits until all have come. Everything that each did before the wait is seen by all after it.
    /// A point of cancellation if it has to wait. Switches.
    pub fn wait(&self) -> BarrierWaitResult {
        // Without a deadline it returns when all have come.
        self.wait_until(u64::MAX)
            .unwrap_or(BarrierWaitResult(false))
    }

    timed! {
        "Barrier::wait";
        /// # Errors
        /// [`Elapsed`]: the caller does not count among those that have come.
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
