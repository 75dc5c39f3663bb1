//! The watch: one kernel thread a runtime that looks after servers which run one worker for long,
//! and sleeps while there are none.
//!
//! A server looks at timers and I/O between two workers. While one computes without end nobody
//! does, unless another server is idle; and what was put into its slot waits. So the watch looks
//! every [`TICK`] at how often each server has looked around. For one that has not since the last
//! time it takes the slot's worker away, fires the timers, has an idle server look at the files,
//! or, if all are busy, waits for files itself. It asks once more for a preemption by rank that
//! could not be, and at once where a worker has woken a more urgent one that is to run in its own
//! place. And it tells of a worker that keeps its server for long, and of a lack of helper threads
//! (`stall`).
//!
//! While all servers sleep the watch does too, after a few looks; the first server that sleeps no
//! longer wakes it, as whoever runs there may never leave. Between what either says and what it
//! sees of the other stand `light` and `heavy`.

use super::stall::Stay;
use super::trim::Trimmer;
use crate::rt::base::clock;
use crate::rt::engine::runtime::{RuntimeState, ready};
use crate::rt::engine::watch::Watch;
use crate::rt::scheduler::Why;
use crate::rt::wait::expire::expire;

/// Between two looks.
const TICK: u64 = 10_000_000;
/// While a server is stuck.
const SHORT_TICK: u64 = 1_000_000;
/// While an urgent worker waits for a server that could not be preempted.
const SHORTEST_TICK: u64 = 100_000;
/// After so many looks at servers that all sleep the watch sleeps too.
const PATIENCE: u32 = 3;

/// The body of its kernel thread.
pub(crate) fn main(shared: &RuntimeState) {
    let mut seen: Vec<Seen> = shared.seats.iter().map(|_| Seen::default()).collect();
    let mut quiet = 0;
    let mut trimmer = Trimmer::new();
    let mut lack = shared.watch.lack();
    while !shared.watch.is_over() {
        shared.watch.begin();
        lack.look(&shared.name, &shared.stalls);
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
        let stuck = seen
            .iter_mut()
            .enumerate()
            .fold(false, |stuck, (index, seen)| {
                look(shared, index, seen) | stuck
            });
        let tick = if shared.preempt_again() {
            SHORTEST_TICK
        } else if stuck {
            SHORT_TICK
        } else {
            tick(&shared.watch)
        };
        trimmer.go_on();
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
    // What was told it just before the end.
    lack.look(&shared.name, &shared.stalls);
}

/// Between two looks, while no server is stuck.
fn tick(watch: &Watch) -> u64 {
    TICK.min(watch.preemption.unwrap_or(TICK))
        .max(SHORTEST_TICK)
}

/// What the last look at a server has seen.
#[derive(Default)]
struct Seen {
    looks: u64,
    stay: Stay,
}

/// Looks at a server. True when it is stuck: it has not looked around since the last time.
fn look(shared: &RuntimeState, index: usize, seen: &mut Seen) -> bool {
    let seat = &shared.seats[index];
    let local = seat.local().filter(|_| !shared.sleepers.is_asleep(index));
    let Some(local) =
        local.filter(|local| std::mem::replace(&mut seen.looks, local.looks()) == local.looks())
    else {
        seen.stay.ended(shared, index);
        return false;
    };
    seen.stay.goes_on(shared, index);
    expire(&seat.timers);
    local.hurry();
    if let Some(worker) = local.take_from_slot() {
        ready(worker, Why::Woken);
    }
    true
}

/// Waits for files, as all servers have something else to do. False when one of them does so after
/// all.
fn stand_in(shared: &RuntimeState, tick: u64) -> bool {
    let next = shared
        .seats
        .iter()
        .map(|seat| seat.timers.next())
        .min()
        .unwrap_or(u64::MAX);
    shared
        .driver
        .poll(clock::until(next.min(clock::now() + tick)))
}
