//! A server: the slot, the turns and the steps of the real one, around workers that are functions.

use super::countdown::{Countdown, INTERVAL};
use super::runtime::{RuntimeState, Timers, add};
use crate::machine::{self, Cause};
use crate::rt::base::here::Here;
use crate::rt::base::per_server::{Biased, Load};
use crate::rt::scheduler::Why;
use crate::rt::task::runnable::Runnable;
use crate::rt::task::{Leaves, Task};
use std::cell::Cell;
use umcg_core::raw;

/// As the library's.
const STREAK: u32 = 16;

#[derive(Default)]
struct ServerSlot(Option<(Runnable, Why)>);

impl Load for ServerSlot {
    fn load(&self) -> usize {
        usize::from(self.0.is_some())
    }
}

pub(crate) struct ServerState {
    slot: Biased<ServerSlot>,
    shared: &'static RuntimeState,
    pub(crate) countdown: Countdown,
    streak: Cell<u32>,
    here: Here,
    looks: Cell<u64>,
    is_inactive: Cell<bool>,
    inactive_turns: Cell<u32>,
    pub(crate) patience: Cell<u32>,
}

impl ServerState {
    pub(crate) fn new(shared: &'static RuntimeState, index: usize) -> ServerState {
        ServerState {
            slot: Biased::new(ServerSlot(None)),
            shared,
            countdown: Countdown::new(),
            streak: Cell::new(0),
            // SAFETY: used by this virtual server only.
            here: unsafe { Here::new(index) },
            looks: Cell::new(0),
            is_inactive: Cell::new(false),
            inactive_turns: Cell::new(0),
            patience: Cell::new(0),
        }
    }

    pub(crate) fn here(&self) -> &Here {
        &self.here
    }

    pub(crate) fn shared(&self) -> &'static RuntimeState {
        self.shared
    }

    pub(crate) fn timers(&self) -> &'static Timers {
        &self.shared.servers[self.here.index()].timers
    }

    pub(crate) fn make_ready(&self, worker: Runnable, why: Why) {
        let takes_slot = matches!(why, Why::Spawned | Why::Woken) && worker.server().is_none();
        if !self.shared.has_slots || !takes_slot {
            return self.shared.ready_at(worker, why, &self.here);
        }
        // SAFETY: the caller is this server.
        let before = unsafe { self.slot.own(|slot| slot.0.replace((worker, why))) };
        if let Some((before, why)) = before {
            self.shared.ready_at(before, why, &self.here);
        }
    }

    pub(crate) fn pick(&self) -> Option<Runnable> {
        if self.slot.hint() == 0 {
            self.streak.set(0);
            return self.shared.scheduler.next(&self.here);
        }
        let streak = self.streak.get();
        if streak == STREAK {
            return self.pick_another();
        }
        self.streak.set(streak + 1);
        self.take_slot().map(|(worker, _)| worker)
    }

    fn pick_another(&self) -> Option<Runnable> {
        self.streak.set(0);
        let slot = self.take_slot();
        let Some(another) = self.shared.scheduler.next_beside_slot(&self.here) else {
            return slot.map(|(worker, _)| worker);
        };
        if let Some((worker, why)) = slot {
            self.shared.ready_at(worker, why, &self.here);
        }
        Some(another)
    }

    fn take_slot(&self) -> Option<(Runnable, Why)> {
        // SAFETY: as in `make_ready`.
        unsafe { self.slot.own(|slot| slot.0.take()) }
    }

    pub(crate) fn end_streak(&self) {
        self.streak.set(STREAK);
    }

    pub(crate) fn note_look(&self) {
        self.looks.set(self.looks.get() + 1);
    }

    pub(crate) fn looks(&self) -> u64 {
        self.looks.get()
    }

    pub(crate) fn has_work(&self) -> bool {
        let scheduler = &self.shared.scheduler;
        self.slot.hint() > 0
            || if self.is_inactive() {
                scheduler.has_bound(&self.here)
            } else {
                scheduler.has_work(&self.here)
            }
    }

    pub(crate) fn take_from_slot(&self) -> Option<Runnable> {
        let has_one = self.slot.hint() > 0;
        let taken = has_one.then(|| self.slot.try_other(|slot| slot.0.take()));
        taken.flatten().flatten().map(|(worker, _)| worker)
    }

    fn is_due(&self) -> bool {
        self.countdown.is_over() || self.shared.attention()
    }

    fn next_without_server(&self) -> Option<Runnable> {
        if self.is_due() {
            return None;
        }
        self.countdown.count();
        self.pick()
    }

    /// Runs a worker, and each one that it switches to. The step of a worker that leaves for
    /// another is done on the stack of that one.
    pub(crate) fn run(&self, _server: raw::Server, worker: Runnable) {
        let mut next = Some(worker);
        while let Some(worker) = next.take() {
            machine::spend(Cause::Switch, |costs| costs.switch);
            let task = worker.into_task();
            let leaves = task.turn(self);
            let goes_back = leaves == Leaves::Yields && !self.shared.has_slots;
            if !goes_back {
                next = self.next_without_server();
            }
            if leaves == Leaves::Yields && next.is_none() && !goes_back && !self.is_due() {
                // It goes on, as there is no other.
                add(&self.shared.counts.ready, 1);
                // SAFETY: it has just been taken off.
                next = Some(unsafe { Runnable::new(task) });
                continue;
            }
            self.take_step(task, leaves);
        }
    }

    fn take_step(&self, task: &'static Task, leaves: Leaves) {
        let right = || {
            add(&self.shared.counts.ready, 1);
            // SAFETY: it has just been taken off: that is the right to run it.
            unsafe { Runnable::new(task) }
        };
        match leaves {
            Leaves::Yields => self.make_ready(right(), Why::Yielded),
            Leaves::Parks if !task.commit() => self.make_ready(right(), Why::Woken),
            Leaves::Parks | Leaves::Ends => {}
        }
    }

    pub(crate) fn is_inactive(&self) -> bool {
        self.is_inactive.get()
    }

    pub(crate) fn is_standby(&self) -> bool {
        self.shared.active.is_standby(self.here.index())
    }

    pub(crate) fn set_inactive(&self, is_inactive: bool) {
        self.is_inactive.set(is_inactive);
        self.inactive_turns.set(0);
        self.countdown.end();
    }

    pub(crate) fn begin_inactive_turn(&self) -> bool {
        self.countdown.end();
        let turns = self.inactive_turns.get();
        self.inactive_turns
            .set(turns.checked_sub(1).unwrap_or(INTERVAL));
        turns == 0
    }

    pub(crate) fn give_slot_away(&self) {
        if let Some((worker, why)) = self.take_slot() {
            self.shared.ready_outside(worker, why);
        }
    }

    pub(crate) fn pick_bound(&self) -> Option<Runnable> {
        self.shared.scheduler.next_bound(&self.here)
    }

    // What a server without a kernel thread has none of.

    pub(crate) fn settle(&self, event: raw::Event) {
        match event {}
    }

    pub(crate) fn discard_spares(&self) {}

    pub(crate) fn share_spares(&self) {}

    pub(crate) fn stop(&self) {}

    pub(crate) fn run_again(&self) {}
}
