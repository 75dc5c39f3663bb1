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
//!   Leiserson, "Scheduling multithreaded computations by work stealing", 1999). How long it will
//!   run nothing tells, so an idle server takes fresh workers wherever it finds them.
//! - *Woken workers stay* where they are run soon. Workers that wake each other in turn are better
//!   off on one server: [`patrol`](super::patrol) judges.
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

use super::patrol::{self, Patrol, Verdict};
use super::preempted::{FULL_TURN, Preempted, PreemptedTurns};
use super::shared::{Bound, SharedQueue};
use super::{Scheduler, Wake, Why};
use crate::rt::base::clock;
use crate::rt::base::here::Here;
use crate::rt::base::per_server::{Load, PerServer};
use crate::rt::base::sync::{AtomicUsize, Ordering::*, pause, pause_for};
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

/// How many workers a thief would find, of both kinds.
#[derive(Clone, Copy)]
struct Loads {
    woken: usize,
    fresh: usize,
}

impl Loads {
    const HALF: u32 = usize::BITS / 2;

    /// Both in one word. It is 0 only if both are.
    fn into_word(self) -> usize {
        self.fresh << Loads::HALF | self.woken
    }

    fn from_word(word: usize) -> Loads {
        Loads {
            woken: word & ((1 << Loads::HALF) - 1),
            fresh: word >> Loads::HALF,
        }
    }
}

impl Load for LocalQueues {
    fn load(&self) -> usize {
        let (woken, fresh) = (self.woken.len(), self.fresh.len());
        Loads { woken, fresh }.into_word()
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
        let now = clock::instant_now();
        if !self.fresh.is_empty() && self.leapt.is_some_and(|leapt| now - leapt < LEAP) {
            return None;
        }
        self.leapt = Some(now);
        self.fresh.pop_front()
    }

    /// Whether there is one worker, and no more.
    fn has_one(&self) -> bool {
        self.woken.len() + self.fresh.len() == 1
    }

    fn take_all(&mut self) -> Queue {
        let mut all = std::mem::take(&mut self.woken);
        all.append(&mut self.fresh);
        all
    }
}

/// The oldest half of the workers.
fn loot(queue: &mut Queue) -> Queue {
    queue.split_front(queue.len().div_ceil(2).min(LOOT))
}

/// Whether woken workers are to be stolen shows at a second look.
struct LookAgain;

/// The default scheduler of a runtime.
#[derive(Default)]
pub struct WorkStealing {
    own: Option<PerServer<LocalQueues>>,
    outside: SharedQueue,
    preempted: Preempted,
    /// Where the next thief looks first.
    rotation: AtomicUsize,
    bound: Bound,
    patrol: Patrol,
}

impl WorkStealing {
    /// A scheduler without workers.
    pub fn new() -> WorkStealing {
        WorkStealing::default()
    }

    /// The patrols of idle servers.
    pub(crate) fn patrol(&self) -> &Patrol {
        &self.patrol
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
            let now = clock::instant_now();
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
        let now = clock::instant_now();
        let turn = |here| {
            self.own()
                .own(here, |own| own.preempted.note_preempted(now))
        };
        self.preempted.put(worker, here.map_or(FULL_TURN, turn));
    }

    /// The worker that yields next on this server waits for another one. So its turn counts as that
    /// of one that was woken.
    pub(crate) fn note_waits(&self, here: &Here) {
        self.patrol.note_queued(here, 1);
    }

    /// A worker yields that gives way to preempted ones, too: a thread of a program, which mostly
    /// waits for another one. Returns it if there are none.
    pub(crate) fn put_last(&self, worker: Runnable, here: &Here) -> Option<Runnable> {
        if self.preempted.is_empty() || worker.server().is_some() {
            self.note_waits(here);
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
        next.or_else(|| self.look_elsewhere(here, has_slot))
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
                return self.keep_woken(here, share);
            }
        }
        if has_slot {
            return self.preempted_in_time(here);
        }
        if let Some(preempted) = self.preempted.next(here.index()) {
            return Some(preempted);
        }
        self.steal(here)
    }

    fn steal(&self, here: &Here) -> Option<Runnable> {
        let steal_fresh = || self.steal_fresh(here);
        steal_fresh().or_else(|| match self.steal_woken(here) {
            Ok(stolen) => stolen,
            Err(LookAgain) => {
                pause_for(patrol::BETWEEN);
                steal_fresh().or_else(|| self.steal_woken(here).ok().flatten())
            }
        })
    }

    fn loads(&self, index: usize) -> Loads {
        Loads::from_word(self.own().hint(index))
    }

    /// Takes half of the fresh workers of the first server that has some.
    fn steal_fresh(&self, here: &Here) -> Option<Runnable> {
        let servers = self.own().servers();
        let start = self.rotation.fetch_add(1, Relaxed);
        for index in (0..servers)
            .map(|step| (start + step) % servers)
            .filter(|index| *index != here.index())
        {
            if self.loads(index).fresh == 0 {
                continue;
            }
            self.wait_until_worthwhile(here, index);
            let stolen = self.own().try_other(index, |own| loot(&mut own.fresh));
            let Some(mut loot) = stolen.filter(|loot| !loot.is_empty()) else {
                continue;
            };
            let few = loot.len() < WORTHWHILE / 2;
            let first = loot.pop_front();
            self.own().own(here, |own| {
                own.looks = if few {
                    (own.looks * 2 + 1).min(MOST_LOOKS)
                } else {
                    own.looks / 2
                };
                // The oldest first here, too. The others stay if that takes a moment: they have
                // been moved once.
                own.woken.append(&mut loot);
            });
            return first;
        }
        None
    }

    /// Takes half of the woken workers of the server that has the most, of those where that pays.
    fn steal_woken(&self, here: &Here) -> Result<Option<Runnable>, LookAgain> {
        let now = clock::now();
        let (mut found, mut is_clear) = (false, true);
        let victim = (0..self.own().servers())
            .filter(|index| *index != here.index())
            .map(|index| (self.loads(index).woken, index))
            .filter(|(load, _)| *load > 0)
            .inspect(|_| found = true)
            .filter(|(load, index)| {
                let verdict = self.patrol.judge(here, *index, *load, now);
                is_clear &= verdict != Verdict::LookAgain;
                verdict == Verdict::Steal
            })
            .max();
        let Some((_, victim)) = victim else {
            if !is_clear {
                return Err(LookAgain);
            }
            self.patrol.note_vain_look(here, found);
            return Ok(None);
        };
        let loot = self.own().try_other(victim, |own| loot(&mut own.woken));
        Ok(loot.and_then(|loot| self.keep_woken(here, loot)))
    }

    /// Waits briefly for more to steal from a server that makes workers one by one.
    fn wait_until_worthwhile(&self, here: &Here, index: usize) {
        let looks = self.own().own(here, |own| own.looks);
        for _ in 0..looks {
            if !(1..WORTHWHILE).contains(&self.loads(index).fresh) {
                break;
            }
            pause(PAUSES);
        }
    }

    /// Keeps all of them but the first, and returns that.
    fn keep_woken(&self, here: &Here, mut workers: Queue) -> Option<Runnable> {
        let first = workers.pop_front();
        self.patrol.note_queued(here, workers.len());
        self.own().own(here, |own| own.woken.append(&mut workers));
        first
    }
}

impl Scheduler for WorkStealing {
    fn start(&mut self, servers: usize) {
        self.own = Some(PerServer::new(servers, |_| LocalQueues::default()));
        self.bound.start(servers, Queue::new);
        self.preempted.start(servers);
        self.patrol.start(servers);
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
        if why == Why::Woken {
            self.patrol.note_queued(here, 1);
        }
        self.own().own(here, |own| {
            if why == Why::Spawned {
                own.fresh.push_back(worker);
                return Wake::One;
            }
            own.woken.push_back(worker);
            // A worker that yielded when there is no other comes back at once; or after the one in
            // the slot. If that one keeps the server, the watch sees to it.
            if why == Why::Yielded && own.has_one() {
                return Wake::Nobody;
            }
            Wake::UnlessNapping
        })
    }

    #[inline(always)]
    fn next(&self, here: &Here) -> Option<Runnable> {
        self.next_of(here, false)
    }

    fn has_work(&self, here: &Here) -> bool {
        // On patrol it looks again by itself.
        let counts = |index: &usize| *index == here.index() || !self.patrol.is_on_patrol(here);
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
        self.patrol.nap(here)
    }

    fn will_look(&self) -> bool {
        self.patrol.will_look()
    }

    fn end_naps(&self, here: &Here) {
        self.patrol.end(here);
    }

    fn look_around(&self, here: &Here) {
        self.own().own(here, |own| own.looks_around = true);
    }

    fn has_slots(&self) -> bool {
        true
    }
}
