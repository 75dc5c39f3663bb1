//! The watch: one kernel thread for each runtime. It looks after servers that run one worker for
//! long, and sleeps while there are none.
//!
//! A server checks timers and I/O between two workers. While one worker computes without end, its
//! server does not, unless another server is idle; and the worker in its slot waits. So the watch
//! checks every [`TICK`] how often each server has looked around. For a server that has not since
//! the last time, it takes the slot's worker away, has an idle server look for its other workers,
//! fires the timers, and has an idle server check the files. If all servers are busy, it waits for
//! files itself. It repeats a preemption by rank that could not be done. It does so at once where a
//! worker has woken a more urgent one that is to run in its own place. It preempts workers that
//! keep their servers by page faults (`fault`), and those that others wait for longer than natively
//! (`preempt`). And it reports a worker that keeps its server for long, and a lack of helper
//! threads (`stall`). While servers are awake it also adapts the number of the active ones
//! (`adapt`), and calls a standby where the kernel keeps all of them (`standby`).
//!
//! While all servers sleep the watch sleeps too, after a few checks. The first server that stops
//! sleeping wakes it, as the worker that runs there may never leave. On each side `light` or
//! `heavy` stands between publishing its own state and reading the other's.

use super::adapt::Adapter;
use super::fault::PageFault;
use super::preempt::Preempter;
use super::spread::Spreader;
use super::stall::Stay;
use super::standby::Standby;
use super::trim::Trimmer;
use crate::io::driver::place;
use crate::rt::base::clock;
use crate::rt::engine::runtime::{RuntimeState, ready};
use crate::rt::engine::turns;
use crate::rt::scheduler::Why;

/// Time between two checks.
const TICK: u64 = 10_000_000;
/// The same while a server is stuck.
const SHORT_TICK: u64 = 1_000_000;
/// The same while an urgent worker waits for a server that could not be preempted.
const SHORTEST_TICK: u64 = 100_000;
/// After this many checks that find all servers asleep, the watch sleeps too.
const PATIENCE: u32 = 3;

/// The body of the watch's kernel thread. Calls `ready` once it has a table of descriptors of its
/// own, if there are guests: so it can read files of `/proc` all the time.
pub(crate) fn main(shared: &RuntimeState, ready: impl FnOnce()) {
    let mut seen = Vec::new();
    seen.resize_with(shared.servers.len(), ServerSnapshot::default);
    let has_guests = place::set_apart();
    ready();
    let mut samples = Samples::default();
    let mut quiet = 0;
    let mut trimmer = Trimmer::new();
    let (mut adapter, mut spreader) = (Adapter::new(shared), Spreader::new());
    let (mut standby, mut preempter) = (Standby::default(), Preempter::new(has_guests, seen.len()));
    let mut lack = shared.watch.lack();
    while !shared.watch.is_over() {
        shared.watch.begin();
        lack.look(&shared.name, &shared.stalls);
        adapter.look(shared);
        let soon = spreader.look(shared);
        quiet = if shared.sleepers.are_all_asleep() {
            quiet + 1
        } else {
            0
        };
        if quiet >= PATIENCE {
            let are_asleep = || shared.sleepers.are_all_asleep();
            shared.watch.sleep_while_all(are_asleep, trimmer.next());
            quiet = 0;
            trimmer.go_on();
            continue;
        }
        preempter.look(shared);
        let stuck = seen
            .iter_mut()
            .enumerate()
            .fold(false, |stuck, (index, seen)| {
                look(shared, index, seen, &mut preempter) | stuck
            });
        standby.look(shared, |index| seen[index].is_stuck);
        let faults = seen.iter().any(|seen| seen.fault.is_recent());
        if let Some(index) = samples.next(seen.len(), faults).filter(|_| has_guests) {
            look_for_guests(shared, index, &mut seen[index]);
        }
        let closely = stuck || faults;
        let tick = tick(shared, closely).min(preempter.interval()).min(soon);
        trimmer.go_on();
        pause(shared, tick, stuck, &mut preempter);
    }
    // A lack that was counted just before the end.
    lack.look(&shared.name, &shared.stalls);
}

/// Sleeps until the next check. Meanwhile it sees to deadlines that have passed.
fn pause(shared: &RuntimeState, tick: u64, stuck: bool, preempter: &mut Preempter) {
    let end = clock::now() + tick;
    let mut left = tick;
    while left > 0 && !shared.watch.is_called() {
        sleep(shared, left.min(preempter.time_left(shared)), stuck);
        preempter.look_at_deadlines(shared);
        left = end.saturating_sub(clock::now());
    }
}

/// Sleeps, or waits for files if all servers are busy.
fn sleep(shared: &RuntimeState, tick: u64, stuck: bool) {
    let all_busy = shared.sleepers.asleep() == 0;
    if all_busy && shared.driver.has_sources() && (stuck || shared.ranked) {
        if !stand_in(shared, tick) {
            shared.watch.sleep(tick);
        }
    } else {
        if !all_busy {
            shared.sleepers.cover_driver(&*shared.driver);
        }
        shared.watch.sleep(tick);
    }
}

/// Time until the next check; a short one if a server is to be watched closely.
fn tick(shared: &RuntimeState, closely: bool) -> u64 {
    if shared.preempt_again() {
        SHORTEST_TICK
    } else if closely {
        SHORT_TICK
    } else {
        TICK.min(shared.watch.preemption.unwrap_or(TICK))
            .max(SHORTEST_TICK)
    }
}

/// The findings of the last check of a server.
#[derive(Default)]
struct ServerSnapshot {
    looks: u64,
    is_stuck: bool,
    stay: Stay,
    fault: PageFault,
}

/// Which server is checked for guests next. Such a check costs some system calls.
#[derive(Default)]
struct Samples {
    next: usize,
    at: u64,
}

impl Samples {
    /// The index of that server, if it is time: each check is one where faults have kept servers.
    fn next(&mut self, servers: usize, closely: bool) -> Option<usize> {
        let now = clock::now();
        if !closely && now - self.at < TICK {
            return None;
        }
        self.at = now;
        self.next = (self.next + 1) % servers;
        Some(self.next)
    }
}

/// Checks a server. True if it is stuck: it has not looked around since the last time.
fn look(
    shared: &RuntimeState,
    index: usize,
    seen: &mut ServerSnapshot,
    preempter: &mut Preempter,
) -> bool {
    let server = &shared.servers[index];
    let local = server.local().filter(|_| !shared.sleepers.is_asleep(index));
    let stuck =
        local.filter(|local| std::mem::replace(&mut seen.looks, local.looks()) == local.looks());
    seen.is_stuck = stuck.is_some();
    let Some(local) = stuck else {
        seen.stay.ended(shared, index);
        return false;
    };
    seen.stay.goes_on(shared, index);
    seen.fault.look(shared, index);
    preempter.fire(shared, index);
    local.countdown.end_from_outside();
    if let Some(worker) = local.take_from_slot() {
        ready(worker, Why::Woken);
    } else if shared.scheduler.keeps_work(index) || shared.scheduler.has_outside() {
        // No server was woken for a worker that has yielded while there was one in the slot; or
        // those that were woken do not come to run (S6 of `idle`).
        wake_another(shared);
    }
    true
}

/// Wakes a server, unless one searches.
fn wake_another(shared: &RuntimeState) {
    if !shared.sleepers.nobody_is_needed() {
        shared.sleepers.wake_one(&*shared.driver);
    }
}

/// The checks for guests: of this server, and of their processor time.
fn look_for_guests(shared: &RuntimeState, index: usize, seen: &mut ServerSnapshot) {
    if !shared.sleepers.is_asleep(index) {
        seen.fault.sample(shared, index);
    }
    turns::sample();
}

/// Waits for files, as all servers are busy. False if a server polls after all.
fn stand_in(shared: &RuntimeState, tick: u64) -> bool {
    let next = shared
        .servers
        .iter()
        .map(|server| server.timers.next())
        .min()
        .unwrap_or(u64::MAX);
    shared
        .driver
        .poll(clock::until(next.min(clock::now() + tick)))
}
