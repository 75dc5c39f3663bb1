//! Patrols: an idle server looks at the others from time to time, in place of being woken for each
//! worker that another server makes ready.
//!
//! Waking a server takes some ten microseconds of both, and a theft stops the server that is stolen
//! from. Workers that wake each other in turn, each for less than that, are better off on one
//! server. A burst of real work is not. Which of the two it is shows only when one looks twice:
//!
//! ```text
//!                    a look finds workers elsewhere
//!          ASLEEP --woken--> LOOKS TWICE -----------> ON PATROL: naps of some 50 us
//!            ^                                         |   |   ^
//!            |                                         |   '---' the queue drains fast: leave it
//!            '--- several naps without any worker -----'
//!                                                      '---> the queue does not: steal half of it
//! ```
//!
//! - P1: how many woken workers the other server has run from its queue between two looks of the
//!   same thief says how long it needs for those that stand there now. If that is less than
//!   [`WORTH`], they stay. Workers that yield and come back do not count: they wait for no other,
//!   and would be on their way for ever. Those of guests do, which mostly wait. Where there is no
//!   earlier look, the second one comes after [`BETWEEN`]: a nap would leave a burst of work alone
//!   for 100 us.
//! - P2: *a server on patrol looks again by itself*, so nobody wakes one for a worker that another
//!   server has woken. Behind the end of a patrol comes one more look at all queues (`patrol.1`,
//!   `patrol.2`). A server that gives up makes it once it has announced its sleep. One that has
//!   found a worker makes it before it runs that, and wakes another server if there are more. So
//!   a thread that has put a worker into a queue, and finds a server on patrol, relies on a look
//!   after that; a thread that finds none wakes a server, by the protocol of `idle`.
//! - P3: new workers, and workers from outside, wake a sleeping server although another one is on
//!   patrol. New ones are stolen wherever they are found.
//! - P4: some workers that run for a moment each have little to do with each other, and are better
//!   off on more servers. No look tells which. So the runtime's watch tries it (`run/spread`), and
//!   has the first servers steal what they find, P1 or not. A theft is right at any time.

use crate::rt::base::here::Here;
use crate::rt::base::sync::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, full_fence,
};
use std::time::Duration;

/// In nanoseconds: workers that their server will have run after this time are not stolen.
const WORTH: u64 = 50_000;
/// How long a server on patrol naps.
const NAP: Duration = Duration::from_micros(50);
/// How many naps in a row may find no worker elsewhere.
const NAPS: u32 = 8;
/// Two looks tell a rate if so much time lies between them, in nanoseconds.
const SHORTEST: u64 = 10_000;
const LONGEST: u64 = 2_000_000;

/// The time between a first look and the second one, in nanoseconds.
pub(super) const BETWEEN: u64 = 35_000;

/// What a look tells of the workers in a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Some of them are worth a theft.
    Steal,
    /// They are not.
    Leave,
    /// There was no look before that this one could be compared with.
    LookAgain,
}

/// What a server is on patrol for, and what it shows to others.
#[derive(Default)]
#[repr(align(128))]
struct Beat {
    /// How many workers have come to its queue of woken ones. Only the server writes it, as all
    /// that follows.
    queued: AtomicU64,
    is_on_patrol: AtomicBool,
    /// How many naps are left.
    naps: AtomicU32,
    /// How often it has looked for workers elsewhere, and how often it has left all that it found.
    looked: AtomicU64,
    left: AtomicU64,
    /// Its last look at each server.
    looks: Box<[Look]>,
}

#[derive(Default)]
struct Look {
    /// When; 0 for never.
    at: AtomicU64,
    /// How many had come to the other server's queue by then, and how many stood there.
    queued: AtomicU64,
    load: AtomicUsize,
}

/// The patrols of a runtime's servers.
#[derive(Default)]
pub(crate) struct Patrol {
    beats: Box<[Beat]>,
    /// How many servers are on patrol.
    count: AtomicUsize,
    /// So many of the first servers steal whatever they find.
    spread: AtomicUsize,
}

/// How often servers on patrol have looked, and how often in vain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PatrolLooks {
    pub(crate) all: u64,
    /// They found workers, and left them all.
    pub(crate) left: u64,
}

impl Patrol {
    pub(super) fn start(&mut self, servers: usize) {
        let beat = |_| Beat {
            looks: (0..servers).map(|_| Look::default()).collect(),
            ..Beat::default()
        };
        self.beats = (0..servers).map(beat).collect();
    }

    fn beat(&self, here: &Here) -> &Beat {
        &self.beats[here.index()]
    }

    /// So many workers have come to the server's queue of woken ones.
    #[inline]
    pub(super) fn note_queued(&self, here: &Here, count: usize) {
        let beat = self.beat(here);
        let queued = beat.queued.load(Relaxed) + count as u64;
        beat.queued.store(queued, Relaxed);
    }

    /// Whether a server will look without being woken. The caller has put a worker into a queue.
    #[inline]
    pub(super) fn will_look(&self) -> bool {
        self.count.load(Relaxed) > 0 && self.is_relied_on()
    }

    #[cold]
    fn is_relied_on(&self) -> bool {
        // ORDERING(patrol.1): SeqCst, pairs with patrol.2: either the server that ends its patrol
        // sees the worker, or this sees that the patrol has ended.
        full_fence();
        self.count.load(Relaxed) > 0
    }

    pub(super) fn is_on_patrol(&self, here: &Here) -> bool {
        self.beat(here).is_on_patrol.load(Relaxed)
    }

    /// The server has looked for workers elsewhere. It found some, or none, and left them all.
    pub(super) fn note_vain_look(&self, here: &Here, found: bool) {
        let beat = self.beat(here);
        let one_more = |count: &AtomicU64| count.store(count.load(Relaxed) + 1, Relaxed);
        one_more(&beat.looked);
        if found {
            one_more(&beat.left);
        }
    }

    /// The looks of all servers in which they stole nothing. Called by any thread.
    pub(crate) fn looks(&self) -> PatrolLooks {
        let sum = |count: fn(&Beat) -> &AtomicU64| {
            self.beats
                .iter()
                .map(|beat| count(beat).load(Relaxed))
                .sum()
        };
        PatrolLooks {
            all: sum(|beat| &beat.looked),
            left: sum(|beat| &beat.left),
        }
    }

    /// How many servers are on patrol. Called by any thread.
    pub(crate) fn count(&self) -> usize {
        self.count.load(Relaxed)
    }

    /// From now on so many of the first servers steal whatever they find (P4). Called by any
    /// thread.
    pub(crate) fn spread(&self, servers: usize) {
        self.spread.store(servers, Relaxed);
    }

    /// A look at a server that has woken workers in its queue, `load` of them (P1). `now` is the
    /// time in nanoseconds.
    pub(super) fn judge(&self, here: &Here, victim: usize, load: usize, now: u64) -> Verdict {
        let beat = self.beat(here);
        beat.naps.store(NAPS, Relaxed);
        if here.index() < self.spread.load(Relaxed) {
            return Verdict::Steal;
        }
        let queued = self.beats[victim].queued.load(Relaxed);
        let look = &beat.looks[victim];
        let before = look.at.load(Relaxed);
        let elapsed = now.saturating_sub(before);
        let is_known = before != 0 && elapsed < LONGEST;
        if is_known && elapsed < SHORTEST {
            return Verdict::Leave;
        }
        let stood = look.load.load(Relaxed) as u64;
        let came = queued.wrapping_sub(look.queued.load(Relaxed));
        let done = (stood + came).saturating_sub(load as u64);
        look.at.store(now, Relaxed);
        look.queued.store(queued, Relaxed);
        look.load.store(load, Relaxed);
        if !is_known {
            Verdict::LookAgain
        } else if done.saturating_mul(WORTH) < elapsed.saturating_mul(load as u64) {
            Verdict::Steal
        } else {
            Verdict::Leave
        }
    }

    /// How long the calling server, which has no worker, may sleep before it looks again; none if
    /// it is not on patrol.
    pub(super) fn nap(&self, here: &Here) -> Option<Duration> {
        let beat = self.beat(here);
        let left = beat.naps.load(Relaxed);
        if left == 0 {
            self.end(here);
            return None;
        }
        beat.naps.store(left - 1, Relaxed);
        if !beat.is_on_patrol.load(Relaxed) {
            beat.is_on_patrol.store(true, Relaxed);
            self.count.fetch_add(1, Relaxed);
        }
        Some(NAP)
    }

    /// The calling server is not on patrol any more. It looks at all queues after this (P2).
    pub(super) fn end(&self, here: &Here) {
        let beat = self.beat(here);
        if !beat.is_on_patrol.load(Relaxed) {
            return;
        }
        beat.is_on_patrol.store(false, Relaxed);
        beat.naps.store(0, Relaxed);
        self.count.fetch_sub(1, Relaxed);
        // ORDERING(patrol.2): SeqCst, pairs with patrol.1. It is a fence: the loads that follow are
        // relaxed, and an operation would not order them.
        full_fence();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::Verdict::*;
    use super::*;

    fn patrol() -> (Patrol, Here, Here) {
        let mut patrol = Patrol::default();
        patrol.start(2);
        // SAFETY: used on this thread only.
        let here = unsafe { Here::new(0) };
        // SAFETY: as above.
        (patrol, here, unsafe { Here::new(1) })
    }

    /// A time, and one that is a nap later.
    const FIRST: u64 = 1_000_000;
    const LATER: u64 = FIRST + 60_000;

    #[test]
    fn a_queue_that_stands_still_is_stolen_from_at_the_second_look() {
        let (patrol, thief, _) = patrol();
        assert_eq!(patrol.judge(&thief, 1, 1, FIRST), LookAgain);
        // Too early to tell.
        assert_eq!(patrol.judge(&thief, 1, 1, FIRST + SHORTEST - 1), Leave);
        assert_eq!(patrol.judge(&thief, 1, 1, LATER), Steal);
        // The last look is too old to tell anything.
        assert_eq!(patrol.judge(&thief, 1, 1, LATER + LONGEST), LookAgain);
    }

    #[test]
    fn a_server_that_spreads_takes_what_it_finds() {
        let (patrol, thief, _) = patrol();
        patrol.spread(1);
        assert_eq!(patrol.judge(&thief, 1, 1, FIRST), Steal);
        patrol.spread(0);
        assert_eq!(patrol.judge(&thief, 1, 1, FIRST), LookAgain);
        patrol.note_vain_look(&thief, true);
        patrol.note_vain_look(&thief, false);
        assert_eq!(patrol.looks(), PatrolLooks { all: 2, left: 1 });
    }

    #[test]
    fn a_queue_that_drains_fast_is_left() {
        let (patrol, thief, victim) = patrol();
        patrol.note_queued(&victim, 60);
        assert_eq!(patrol.judge(&thief, 1, 60, FIRST), LookAgain);
        patrol.note_queued(&victim, 100);
        assert_eq!(patrol.judge(&thief, 1, 60, LATER), Leave);
        // One in this time: 60 take long.
        patrol.note_queued(&victim, 1);
        assert_eq!(patrol.judge(&thief, 1, 60, LATER + 60_000), Steal);
    }

    #[test]
    fn a_queue_that_drains_and_is_not_filled_is_left() {
        let (patrol, thief, victim) = patrol();
        patrol.note_queued(&victim, 200);
        assert_eq!(patrol.judge(&thief, 1, 200, FIRST), LookAgain);
        assert_eq!(patrol.judge(&thief, 1, 60, LATER), Leave);
        // It grows by workers that yield.
        assert_eq!(patrol.judge(&thief, 1, 70, LATER + 60_000), Steal);
    }

    #[test]
    fn a_long_queue_that_drains_fast_hides_no_short_one() {
        let mut patrol = Patrol::default();
        patrol.start(3);
        // SAFETY: used on this thread only.
        let [thief, busy] = [0, 1].map(|index| unsafe { Here::new(index) });
        assert_eq!(patrol.judge(&thief, 1, 60, FIRST), LookAgain);
        assert_eq!(patrol.judge(&thief, 2, 1, FIRST), LookAgain);
        patrol.note_queued(&busy, 100);
        assert_eq!(patrol.judge(&thief, 1, 60, LATER), Leave);
        assert_eq!(patrol.judge(&thief, 2, 1, LATER), Steal);
    }

    #[test]
    fn a_patrol_ends_after_looks_in_vain_or_when_there_is_work() {
        let (patrol, thief, _) = patrol();
        assert_eq!(patrol.nap(&thief), None);
        assert!(!patrol.will_look());
        patrol.judge(&thief, 1, 5, FIRST);
        for _ in 0..NAPS {
            assert_eq!(patrol.nap(&thief), Some(NAP));
            assert!(patrol.will_look() && patrol.is_on_patrol(&thief));
        }
        assert_eq!(patrol.nap(&thief), None);
        assert!(!patrol.will_look());
        patrol.judge(&thief, 1, 5, LATER);
        assert_eq!(patrol.nap(&thief), Some(NAP));
        patrol.end(&thief);
        assert!(!patrol.will_look());
        assert_eq!(patrol.nap(&thief), None);
    }
}
