//! Who waits for many words: one claim for all its places.
//!
//! ```text
//!              arm                   stand                          claimed by who wakes one of its words
//!    IDLE  ---------->  ARMED  ---------------->  STANDING  ------------------------------------------.
//!     ^ ^                | |  (SITTING between)      |                                                v
//!     | `-- disarm ------' `-- claimed ---------------------------------------------> CLAIMED + index (until the next `arm`)
//!     `------------------------- revoked ------------'
//! ```
//!
//! Its places stay in the table from one wait to the next, so that a wait costs no lock a word: it
//! arms, looks at the words, and stops. Who wakes one of the words claims it under that word's lock
//! by one compare-and-swap of the word here; while it is IDLE or CLAIMED its places are passed
//! over.
//!
//! - M1: who changes STANDING has the waiter's place, and nobody else: that is the lock of the
//!   queue of one in which it waits. SITTING: the waiter itself has it, for some instructions.
//! - M2: no wake-up is missed. The waiter arms by a read-modify-write of this word, and looks at
//!   all words then. Who wakes has changed a word before, and makes a read-modify-write here, even
//!   if it changes nothing. One of the two is first: either it finds this armed, or the waiter,
//!   which reads what it left here (`armed.1`, `armed.2`), finds the word changed.

use crate::rt::spin::look_again;
use crate::rt::sync::{AtomicU32, Ordering::*};
use crate::rt::wait::{self, Claimed, ClaimedList, Place, Places, Queued, Single};

const IDLE: u32 = 0;
const ARMED: u32 = 1;
const SITTING: u32 = 2;
const STANDING: u32 = 3;
/// And the index above.
const CLAIMED: u32 = 4;

/// So many words at most. Twice that is an index, too: see `shared`.
pub(crate) const MOST: usize = 1_000_000_000;

pub(crate) struct Many {
    word: AtomicU32,
    /// Its waiter's place, while it stands.
    places: Places,
}

// SAFETY: the queue is touched by who has it (M1).
unsafe impl Sync for Many {}

/// Whether somebody could be claimed.
pub(crate) enum Claim {
    /// It does not wait, or somebody else was first.
    Failed,
    /// It was on its way; or it stands, and is to be resumed.
    Served(Option<Claimed>),
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexEnd {
    /// Somebody woke the word with this index.
    Woken(usize),
    /// The word with this index had another value than was expected.
    Changed(usize),
    /// The time has passed.
    TimedOut,
    /// The kernel cannot wait for one of the words, which is shared: EFAULT.
    Fault,
}

impl Many {
    pub(crate) const fn new() -> Many {
        Many {
            word: AtomicU32::new(IDLE),
            places: Places::new(),
        }
    }

    /// Claims it for the word with this index. By who has that word's lock.
    pub(crate) fn claim(&self, index: u32) -> Claim {
        let mut looks = 0;
        loop {
            let word = self.word.load(Relaxed);
            let to = match word {
                SITTING => {
                    look_again(&mut looks);
                    continue;
                }
                ARMED | STANDING => CLAIMED + index,
                // Written as it is (M2).
                other => other,
            };
            // ORDERING(armed.1): Release, pairs with armed.2: what the caller did before is seen by
            // who arms later.
            // ORDERING(claimed.1): likewise, pairs with claimed.2: and by who was claimed.
            // ORDERING(standing.2): Acquire, pairs with standing.1: the place is seen.
            if self
                .word
                .compare_exchange_weak(word, to, AcqRel, Relaxed)
                .is_err()
            {
                continue;
            }
            return match word {
                ARMED => Claim::Served(None),
                STANDING => {
                    let claimed = self.places.claim_first();
                    if let Some(claimed) = &claimed {
                        claimed.place().note.set(index as usize);
                    }
                    Claim::Served(claimed)
                }
                _ => Claim::Failed,
            };
        }
    }

    /// From here on it can be claimed.
    #[inline]
    pub(crate) fn arm(&self) {
        // ORDERING(armed.2): Acquire, pairs with armed.1.
        self.word.swap(ARMED, Acquire);
    }

    /// From here on it cannot: the index if it was.
    pub(crate) fn disarm(&self) -> Option<usize> {
        self.step(ARMED, IDLE).err()
    }

    /// The index for which it was claimed, if the step fails for that.
    fn step(&self, from: u32, to: u32) -> Result<(), usize> {
        // ORDERING(claimed.2): Acquire, pairs with claimed.1: what was done before the wake-up is
        // seen.
        let stepped = self.word.compare_exchange(from, to, Acquire, Acquire);
        stepped.map(drop).map_err(|word| (word - CLAIMED) as usize)
    }

    /// Stops the caller, who has armed it, until it is claimed: returns the index. None when the
    /// deadline has passed first.
    pub(crate) fn wait(&self, reason: &'static &'static str, deadline: u64) -> Option<usize> {
        wait::one(self, reason, deadline, |single, _| self.stand(single))
    }

    #[inline(always)]
    fn stand(&self, single: &mut Single<'_>) -> Option<usize> {
        if let Err(index) = self.step(ARMED, SITTING) {
            return Some(index);
        }
        // SAFETY: the waiter leaves the queue before the place ends.
        unsafe { self.places.push(single.place(0), false) };
        // ORDERING(standing.1): Release, pairs with standing.2.
        self.word.store(STANDING, Release);
        None
    }
}

// SAFETY: who changes STANDING has the queue (M1).
unsafe impl Queued for Many {
    fn leave(&self, place: &Place, _: &mut ClaimedList) -> bool {
        // ORDERING(standing.2): as above.
        let is_mine = self
            .word
            .compare_exchange(STANDING, IDLE, Acquire, Relaxed)
            .is_ok();
        is_mine && self.places.remove(place)
    }

    fn hands_over(&self) -> bool {
        false
    }
}
