//! The default scheduler as it is, and another that is one number.

#[path = "../../src/rt/scheduler/patrol.rs"]
mod patrol;
#[path = "../../src/rt/scheduler/preempted.rs"]
mod preempted;
#[allow(unused_imports, unused_macros, reason = "for other schedulers")]
#[path = "../../src/rt/scheduler/shared.rs"]
mod shared;
#[path = "../../src/rt/scheduler/work_stealing.rs"]
mod work_stealing;

use crate::rt::base::here::Here;
use crate::rt::task;
use crate::rt::task::runnable::Runnable;
use shuttle::sync::Mutex;
use std::time::Duration;
pub(crate) use work_stealing::WorkStealing;

/// As the library's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    Spawned,
    Woken,
    Yielded,
    Preempted,
    Unblocked,
}

/// As the library's.
pub(crate) enum Wake {
    Nobody,
    One,
    UnlessNapping,
    Server(usize),
}

/// As the library's.
pub(crate) trait Scheduler: Send + Sync + 'static {
    fn start(&mut self, servers: usize);

    fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake;

    fn next(&self, here: &Here) -> Option<Runnable>;

    fn has_work(&self, here: &Here) -> bool;

    fn look_around(&self, _here: &Here) {}

    fn nap(&self, _here: &Here) -> Option<Duration> {
        None
    }

    fn will_look(&self) -> bool {
        false
    }

    fn end_naps(&self, _here: &Here) {}

    fn next_bound(&self, here: &Here) -> Option<Runnable> {
        self.next(here)
    }

    fn has_bound(&self, here: &Here) -> bool {
        self.has_work(here)
    }

    fn give_away(&self, _here: &Here) -> Wake {
        Wake::Nobody
    }

    fn has_slots(&self) -> bool {
        false
    }
}

/// A scheduler with one queue for all; its workers are a number.
#[derive(Default)]
pub(crate) struct Count(Mutex<usize>);

impl Scheduler for Count {
    fn start(&mut self, _servers: usize) {}

    fn ready(&self, _worker: Runnable, _why: Why, _here: Option<&Here>) -> Wake {
        *self.0.lock().unwrap() += 1;
        Wake::One
    }

    fn next(&self, _here: &Here) -> Option<Runnable> {
        let mut count = self.0.lock().unwrap();
        *count = count.checked_sub(1)?;
        // SAFETY: a right to run that is not used.
        Some(unsafe { Runnable::new(task::make(true)) })
    }

    fn has_work(&self, _here: &Here) -> bool {
        *self.0.lock().unwrap() > 0
    }
}
