//! A waiter for many words: one claim for all its places.
//!
//! ```text
//!              arm                   stand                          claimed by a waker of one of its words
//!    IDLE  ---------->  ARMED  ---------------->  STANDING  ------------------------------------------.
//!     ^ ^                | |  (SITTING between)      |                                                v
//!     | `-- disarm ------' `-- claimed ---------------------------------------------> CLAIMED + index (until the next `arm`)
//!     `------------------------- revoked ------------'
//! ```
//!
//! DOZING is a state beside STANDING, of a waiter that sleeps in the kernel on this word. A waker
//! claims it, and wakes the word.
//!
//! Its places stay in the table from one wait to the next, so that a wait costs no lock a word: it
//! arms, looks at the words, and stops. A waker of one of the words claims it under that word's
//! lock, by one compare-and-swap of the state word here. While it is IDLE or CLAIMED its places are
//! passed over.
//!
//! - M1: only the party that changes STANDING has the waiter's place. So STANDING serves as the
//!   lock of the queue of one in which it waits. SITTING: the waiter itself has the place, for some
//!   instructions.
//! - M2: no wake-up is missed. The waiter arms by a read-modify-write of this state word, and then
//!   looks at all its words. A waker has changed a word before, and makes a read-modify-write here,
//!   even if that changes nothing. One of the two is first: either the waker finds this armed; or
//!   the waiter reads the waker's write here (`armed.1`, `armed.2`), and finds the word changed.

use crate::rt::spin::look_again;
use crate::rt::sync::{AtomicU32, Ordering::*};
use crate::rt::wait::{self, Claimed, ClaimedList, Place, Places, Queued, Single};
use rustix::thread::futex::{self, Flags};

const IDLE: u32 = 0;
const ARMED: u32 = 1;
const SITTING: u32 = 2;
const STANDING: u32 = 3;
const DOZING: u32 = 4;
/// And the index above.
const CLAIMED: u32 = 5;

/// The most words. Twice that is an index, too: see `shared`.
pub(crate) const MOST: usize = 1_000_000_000;

pub(crate) struct Many {
    word: AtomicU32,
    /// Its waiter's place, while it stands.
    places: Places,
}

// SAFETY: the queue is touched only by the party that has it (M1).
unsafe impl Sync for Many {}

/// The result of a claim.
pub(crate) enum Claim {
    /// It does not wait.
    Failed,
    /// Another party was first, and it has not waited since.
    Second,
    /// It was ARMED, and will find the claim; or it stands, and is to be resumed.
    Served(Option<Claimed>),
}

/// How a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FutexEnd {
    /// The word with this index was woken.
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

    /// Claims it for the word with this index. The caller holds that word's lock.
    pub(crate) fn claim(&self, index: u32) -> Claim {
        let mut looks = 0;
        loop {
            let word = self.word.load(Relaxed);
            let to = match word {
                SITTING => {
                    look_again(&mut looks);
                    continue;
                }
                ARMED | STANDING | DOZING => CLAIMED + index,
                // Written as it is (M2).
                other => other,
            };
            // ORDERING(armed.1): Release, pairs with armed.2: a waiter that arms later sees
            // everything that the caller did before.
            // ORDERING(claimed.1): likewise, pairs with claimed.2: and so does the waiter that was
            // claimed.
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
                DOZING => {
                    // Under the lock, which keeps the word there. It is a rare waiter.
                    let _ = futex::wake(&self.word, Flags::PRIVATE, 1);
                    Claim::Served(None)
                }
                STANDING => {
                    let claimed = self.places.claim_first();
                    if let Some(claimed) = &claimed {
                        claimed.place().note.set(index as usize);
                    }
                    Claim::Served(claimed)
                }
                IDLE => Claim::Failed,
                _ => Claim::Second,
            };
        }
    }

    /// From here on it can be claimed.
    #[inline]
    pub(crate) fn arm(&self) {
        // ORDERING(armed.2): Acquire, pairs with armed.1.
        self.word.swap(ARMED, Acquire);
    }

    /// From here on it cannot be claimed. Returns the index if it was.
    pub(crate) fn disarm(&self) -> Option<usize> {
        self.step(ARMED, IDLE).err()
    }

    /// The index for which it was claimed, if the step fails for that.
    fn step(&self, from: u32, to: u32) -> Result<(), usize> {
        // ORDERING(claimed.2): Acquire, pairs with claimed.1: everything done before the wake-up is
        // seen.
        let stepped = self.word.compare_exchange(from, to, Acquire, Acquire);
        stepped.map(drop).map_err(|word| (word - CLAIMED) as usize)
    }

    /// Stops the caller, which has armed it, until it is claimed. Returns the index; none if the
    /// deadline has passed first.
    pub(crate) fn wait(&self, reason: &'static &'static str, deadline: u64) -> Option<usize> {
        wait::one(self, reason, deadline, |single, _| self.stand(single))
    }

    /// The same for a wait that a cut ends: see [`wait::one_cuttable`].
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for its waits")
    )]
    pub(crate) fn wait_cuttable(
        &self,
        reason: &'static &'static str,
        deadline: u64,
    ) -> Option<usize> {
        wait::one_cuttable(self, reason, deadline, |single, _| self.stand(single))
    }

    /// The caller, which has armed it, goes to sleep in the kernel, on the word that
    /// [`dozing`](Many::dozing) names. The index, if it was claimed before.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for its waits")
    )]
    pub(crate) fn doze(&self) -> Result<(), usize> {
        self.step(ARMED, DOZING)
    }

    /// The caller has slept. The index, if it was claimed.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for its waits")
    )]
    pub(crate) fn wake_up(&self) -> Result<(), usize> {
        self.step(DOZING, IDLE)
    }

    /// The word of one that dozes, and its value.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for its waits")
    )]
    pub(crate) fn dozing(&self) -> (*const AtomicU32, u32) {
        (&self.word, DOZING)
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

// SAFETY: the party that changes STANDING has the queue (M1).
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
