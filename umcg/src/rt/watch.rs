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

use super::runtime::{Seat, Shared, ready};
use super::scheduler::Why;
use super::stall::{Lack, Stay};
use super::time;
use super::trim::Trimmer;
use crate::io::driver::Driver;
use rustix::thread::futex::{self, Flags};
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::Duration;
use umcg_core::asymmetric;

/// Between two looks.
const TICK: u64 = 10_000_000;
/// While a server is stuck.
const SHORT_TICK: u64 = 1_000_000;
/// While an urgent worker waits for a server that could not be preempted.
const SHORTEST_TICK: u64 = 100_000;
/// After so many looks at servers that all sleep the watch sleeps too.
const PATIENCE: u32 = 3;

/// It looks at the servers, from time to time.
const AWAKE: u32 = 0;
/// It sleeps until it is roused.
const ASLEEP: u32 = 1;
const OVER: u32 = 2;
/// It is to look at once.
const HURRIED: u32 = 3;

pub(crate) struct Watch {
    word: AtomicU32,
    preemption: Option<u64>,
    /// As it is when the runtime is made.
    lack: Lack,
}

impl Watch {
    pub(crate) fn new(preemption: Option<Duration>) -> Watch {
        let preemption =
            preemption.map(|interval| u64::try_from(interval.as_nanos()).unwrap_or(u64::MAX));
        Watch {
            word: AtomicU32::new(AWAKE),
            preemption,
            lack: Lack::new(),
        }
    }

    /// The lack of helpers, before the first look at it.
    pub(crate) fn lack(&self) -> Lack {
        self.lack
    }

    /// The interval of preemption in nanoseconds; 0 for none.
    pub(crate) fn preemption(&self) -> u64 {
        self.preemption.unwrap_or(0)
    }

    fn tick(&self) -> u64 {
        TICK.min(self.preemption.unwrap_or(TICK)).max(SHORTEST_TICK)
    }

    /// The caller, a server, sleeps no longer: so the watch does not.
    #[inline]
    pub(crate) fn stay_awake(&self) {
        asymmetric::light();
        if self.word.load(Relaxed) == ASLEEP {
            self.rouse();
        }
    }

    #[cold]
    fn rouse(&self) {
        if self
            .word
            .compare_exchange(ASLEEP, AWAKE, Relaxed, Relaxed)
            .is_ok()
        {
            let _ = futex::wake(&self.word, Flags::PRIVATE, 1);
        }
    }

    /// Has it look at once: a worker is to be preempted by itself, which it cannot do within the
    /// library.
    #[cold]
    pub(crate) fn look_now(&self, driver: &Driver) {
        // ORDERING(hurried.1): Release, pairs with hurried.2: it sees who is to be preempted.
        let _ = self
            .word
            .fetch_update(Release, Relaxed, |word| (word != OVER).then_some(HURRIED));
        let _ = futex::wake(&self.word, Flags::PRIVATE, 1);
        if driver.has_sources() {
            driver.wake(); // it may be standing in
        }
    }

    /// It begins to look: who hurries it from now on has it look again.
    fn begin(&self) {
        // ORDERING(hurried.2): Acquire, pairs with hurried.1.
        let _ = self.word.compare_exchange(HURRIED, AWAKE, Acquire, Relaxed);
    }

    pub(crate) fn end(&self) {
        self.word.store(OVER, Relaxed);
        let _ = futex::wake(&self.word, Flags::PRIVATE, 1);
    }

    fn is_over(&self) -> bool {
        self.word.load(Relaxed) == OVER
    }

    /// Sleeps for so many nanoseconds, or until the end.
    fn sleep(&self, nanoseconds: u64) {
        self.sleep_while(AWAKE, time::now() + nanoseconds);
    }

    /// Sleeps until it is roused, or until `deadline`, if all servers sleep still.
    fn sleep_with(&self, servers: &[Seat], deadline: u64) {
        if self
            .word
            .compare_exchange(AWAKE, ASLEEP, Relaxed, Relaxed)
            .is_err()
        {
            return;
        }
        asymmetric::heavy();
        if servers.iter().all(Seat::is_asleep) {
            self.sleep_while(ASLEEP, deadline);
        }
        let _ = self.word.compare_exchange(ASLEEP, AWAKE, Relaxed, Relaxed);
    }

    fn sleep_while(&self, word: u32, deadline: u64) {
        let _ = futex::wait_bitset(
            &self.word,
            Flags::PRIVATE,
            word,
            time::timespec(deadline).as_ref(),
            NonZeroU32::MAX,
        );
    }
}

/// The body of its kernel thread.
pub(crate) fn main(shared: &Shared) {
    let mut seen: Vec<Seen> = shared.seats.iter().map(|_| Seen::default()).collect();
    let mut quiet = 0;
    let mut trimmer = Trimmer::new();
    let mut lack = shared.watch.lack();
    while !shared.watch.is_over() {
        shared.watch.begin();
        lack.look(shared);
        quiet = if shared.seats.iter().all(Seat::is_asleep) {
            quiet + 1
        } else {
            0
        };
        if quiet >= PATIENCE {
            shared.watch.sleep_with(&shared.seats, trimmer.next());
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
            shared.watch.tick()
        };
        trimmer.go_on();
        let all_busy = shared.sleepers.asleep() == 0;
        if all_busy && shared.driver.has_sources() && (stuck || shared.ranked) {
            if !stand_in(shared, tick) {
                shared.watch.sleep(tick);
            }
        } else {
            if !all_busy {
                shared.sleepers.cover_driver(shared);
            }
            shared.watch.sleep(tick);
        }
    }
    // What was told it just before the end.
    lack.look(shared);
}

/// What the last look at a server has seen.
#[derive(Default)]
struct Seen {
    looks: u64,
    stay: Stay,
}

/// Looks at a server. True when it is stuck: it has not looked around since the last time.
fn look(shared: &Shared, index: usize, seen: &mut Seen) -> bool {
    let seat = &shared.seats[index];
    let local = seat.local().filter(|_| !seat.is_asleep());
    let Some(local) =
        local.filter(|local| std::mem::replace(&mut seen.looks, local.looks()) == local.looks())
    else {
        seen.stay.ended(shared, index);
        return false;
    };
    seen.stay.goes_on(shared, index);
    seat.timers.expire();
    local.hurry();
    if let Some(worker) = local.take_from_slot() {
        ready(worker, Why::Woken);
    }
    true
}

/// Waits for files, as all servers have something else to do. False when one of them does so after
/// all.
fn stand_in(shared: &Shared, tick: u64) -> bool {
    let next = shared
        .seats
        .iter()
        .map(|seat| seat.timers.next())
        .min()
        .unwrap_or(u64::MAX);
    shared
        .driver
        .poll(time::until(next.min(time::now() + tick)))
}
