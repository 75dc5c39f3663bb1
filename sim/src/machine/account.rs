//! Where the virtual time went.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::Location;

/// What a thread spends its time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Cause {
    /// The workers' own work.
    Work,
    /// Switches between workers, and making them.
    Switch,
    /// Loads, stores and locked operations: those that hit, and what a locked one costs by itself.
    Steps,
    /// Waiting for cache lines that other cores had.
    Lines,
    /// Waiting for locks.
    Locks,
    /// Waking others.
    Wakes,
    /// From a wake-up until the woken thread runs.
    Latency,
    /// Membarriers: the caller's time.
    Barriers,
    /// Waiting until another thread's membarrier is over.
    BarrierTurn,
    /// Being interrupted by membarriers of others.
    Interrupted,
    /// Pauses of the processor, in searches and waits.
    Pauses,
    /// The driver, the clock, and system calls that find nothing to do.
    Calls,
    /// Asleep, for want of work.
    Asleep,
}

impl Cause {
    /// All, in order.
    pub const ALL: [Cause; 13] = [
        Cause::Work,
        Cause::Switch,
        Cause::Steps,
        Cause::Lines,
        Cause::Locks,
        Cause::Wakes,
        Cause::Latency,
        Cause::Barriers,
        Cause::BarrierTurn,
        Cause::Interrupted,
        Cause::Pauses,
        Cause::Calls,
        Cause::Asleep,
    ];

    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Work => "work",
            Cause::Switch => "switches",
            Cause::Steps => "steps",
            Cause::Lines => "lines",
            Cause::Locks => "locks",
            Cause::Wakes => "wakes",
            Cause::Latency => "wake latency",
            Cause::Barriers => "barriers",
            Cause::BarrierTurn => "turn for a barrier",
            Cause::Interrupted => "interrupted",
            Cause::Pauses => "pauses",
            Cause::Calls => "calls",
            Cause::Asleep => "asleep",
        }
    }
}

/// The place of an operation in the sources.
pub(crate) type Place = &'static Location<'static>;

/// Time by cause, of one thread.
#[derive(Default)]
pub(crate) struct Account([Cell<u64>; Cause::ALL.len()]);

impl Account {
    pub(crate) fn add(&self, cause: Cause, time: u64) {
        let cell = &self.0[cause as usize];
        cell.set(cell.get() + time);
    }

    pub(crate) fn of(&self, cause: Cause) -> u64 {
        self.0[cause as usize].get()
    }
}

/// A cause, and a place as file and line.
type Key = (Cause, &'static str, u32);

/// Time and number of waits by cause and place, of all servers.
#[derive(Default)]
pub(crate) struct Places(RefCell<BTreeMap<Key, (u64, u64)>>);

impl Places {
    pub(crate) fn add(&self, cause: Cause, place: Place, time: u64) {
        let mut places = self.0.borrow_mut();
        let entry = places
            .entry((cause, place.file(), place.line()))
            .or_default();
        entry.0 += time;
        entry.1 += 1;
    }

    /// The dearest first.
    pub(crate) fn dearest(&self) -> Vec<Spent> {
        let spent = |(&(cause, file, line), &(time, times)): (&Key, &_)| {
            let file = file.rsplit('/').next().unwrap_or(file);
            let place = format!("{file}:{line}");
            Spent {
                cause,
                place,
                time,
                times,
            }
        };
        let mut all: Vec<Spent> = self.0.borrow().iter().map(spent).collect();
        all.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| a.place.cmp(&b.place)));
        all
    }
}

/// The time that servers waited in one place of the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spent {
    /// What for.
    pub cause: Cause,
    /// File and line of the operation.
    pub place: String,
    /// How long, of all servers together, in nanoseconds.
    pub time: u64,
    /// How often.
    pub times: u64,
}
