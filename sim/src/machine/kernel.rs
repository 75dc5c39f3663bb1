//! The kernel of a machine: futexes and membarriers.

use super::lines::Hashes;
use super::{Cause, Machine, Place, State, Thread, with};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::Location;

#[derive(Default)]
pub(crate) struct Kernel {
    /// The threads that sleep on each word, in their order.
    sleepers: RefCell<HashMap<usize, VecDeque<usize>, Hashes>>,
    /// How often servers called `heavy`, by the file of the call.
    heavy: RefCell<BTreeMap<&'static str, u64>>,
    /// When the last membarrier is over.
    barrier_over: Cell<u64>,
}

/// Sleeps on the word at `address` until a wake-up, or until then, if `may_sleep`. True if it was
/// woken.
pub(crate) fn sleep_on(
    address: usize,
    until: Option<u64>,
    may_sleep: impl FnOnce() -> bool,
) -> bool {
    with(|machine, thread| machine.sleep_on(thread, address, until, may_sleep)).unwrap_or(false)
}

/// Wakes the thread that has slept on the word at `address` for longest. False if there is none.
pub(crate) fn wake_one(address: usize) -> bool {
    with(|machine, thread| machine.wake_one(thread, address)).unwrap_or(false)
}

/// The side of an asymmetric fence that costs nothing if there are membarriers.
#[track_caller]
pub(crate) fn light() {
    let place = Location::caller();
    with(|machine, thread| {
        if !machine.costs.has_barriers {
            machine.fence(thread, place);
        }
    });
}

/// A membarrier: each thread that runs is interrupted.
#[track_caller]
pub(crate) fn heavy() {
    let place = Location::caller();
    with(|machine, thread| {
        machine.kernel.count_heavy(thread, place);
        if !machine.costs.has_barriers {
            return machine.fence(thread, place);
        }
        machine.take_turn(thread);
        let costs = &machine.costs;
        let running = machine
            .threads
            .iter()
            .filter(|other| other.is_server && other.state.get() == State::Ready)
            .filter(|other| !std::ptr::eq(*other, thread));
        let turn = match costs.barriers_in_turn {
            true => machine.kernel.barrier_over.get(),
            false => 0,
        };
        let waits = turn.saturating_sub(thread.time.get());
        machine.spend_at(thread, Cause::BarrierTurn, waits, place);
        let mut count = 0;
        for other in running {
            other.debt.set(other.debt.get() + costs.interrupted);
            count += 1;
        }
        let others = if count > 0 { costs.barrier_others } else { 0 };
        let time = costs.barrier + others + costs.barrier_each * count;
        machine.spend_at(thread, Cause::Barriers, time, place);
        machine.kernel.barrier_over.set(thread.time.get());
        thread.stored.set(0);
        machine.take_turn(thread);
    });
}

impl Kernel {
    fn count_heavy(&self, thread: &Thread, place: Place) {
        if thread.is_server {
            *self.heavy.borrow_mut().entry(place.file()).or_default() += 1;
        }
    }

    /// How often servers called `heavy` in a file.
    pub(super) fn heavy_in(&self, file: &str) -> u64 {
        let heavy = self.heavy.borrow();
        let in_file = heavy.iter().filter(|(name, _)| name.ends_with(file));
        in_file.map(|(_, count)| count).sum()
    }

    pub(super) fn forget_sleepers(&self) {
        self.sleepers.borrow_mut().clear();
    }
}

impl Machine {
    fn sleep_on(
        &self,
        thread: &Thread,
        address: usize,
        until: Option<u64>,
        may_sleep: impl FnOnce() -> bool,
    ) -> bool {
        self.spend(thread, Cause::Calls, self.costs.call);
        self.take_turn(thread);
        let Some(me) = self.current.get().filter(|_| may_sleep()) else {
            return false;
        };
        let sleepers = |f: &dyn Fn(&mut VecDeque<usize>)| {
            f(self
                .kernel
                .sleepers
                .borrow_mut()
                .entry(address)
                .or_default())
        };
        sleepers(&|list| list.push_back(me));
        let until = until.map(|until| until.max(thread.time.get()) + self.costs.late);
        let is_woken = self.sleep(thread, until);
        if !is_woken {
            sleepers(&|list| list.retain(|index| *index != me));
        }
        is_woken
    }

    fn wake_one(&self, thread: &Thread, address: usize) -> bool {
        self.take_turn(thread);
        let mut sleepers = self.kernel.sleepers.borrow_mut();
        let first = sleepers.get_mut(&address).and_then(VecDeque::pop_front);
        drop(sleepers);
        let Some(first) = first else {
            self.spend(thread, Cause::Calls, self.costs.call);
            return false;
        };
        self.spend(thread, Cause::Wakes, self.costs.wake);
        self.rouse(first, thread.time.get(), self.costs.wake_latency);
        self.take_turn(thread);
        true
    }
}
