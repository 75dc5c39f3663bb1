//! The scheduler of a runtime, and how it is called.
//!
//! The default scheduler is known by its type, so the compiler can see through the calls of a hop.
//! It is the runtime's own part, and is trusted. Any other scheduler may be a program's. A safe
//! trait must not be able to break the runtime, which calls it in the midst of a switch while it
//! holds the right to run a worker.
//!
//! - G1: while it is called, the caller is a plain thread to all of the library. So the scheduler
//!   can neither switch nor be preempted.
//! - G2: it does not unwind into the runtime: a panic ends the process.
//! - G3: the worker that it gives out is one of this runtime's. The rest follows from the value:
//!   there is one for each worker.
//! - G4: a server that it names exists.

use super::patrol::Patrol;
use super::{Scheduler, Wake, Why, WorkStealing};
use crate::rt::base::here::Here;
use crate::rt::task::Task;
use crate::rt::task::runnable::Runnable;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use umcg_core::raw;

/// A runtime's scheduler.
pub(crate) enum Chosen {
    Default(WorkStealing),
    Other(Other),
}

/// The runtime against which a scheduler's calls are checked.
#[derive(Default)]
pub(crate) struct RuntimeNamed {
    pub(crate) name: String,
    pub(crate) number: u32,
    pub(crate) servers: usize,
}

/// A scheduler that the program has named.
pub(crate) struct Other {
    scheduler: Box<dyn Scheduler>,
    runtime: RuntimeNamed,
}

impl Other {
    /// G1, G2.
    fn call<R>(&self, function: &'static str, f: impl FnOnce(&dyn Scheduler) -> R) -> R {
        /// Prints the name of the function if it unwinds.
        struct EndsOnPanic(&'static str);
        impl Drop for EndsOnPanic {
            fn drop(&mut self) {
                umcg_core::fatal(format_args!("a scheduler's `{}` panicked", self.0));
            }
        }
        raw::apart(|| {
            let guard = EndsOnPanic(function);
            let result = f(&*self.scheduler);
            std::mem::forget(guard);
            result
        })
    }

    fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake {
        self.checked(self.call("ready", |scheduler| scheduler.ready(worker, why, here)))
    }

    fn give_away(&self, here: &Here) -> Wake {
        self.checked(self.call("give_away", |scheduler| scheduler.give_away(here)))
    }

    /// G4.
    fn checked(&self, wake: Wake) -> Wake {
        match wake {
            Wake::Server(index) if index >= self.runtime.servers => Wake::One,
            wake => wake,
        }
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        self.ours(self.call("next", |scheduler| scheduler.next(here))?)
    }

    fn next_bound(&self, here: &Here) -> Option<Runnable> {
        self.ours(self.call("next_bound", |scheduler| scheduler.next_bound(here))?)
    }

    /// G3.
    fn ours(&self, worker: Runnable) -> Option<Runnable> {
        if worker.task().runtime.load(Relaxed) != self.runtime.number {
            end_for_stranger(&self.runtime.name);
        }
        Some(worker)
    }
}

/// G3: to run the worker here would break both runtimes.
#[cold]
fn end_for_stranger(name: &str) -> ! {
    umcg_core::fatal(format_args!(
        "the scheduler of runtime `{name}` gave out a worker of another runtime"
    ))
}

impl Chosen {
    /// A scheduler that the program has named.
    pub(crate) fn other(scheduler: impl Scheduler) -> Chosen {
        Chosen::Other(Other {
            scheduler: Box::new(scheduler),
            runtime: RuntimeNamed::default(),
        })
    }

    /// Called before the runtime begins, while nothing depends on the scheduler yet.
    pub(crate) fn start(&mut self, runtime: RuntimeNamed) {
        match self {
            Chosen::Default(scheduler) => scheduler.start(runtime.servers),
            Chosen::Other(other) => {
                other.scheduler.start(runtime.servers);
                other.runtime = runtime;
            }
        }
    }

    pub(crate) fn has_slots(&self) -> bool {
        match self {
            Chosen::Default(scheduler) => scheduler.has_slots(),
            Chosen::Other(other) => other.scheduler.has_slots(),
        }
    }

    pub(crate) fn is_ranked(&self) -> bool {
        match self {
            Chosen::Default(_) => false,
            Chosen::Other(other) => other.scheduler.is_ranked(),
        }
    }

    #[inline(always)]
    pub(crate) fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake {
        match self {
            Chosen::Default(scheduler) => scheduler.ready(worker, why, here),
            Chosen::Other(other) => other.ready(worker, why, here),
        }
    }

    /// Called for a server of this runtime.
    #[inline(always)]
    pub(crate) fn next(&self, here: &Here) -> Option<Runnable> {
        match self {
            Chosen::Default(scheduler) => scheduler.next(here),
            Chosen::Other(other) => other.next(here),
        }
    }

    pub(crate) fn look_around(&self, here: &Here) {
        match self {
            Chosen::Default(scheduler) => scheduler.look_around(here),
            Chosen::Other(other) => {
                other.call("look_around", |scheduler| scheduler.look_around(here))
            }
        }
    }

    pub(crate) fn has_work(&self, here: &Here) -> bool {
        match self {
            Chosen::Default(scheduler) => scheduler.has_work(here),
            Chosen::Other(other) => other.call("has_work", |scheduler| scheduler.has_work(here)),
        }
    }

    /// Whether this server has workers that others would have to steal. Called by any thread.
    pub(crate) fn keeps_work(&self, index: usize) -> bool {
        match self {
            Chosen::Default(scheduler) => scheduler.keeps_work(index),
            Chosen::Other(_) => false,
        }
    }

    /// Whether preempted workers wait that come after others. Called by any thread.
    pub(crate) fn has_preempted(&self) -> bool {
        match self {
            Chosen::Default(scheduler) => scheduler.has_preempted(),
            Chosen::Other(_) => false,
        }
    }

    /// Whether this worker, which runs on that server, may be preempted at once for others. Called
    /// by any thread.
    pub(crate) fn mostly_computes(&self, server: usize, task: &Task) -> bool {
        match self {
            Chosen::Default(scheduler) => scheduler.mostly_computes(server, task),
            Chosen::Other(_) => true,
        }
    }

    /// Like [`Chosen::next`], where the slot has a worker.
    pub(crate) fn next_beside_slot(&self, here: &Here) -> Option<Runnable> {
        match self {
            Chosen::Default(scheduler) => scheduler.next_beside_slot(here),
            Chosen::Other(other) => other.next(here),
        }
    }

    /// The worker that yields next on this server waits for another one.
    pub(crate) fn note_waits(&self, here: &Here) {
        if let Chosen::Default(scheduler) = self {
            scheduler.note_waits(here);
        }
    }

    /// A worker yields that gives way to preempted ones, too. Returns it if it is to be made ready
    /// as any one that yields.
    pub(crate) fn put_last(&self, worker: Runnable, here: &Here) -> Option<Runnable> {
        match self {
            Chosen::Default(scheduler) => scheduler.put_last(worker, here),
            Chosen::Other(_) => Some(worker),
        }
    }

    /// The worker that this server preempts next has not run until its tick.
    pub(crate) fn note_early(&self, here: &Here) {
        if let Chosen::Default(scheduler) = self {
            scheduler.note_early(here);
        }
    }

    /// Whether there are workers that any server may run, and that were made ready outside the
    /// servers. False where the order is not the default one. Called by any thread.
    pub(crate) fn has_outside(&self) -> bool {
        match self {
            Chosen::Default(scheduler) => scheduler.has_outside(),
            Chosen::Other(_) => false,
        }
    }

    pub(crate) fn next_bound(&self, here: &Here) -> Option<Runnable> {
        match self {
            Chosen::Default(scheduler) => scheduler.next_bound(here),
            Chosen::Other(other) => other.next_bound(here),
        }
    }

    pub(crate) fn has_bound(&self, here: &Here) -> bool {
        match self {
            Chosen::Default(scheduler) => scheduler.has_bound(here),
            Chosen::Other(other) => other.call("has_bound", |scheduler| scheduler.has_bound(here)),
        }
    }

    pub(crate) fn give_away(&self, here: &Here) -> Wake {
        match self {
            Chosen::Default(scheduler) => scheduler.give_away(here),
            Chosen::Other(other) => other.give_away(here),
        }
    }

    /// The patrols of idle servers, with the scheduler that has them.
    pub(crate) fn patrol(&self) -> Option<&Patrol> {
        match self {
            Chosen::Default(scheduler) => Some(scheduler.patrol()),
            Chosen::Other(_) => None,
        }
    }

    pub(crate) fn nap(&self, here: &Here) -> Option<Duration> {
        match self {
            Chosen::Default(scheduler) => scheduler.nap(here),
            Chosen::Other(other) => other.call("nap", |scheduler| scheduler.nap(here)),
        }
    }

    pub(crate) fn will_look(&self) -> bool {
        match self {
            Chosen::Default(scheduler) => scheduler.will_look(),
            Chosen::Other(other) => other.call("will_look", |scheduler| scheduler.will_look()),
        }
    }

    pub(crate) fn end_naps(&self, here: &Here) {
        match self {
            Chosen::Default(scheduler) => scheduler.end_naps(here),
            Chosen::Other(other) => other.call("end_naps", |scheduler| scheduler.end_naps(here)),
        }
    }

    pub(crate) fn rank(&self, worker: &Runnable) -> u64 {
        match self {
            Chosen::Default(_) => 0,
            Chosen::Other(other) => other.call("rank", |scheduler| scheduler.rank(worker)),
        }
    }

    pub(crate) fn most_urgent(&self, server: Option<usize>) -> u64 {
        match self {
            Chosen::Default(_) => u64::MAX,
            Chosen::Other(other) => {
                other.call("most_urgent", |scheduler| scheduler.most_urgent(server))
            }
        }
    }
}
