//! Preemption for workers that are to run soon while all servers compute, under `umcg run`.
//!
//! The tick preempts a worker after some 10 ms. A thread that is woken, or that has waited until a
//! deadline, would run so much later than natively, where the kernel lets a thread that slept run
//! before those that compute. Programs whose threads take turns by such waits (Python's interpreter
//! lock) would take them rarely, and some threads never. So the watch preempts a worker earlier:
//!
//! - *Deadlines*: the watch wakes when the next one is due. If its server has not checked by then,
//!   the watch makes the waiters ready, and preempts the worker that runs there if that computes:
//!   it goes on there after a preemption. Another one mostly runs for a moment, and has [`GRACE`]
//!   to end its turn. Preempted, it would have to wait for those that compute.
//! - *Ready workers*: if a worker has kept its server for [`SLICE`] or longer, and others that were
//!   not preempted themselves wait for that server or for any, the watch preempts it.
//!
//! Work stealing then runs those others next, as it serves preempted workers last. The other
//! schedulers have one queue, in which a deadline's waiter takes its turn.
//!
//! The wake-ups for deadlines are none of the watch's checks, whose interval says which server is
//! stuck.
//!
//! When the watch looks varies at random. At fixed times, threads that all wait for 5 ms again and
//! again would fall into step (Floyd, Jacobson, "The synchronization of periodic routing messages",
//! 1994), and those of one step would come too late each time: of six threads that share an
//! interpreter's lock, one would never have it.
//!
//! None of this has to be exact. A preemption is right at any time, as the tick's is. Deadlines
//! fire under the lock of their wheel, by whichever thread comes first. The watch reads hints of
//! servers and queues: a worker that it misses waits until the next check, or for the tick.

use super::kernel_call::{ThreadState, of_thread};
use crate::rt::base::clock;
use crate::rt::base::rank::Ranked;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server::ServerState;
use crate::rt::task::Task;
use crate::rt::wait::expire::expire;
use std::ops::Range;

/// How many nanoseconds late a server may be.
const PATIENCE: Range<u64> = 50_000..800_000;
/// The least time between two looks at deadlines.
const LEAST: u64 = 100_000;
/// How long a worker may still run that was not preempted before.
const GRACE: u64 = 200_000;
/// For how many nanoseconds a worker keeps its server while others wait, at least.
const SLICE: u64 = 900_000;
/// Where workers were preempted not longer ago than this, it looks closely.
const RECENT: u64 = 100_000_000;
/// How soon it looks again then: while others wait, and while none does.
const SHORT: u64 = 1_000_000;
const USUAL: Range<u64> = SHORT..2_000_000;

/// The watch's part in it. Without guests it preempts nobody.
pub(super) struct Preempter {
    has_guests: bool,
    /// How late a server may be at present.
    patience: u64,
    /// Of each server, the turn in which a deadline has passed there, if its worker was spared.
    spared: Vec<Option<u64>>,
    /// The last check found others that wait.
    others_wait: bool,
    /// When it last looked, and how many workers had begun to run on each server by then.
    looked_at: u64,
    turns: Vec<u64>,
    /// How many workers the servers had preempted, and when that last changed.
    preemptions: u64,
    preempted_at: u64,
}

impl Preempter {
    pub(super) fn new(has_guests: bool, servers: usize) -> Preempter {
        Preempter {
            has_guests,
            patience: PATIENCE.start,
            spared: vec![None; servers],
            others_wait: false,
            looked_at: 0,
            turns: vec![0; servers],
            preemptions: 0,
            preempted_at: 0,
        }
    }

    fn may_preempt(&self, shared: &RuntimeState) -> bool {
        self.has_guests && shared.watch.preemption.is_some()
    }

    fn is_needed(&self, shared: &RuntimeState) -> bool {
        self.may_preempt(shared) && shared.sleepers.asleep() == 0
    }

    /// One of the watch's checks.
    pub(super) fn look(&mut self, shared: &RuntimeState) {
        self.others_wait = false;
        if !self.may_preempt(shared) {
            return;
        }
        self.look_at_preemptions(shared);
        let now = clock::now();
        if now - self.looked_at < SLICE {
            return;
        }
        self.looked_at = now;
        let mut for_any = shared.scheduler.has_outside();
        for index in (0..shared.servers.len()).filter(|index| !shared.sleepers.is_asleep(*index)) {
            let (Some(server), Some(local)) = (
                shared.servers[index].server(),
                shared.servers[index].local(),
            ) else {
                continue;
            };
            let for_this = local.keeps_slot() || shared.scheduler.keeps_work(index);
            self.others_wait |= for_this || for_any;
            let turns = server.turns();
            if std::mem::replace(&mut self.turns[index], turns) != turns {
                continue;
            }
            if shared.sleepers.asleep() == 0 && (for_this || std::mem::take(&mut for_any)) {
                preempt(shared, index);
            }
        }
    }

    fn look_at_preemptions(&mut self, shared: &RuntimeState) {
        let states = || shared.servers.iter().filter_map(|server| server.local());
        let preemptions = states().map(ServerState::preemptions).sum();
        if std::mem::replace(&mut self.preemptions, preemptions) != preemptions {
            self.preempted_at = clock::now();
        }
        if shared.scheduler.has_preempted() {
            // It may be time for one, where the others' turns are long.
            states().for_each(|state| state.countdown.end_from_outside());
        }
    }

    /// How soon it is to look again. Before the first preemption, which is the tick's, others wait
    /// for that at most.
    pub(super) fn interval(&self) -> u64 {
        let is_recent = self.preempted_at != 0 && clock::now() - self.preempted_at < RECENT;
        match (is_recent, self.others_wait) {
            (false, _) => u64::MAX,
            (true, false) => at_random(USUAL),
            (true, true) => SHORT,
        }
    }

    /// Makes the waiters ready whose deadline has passed on this server, which does not check. If
    /// there are any, and no server is free, they run next there. The worker that runs is preempted
    /// at once if it mostly computes.
    pub(super) fn fire(&mut self, shared: &RuntimeState, index: usize) {
        if !expire(&shared.servers[index].timers) || !self.is_needed(shared) {
            return;
        }
        let shared_server = &shared.servers[index];
        let (Some(server), Some(local)) = (shared_server.server(), shared_server.local()) else {
            return;
        };
        local.countdown.end_from_outside();
        let turn = server.turns();
        let computes = |worker| shared.scheduler.mostly_computes(index, Task::of(worker));
        if server.current().is_some_and(computes) {
            preempt(shared, index);
        } else {
            self.spared[index] = Some(turn);
        }
    }

    /// The same for all servers that are late, if none is free. Workers that were spared are
    /// preempted if they still run.
    pub(super) fn look_at_deadlines(&mut self, shared: &RuntimeState) {
        if !self.is_needed(shared) {
            return;
        }
        let now = clock::now();
        for index in 0..shared.servers.len() {
            let turn = shared.servers[index].server().map(|server| server.turns());
            if self.spared[index]
                .take()
                .is_some_and(|spared| Some(spared) == turn)
            {
                preempt(shared, index);
            }
            if self.late_at(shared, index) <= now {
                self.fire(shared, index);
            }
        }
        self.patience = at_random(PATIENCE);
    }

    /// How long the watch may sleep until a server is late, in nanoseconds.
    pub(super) fn time_left(&self, shared: &RuntimeState) -> u64 {
        if !self.is_needed(shared) {
            return u64::MAX;
        }
        if self.spared.iter().any(Option::is_some) {
            return GRACE;
        }
        let next = (0..shared.servers.len()).map(|index| self.late_at(shared, index));
        next.min()
            .unwrap_or(u64::MAX)
            .saturating_sub(clock::now())
            .max(LEAST)
    }

    /// When the server is late, by the clock.
    fn late_at(&self, shared: &RuntimeState, index: usize) -> u64 {
        let next = shared.servers[index].timers.next();
        next.saturating_add(self.patience)
    }
}

/// A number in the range, from the lower digits of the time.
fn at_random(range: Range<u64>) -> u64 {
    const MIX: u64 = 0x9e37_79b9_7f4a_7c15; // Steele, Lea, Flood: splitmix
    let mixed = clock::now().wrapping_mul(MIX) >> 32;
    range.start + mixed % (range.end - range.start)
}

/// Preempts the worker that runs there, before its tick. A signal would not end a wait in the
/// kernel. If the wait is for a page in the midst of a call, the kernel would look at the signal
/// again and again. Such servers are for `fault` and `standby`.
fn preempt(shared: &RuntimeState, index: usize) {
    let shared_server = &shared.servers[index];
    let (Some(server), Some(local)) = (shared_server.server(), shared_server.local()) else {
        return;
    };
    if of_thread(server.carried_by()) == ThreadState::Runs {
        local.note_asked();
        shared.preempt(index);
    }
}
