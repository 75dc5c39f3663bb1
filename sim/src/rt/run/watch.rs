//! The watch, as far as it sees to servers that one worker keeps, and to spreading workers.

use super::spread::Spreader;
use crate::machine;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::scheduler::Why;
use std::cell::Cell;
use std::ptr::from_ref;

/// As the library's.
const TICK: u64 = 10_000_000;
const SHORT_TICK: u64 = 1_000_000;
const PATIENCE: u32 = 3;

/// Its word, on which it sleeps while all servers do.
pub(crate) struct Watch {
    is_asleep: Cell<bool>,
}

impl Watch {
    pub(crate) fn new() -> Watch {
        Watch {
            is_asleep: Cell::new(false),
        }
    }

    pub(crate) fn stay_awake(&self) {
        if self.is_asleep.get() {
            self.rouse();
        }
    }

    pub(crate) fn rouse(&self) {
        self.is_asleep.set(false);
        machine::wake_one(self.address());
    }

    fn address(&self) -> usize {
        from_ref(&self.is_asleep).addr()
    }
}

/// The body of its thread.
pub(crate) fn main(shared: &RuntimeState) {
    let mut looks = vec![0; shared.servers.len()];
    let mut spreader = Spreader::new();
    let mut quiet = 0;
    while !shared.is_over() {
        let soon = spreader.look(shared);
        quiet = match shared.sleepers.are_all_asleep() {
            true => quiet + 1,
            false => 0,
        };
        let watch = &shared.watch;
        if quiet >= PATIENCE {
            quiet = 0;
            watch.is_asleep.set(true);
            machine::sleep_on(watch.address(), None, || {
                watch.is_asleep.get() && machine::aside(|| shared.sleepers.are_all_asleep())
            });
            watch.is_asleep.set(false);
            continue;
        }
        let mut is_stuck = false;
        for (index, looks) in looks.iter_mut().enumerate() {
            is_stuck |= look(shared, index, looks);
        }
        let tick = if is_stuck { SHORT_TICK } else { TICK };
        let until = machine::now() + tick.min(soon);
        machine::sleep_on(watch.address(), Some(until), || !shared.is_over());
    }
}

/// Whether a server has not looked around since the last time.
fn look(shared: &RuntimeState, index: usize, looks: &mut u64) -> bool {
    let awake = |_: &_| !shared.sleepers.is_asleep(index);
    let Some(local) = shared.servers[index].local().filter(awake) else {
        return false;
    };
    if std::mem::replace(looks, local.looks()) != local.looks() {
        return false;
    }
    local.countdown.end_from_outside();
    if let Some(worker) = local.take_from_slot() {
        shared.ready_outside(worker, Why::Woken);
    } else if (shared.scheduler.keeps_work(index) || shared.scheduler.has_outside())
        && !shared.sleepers.nobody_is_needed()
    {
        shared.sleepers.wake_one(&*shared.driver);
    }
    true
}
