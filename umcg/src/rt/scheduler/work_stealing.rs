//! The default: each server has its own workers, and takes some of another server's when it has
//! none.
//!
//! A server's part, in the order in which it is searched:
//!
//! | | filled by | taken by its server | by others |
//! |---|---|---|---|
//! | woken | workers woken, yielded, back from the kernel | oldest first | oldest first |
//! | fresh | workers that have not run yet | newest first | oldest first |
//!
//! Before both comes the server's slot ([`Scheduler::has_slots`]), which holds the last worker made
//! ready there. A worker that falls out of the slot comes here.
//!
//! - *Fresh workers last in, first out*: a tree of forks is walked in depth, so few are alive at a
//!   time. Thieves take the oldest worker, the root of the largest part of the tree (Blumofe,
//!   Leiserson, "Scheduling multithreaded computations by work stealing", 1999).
//! - *Preempted workers last* ([`preempted`](super::preempted)): others mostly run for a moment.
//! - *Fairness*: woken workers are served in their order. Every [`SHARE`]th turn goes to a fresh
//!   worker, and every [`LEAP`] the oldest one gets a turn. When the server looks around, four
//!   come first by turns: a worker bound to the server, one from outside, the oldest fresh one, and
//!   the oldest preempted one. The oldest are served by the clock and not by turns: a fresh one
//!   begins another branch of a tree each time, which has to be kept, and a preempted one keeps the
//!   server for a tick. So a worker runs after a number of turns that is bounded by how many
//!   workers stand before it.
//! - *Workers from outside* (a plain thread, I/O, timers of another runtime) come through one
//!   shared queue.
//!
//! A server touches its own part without a locked operation. A thief pays for both with a system
//! call ([`PerServer`]).

use super::patrol::Patrol;
use super::preempted::{FULL_TURN, Preempted, PreemptedTurns};
use super::shared::{Bound, SharedQueue};
use super::{Scheduler, Wake, Why};
use crate::rt::base::clock;
use crate::rt::base::here::Here;
use crate::rt::base::per_server::{Load, PerServer};
use crate::rt::base::sync::{AtomicUsize, Ordering::*};
use crate::rt::task::Task;
use crate::rt::task::runnable::{Queue, Runnable};
use std::time::{Duration, Instant};

/// How often, in turns, a fresh worker runs although there are woken ones.
const SHARE: u32 = 8;
/// How often the oldest fresh worker runs.
const LEAP: Duration = Duration::from_millis(5);
/// The most workers that are stolen at a time.
const LOOT: usize = 128;
/// A theft of fewer workers is hardly worth it, as it stops the server that is stolen from. A thief
/// that got no more than that last time waits until there are this many. It waits for a limited
/// number of looks, which grows with each such theft.
const WORTHWHILE: usize = 16;
const MOST_LOOKS: u32 = 32;
/// Pauses between two looks. Each look takes the cache line from the server that is looked at.
const PAUSES: u32 = 32;

#[derive(Default)]
struct LocalQueues {
    turn: u32,
    /// The next turn is for the workers that are served rarely.
    looks_around: bool,
    /// Which of the rarely served kinds comes first then.
    rarely: u32,
    /// When the oldest fresh worker last ran, or when there last was none.
    leapt: Option<Instant>,
    preempted: PreemptedTurns,
    /// How often it checks whether a theft has become worthwhile.
    looks: u32,
    woken: Queue,
    fresh: Queue,
}

impl Load for LocalQueues {
    /// How many workers a thief would find.
    fn load(&self) -> usize {
        self.woken.len() + self.fresh.len()
    }
}

impl LocalQueues {
    #[inline]
    fn next(&mut self) -> Option<Runnable> {
        if self.turn % SHARE == 0 {
            if let Some(worker) = self.fresh.pop_back() {
                return Some(worker);
            }
        }
        self.woken.pop_front().or_else(|| self.fresh.pop_back())
    }

    /// The oldest fresh worker, if its time has come.
    fn leap(&mut self) -> Option<Runnable> {
        let now = Instant::now();
        if !self.fresh.is_empty() && self.leapt.is_some_and(|leapt| now - leapt < LEAP) {
            return None;
        }
        self.leapt = Some(now);
        self.fresh.pop_front()
    }

    fn take_all(&mut self) -> Queue {
        let mut all = std::mem::take(&mut self.woken);
        all.append(&mut self.fresh);
        all
    }

    /// Half of the workers: the oldest fresh ones, or else woken ones.
    fn loot(&mut self) -> Queue {
        let half = self.load().div_ceil(2).min(LOOT);
        let mut loot = self.fresh.split_front(half);
        let mut more = self.woken.split_front(half - loot.len());
        loot.append(&mut more);
        loot
    }
}

/// The default scheduler of a runtime.
#[derive(Default)]
pub struct WorkStealing {
    own: Option<PerServer<LocalQueues>>,
    outside: SharedQueue,
    preempted: Preempted,
    /// Where the next thief looks first.
    rotation: AtomicUsize,
    bound: Bound,
    /// If idle servers go on patrol, in place of being woken for each worker.
    patrol: Option<Patrol>,
}

impl WorkStealing {
    /// A scheduler without workers.
    pub fn new() -> WorkStealing {
        WorkStealing::default()
    }

    /// One whose idle servers go on patrol.
    #[cfg_attr(
        not(all(feature = "intercept", target_arch = "x86_64")),
        allow(dead_code, reason = "for guests")
    )]
    pub(crate) fn with_patrol() -> WorkStealing {
        WorkStealing {
            patrol: Some(Patrol::default()),
            ..WorkStealing::default()
        }
    }

    /// The patrols of idle servers, if they go on patrol.
    pub(crate) fn patrol(&self) -> Option<&Patrol> {
        self.patrol.as_ref()
    }

    /// Whether this server has workers in its queues.
    pub(crate) fn keeps_work(&self, index: usize) -> bool {
        self.own().hint(index) > 0
    }

    /// Whether there are workers from outside.
    pub(crate) fn has_outside(&self) -> bool {
        !self.outside.is_empty()
    }

    /// Whether preempted workers wait.
    pub(crate) fn has_preempted(&self) -> bool {
        !self.preempted.is_empty()
    }

    /// A preempted worker, if it is time for one.
    fn preempted_in_time(&self, here: &Here) -> Option<Runnable> {
        let first = self.preempted.first();
        let is_time = || {
            let now = Instant::now();
            self.own()
                .own(here, |own| own.preempted.is_time(first, now))
        };
        (!self.preempted.is_empty() && is_time())
            .then(|| self.preempted.next(here.index()))
            .flatten()
    }

    /// Whether this worker, which runs on that server, mostly computes: others are to run first.
    pub(crate) fn mostly_computes(&self, server: usize, task: &Task) -> bool {
        self.preempted.goes_on(server, task)
    }

    /// Puts a worker away that the caller's server has preempted.
    #[cold]
    fn put_preempted(&self, worker: Runnable, here: Option<&Here>) {
        let now = Instant::now();
        let turn = |here| {
            self.own()
                .own(here, |own| own.preempted.note_preempted(now))
        };
        self.preempted.put(worker, here.map_or(FULL_TURN, turn));
    }

    /// A worker yields that gives way to preempted ones, too. Returns it if there are none.
    pub(crate) fn put_last(&self, worker: Runnable) -> Option<Runnable> {
        if self.preempted.is_empty() || worker.server().is_some() {
            return Some(worker);
        }
        self.preempted.put_last(worker);
        None
    }

    /// The worker that this server preempts next has not run until its tick.
    pub(crate) fn note_early(&self, here: &Here) {
        self.own().own(here, |own| own.preempted.note_early());
    }

    /// Like [`Scheduler::next`], where the slot has a worker: takes none that may wait.
    pub(crate) fn next_beside_slot(&self, here: &Here) -> Option<Runnable> {
        self.next_of(here, true)
    }

    #[inline(always)]
    fn next_of(&self, here: &Here, has_slot: bool) -> Option<Runnable> {
        let (next, looks_around) = self.own().own(here, |own| {
            if own.looks_around {
                own.looks_around = false;
                return (None, true);
            }
            own.turn = own.turn.wrapping_add(1);
            (own.next(), false)
        });
        if looks_around {
            return self.rarely_served(here, has_slot);
        }
        let next = next.or_else(|| self.look_elsewhere(here, has_slot));
        if let (Some(patrol), Some(_)) = (&self.patrol, &next) {
            patrol.note_served(here);
        }
        next
    }

    #[inline(always)]
    fn own(&self) -> &PerServer<LocalQueues> {
        match &self.own {
            Some(own) => own,
            None => unreachable!("a runtime starts its scheduler first"),
        }
    }

    /// Serves first the workers that otherwise come last: those bound to the server, those from
    /// outside, the oldest, and those preempted. They come by turns, as each of the four kinds may
    /// have workers all the time.
    #[cold]
    #[inline(never)]
    fn rarely_served(&self, here: &Here, has_slot: bool) -> Option<Runnable> {
        let first = self.own().own(here, |own| {
            own.rarely = own.rarely.wrapping_add(1);
            own.rarely
        });
        let of_class = |class| match class % 4 {
            0 => self.bound.of(here.index()).pop(),
            1 => self.outside.pop(),
            2 => self.preempted_in_time(here),
            _ => self.own().own(here, LocalQueues::leap),
        };
        let rare = (0..4).find_map(|step| of_class(first.wrapping_add(step)));
        rare.or_else(|| self.own().own(here, LocalQueues::next))
            .or_else(|| self.look_elsewhere(here, has_slot))
    }

    #[cold]
    #[inline(never)]
    fn look_elsewhere(&self, here: &Here, has_slot: bool) -> Option<Runnable> {
        if let Some(bound) = self.bound.of(here.index()).pop() {
            return Some(bound);
        }
        if !self.outside.is_empty() {
            let share = self.outside.take(LOOT);
            if !share.is_empty() {
                return self.keep(here, share);
            }
        }
        if has_slot {
            return self.preempted_in_time(here);
        }
        if let Some(preempted) = self.preempted.next(here.index()) {
            return Some(preempted);
        }
        if let Some(patrol) = &self.patrol {
            return self.steal_on_patrol(here, patrol);
        }
        let servers = self.own().servers();
        let start = self.rotation.fetch_add(1, Relaxed);
        for index in (0..servers)
            .map(|step| (start + step) % servers)
            .filter(|index| *index != here.index())
        {
            if self.own().hint(index) == 0 {
                continue;
            }
            self.wait_until_worthwhile(here, index);
            let loot = self.own().try_other(index, LocalQueues::loot);
            if let Some(loot) = loot.filter(|loot| !loot.is_empty()) {
                let few = loot.len() < WORTHWHILE / 2;
                self.own().own(here, |own| {
                    own.looks = if few {
                        (own.looks * 2 + 1).min(MOST_LOOKS)
                    } else {
                        own.looks / 2
                    }
                });
                return self.keep(here, loot);
            }
        }
        None
    }

    /// Takes half of the workers of the server that has the most, of those where that pays.
    fn steal_on_patrol(&self, here: &Here, patrol: &Patrol) -> Option<Runnable> {
        let now = clock::now();
        let mut found = false;
        let victim = (0..self.own().servers())
            .filter(|index| *index != here.index())
            .map(|index| (self.own().hint(index), index))
            .filter(|(load, _)| *load > 0)
            .inspect(|_| found = true)
            .filter(|(load, index)| patrol.is_worthwhile(here, *index, *load, now))
            .max();
        let Some((_, victim)) = victim else {
            patrol.note_vain_look(here, found);
            return None;
        };
        let loot = self.own().try_other(victim, LocalQueues::loot)?;
        self.keep(here, loot)
    }

    /// Waits briefly for more to steal from a server that makes workers one by one.
    fn wait_until_worthwhile(&self, here: &Here, index: usize) {
        let looks = self.own().own(here, |own| own.looks);
        for _ in 0..looks {
            if !(1..WORTHWHILE).contains(&self.own().hint(index)) {
                break;
            }
            (0..PAUSES).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Keeps all of them but the first, and returns that.
    fn keep(&self, here: &Here, mut workers: Queue) -> Option<Runnable> {
        let first = workers.pop_front();
        self.own().own(here, |own| own.woken.append(&mut workers));
        first
    }
}

impl Scheduler for WorkStealing {
    fn start(&mut self, servers: usize) {
        self.own = Some(PerServer::new(servers, |_| LocalQueues::default()));
        self.bound.start(servers, Queue::new);
        self.preempted.start(servers);
        if let Some(patrol) = &mut self.patrol {
            patrol.start(servers);
        }
    }

    #[inline(always)]
    fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake {
        let worker = match self.bound.put(worker) {
            Ok(wake) => return wake,
            Err(worker) => worker,
        };
        if why == Why::Preempted {
            self.put_preempted(worker, here);
            return Wake::One;
        }
        let Some(here) = here else {
            self.outside.push(worker);
            return Wake::One;
        };
        let is_alone = self.own().own(here, |own| {
            match why {
                Why::Spawned => own.fresh.push_back(worker),
                _ => own.woken.push_back(worker),
            }
            why == Why::Yielded && own.load() == 1
        });
        // A worker that yielded when there is no other comes back at once; or after the one in the
        // slot. If that one keeps the server, the watch sees to it.
        let is_seen = || {
            let patrol = self.patrol.as_ref();
            why != Why::Spawned && patrol.is_some_and(Patrol::will_look)
        };
        if is_alone || is_seen() {
            Wake::Nobody
        } else {
            Wake::One
        }
    }

    #[inline(always)]
    fn next(&self, here: &Here) -> Option<Runnable> {
        self.next_of(here, false)
    }

    fn has_work(&self, here: &Here) -> bool {
        let counts = |index: &usize| match &self.patrol {
            // It looks again by itself.
            Some(patrol) if patrol.is_on_patrol(here) => *index == here.index(),
            _ => true,
        };
        !self.outside.is_empty()
            || !self.preempted.is_empty()
            || !self.bound.of(here.index()).is_empty()
            || (0..self.own().servers())
                .filter(counts)
                .any(|index| self.own().hint(index) > 0)
    }

    fn next_bound(&self, here: &Here) -> Option<Runnable> {
        self.bound.of(here.index()).pop()
    }

    fn has_bound(&self, here: &Here) -> bool {
        !self.bound.of(here.index()).is_empty() || self.own().hint(here.index()) > 0
    }

    fn give_away(&self, here: &Here) -> Wake {
        if self.own().hint(here.index()) == 0 {
            return Wake::Nobody;
        }
        self.outside
            .put(self.own().own(here, LocalQueues::take_all));
        Wake::One
    }

    fn nap(&self, here: &Here) -> Option<Duration> {
        self.patrol.as_ref()?.nap(here)
    }

    fn end_naps(&self, here: &Here) {
        if let Some(patrol) = &self.patrol {
            patrol.end(here);
        }
    }

    fn look_around(&self, here: &Here) {
        self.own().own(here, |own| own.looks_around = true);
    }

    fn has_slots(&self) -> bool {
        true
    }
}
