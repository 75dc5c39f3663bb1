//! Schedulers: which worker runs next.
//!
//! A runtime tells its scheduler of each worker that becomes ready, and why. Each server asks the
//! scheduler for the worker to run. Everything else is the runtime's: waking servers, timers, I/O,
//! the switch itself. The schedulers here use nothing that a program's own could not use;
//! docs/schedulers.md shows how to write one.

mod chosen;
mod earliest_deadline;
mod fifo;
mod patrol;
mod preempted;
mod priority;
mod shared;
mod weighted;
mod work_stealing;

pub(crate) use chosen::{Chosen, RuntimeNamed};
pub use earliest_deadline::EarliestDeadline;
pub use fifo::Fifo;
pub(crate) use patrol::{Patrol, PatrolLooks};
pub use priority::Priority;
pub use weighted::Weighted;
pub use work_stealing::WorkStealing;

use crate::rt::base::here::Here;
use crate::rt::task::runnable::Runnable;
use std::time::Duration;

/// Why a worker is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is new.
    Spawned,
    /// It was unparked, or the event that it waited for has come.
    Woken,
    /// It gave way to other workers.
    Yielded,
    /// It ran for too long, and was taken off its server.
    Preempted,
    /// It is back from blocking in the kernel.
    Unblocked,
}

/// Which sleeping servers the runtime is to wake because a worker is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// None: the server that made the worker ready will run it soon, or a server was woken already.
    Nobody,
    /// Any server that sleeps.
    One,
    /// The same, unless [`Scheduler::will_look`] says that it is not needed.
    UnlessNapping,
    /// This server, since no other will run the worker. If no server has this index, it means
    /// [`Wake::One`].
    Server(usize),
}

/// Decides which worker runs next, on which server.
///
/// The runtime calls these functions from servers, workers and other threads, all at once. None may
/// block for long. A worker that was given to [`Scheduler::ready`] must sooner or later be given
/// out by [`Scheduler::next`] of the same scheduler: nothing else runs it.
///
/// A scheduler cannot do harm to memory:
/// - Within these functions the caller counts as a plain thread. So nothing there switches: an
///   operation that would wait blocks the server.
/// - A panic in one of them ends the process. So does a worker of another runtime that
///   [`Scheduler::next`] gives out.
/// - A worker that is never given out never runs, and its runtime does not end.
pub trait Scheduler: Send + Sync + 'static {
    /// Called once, before any other function, with the number of servers.
    fn start(&mut self, servers: usize);

    /// Takes a worker that is ready. `here` is the server on whose kernel thread this is called, if
    /// there is one. If the caller is a worker, it stays there meanwhile.
    fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake;

    /// Returns the worker that the calling server is to run next. None if the scheduler has none
    /// for it.
    fn next(&self, here: &Here) -> Option<Runnable>;

    /// Called after the server has made a bounded number of turns, or long ones, since the last
    /// call. The next [`Scheduler::next`] should first consider the workers that might otherwise
    /// never run.
    fn look_around(&self, _here: &Here) {}

    /// Whether [`Scheduler::next`] may give the calling server a worker. Called before the server
    /// goes to sleep, after it has announced that. So every worker that `ready` was given before is
    /// seen.
    fn has_work(&self, here: &Here) -> bool;

    /// How long the calling server, which found no worker and is about to sleep, may sleep at most
    /// before it asks for one again. None for as long as nobody wakes it. A scheduler that answers
    /// with a time may answer [`Wake::UnlessNapping`] meanwhile.
    fn nap(&self, _here: &Here) -> Option<Duration> {
        None
    }

    /// Whether a server that naps will see all workers that [`Scheduler::ready`] was given before.
    /// Asked after [`Wake::UnlessNapping`], if a server sleeps. A yes needs a full fence in here,
    /// before the look that finds the server.
    fn will_look(&self) -> bool {
        false
    }

    /// Called by a server that was to nap and has found a worker, or something else to do: it does
    /// not look again by itself. [`Scheduler::has_work`], called next, has to see each worker for
    /// which [`Scheduler::ready`] has relied on that.
    fn end_naps(&self, _here: &Here) {}

    /// Like [`Scheduler::next`], for a server that is *inactive*, as the process may use fewer
    /// processors than there are servers: only workers that no other server would run. A scheduler
    /// that leaves this and [`Scheduler::has_bound`] as they are has such a server run all workers
    /// that it finds; it is woken by [`Wake::Server`] only.
    fn next_bound(&self, here: &Here) -> Option<Runnable> {
        self.next(here)
    }

    /// Like [`Scheduler::has_work`], for the workers of [`Scheduler::next_bound`].
    fn has_bound(&self, here: &Here) -> bool {
        self.has_work(here)
    }

    /// Called by an inactive server before [`Scheduler::next_bound`]: moves the workers that this
    /// server would find first, and others may run, to where any server finds them. Returns which
    /// server to wake for those.
    fn give_away(&self, _here: &Here) -> Wake {
        Wake::Nobody
    }

    /// Whether the last worker that was made or woken on a server runs there next, before all
    /// others, without asking the scheduler. The data that it shares with the worker that woke it
    /// is then still in the cache. The runtime bounds how often in a row that happens. It gives the
    /// scheduler the worker that falls out of that slot. Called once.
    fn has_slots(&self) -> bool {
        false
    }

    /// Whether workers have ranks. Then, if the runtime preempts, no worker waits while a less
    /// urgent one runs on a server where it may run. Requires [`Scheduler::rank`] and
    /// [`Scheduler::most_urgent`]. There are no slots then. Called once.
    fn is_ranked(&self) -> bool {
        false
    }

    /// How urgent a worker is: less is more urgent; below `u64::MAX`. The rank does not change
    /// while the worker is ready. Called with ranks only.
    fn rank(&self, _worker: &Runnable) -> u64 {
        0
    }

    /// The rank of the most urgent worker that waits here. With a server: of the workers that only
    /// this server may run. Without: of those that any server may run. `u64::MAX` for none. Of both
    /// together, [`Scheduler::next`] gives out the most urgent worker. Called with ranks only,
    /// after a call of `next` or of [`Scheduler::ready`], whose effect it must see.
    fn most_urgent(&self, _server: Option<usize>) -> u64 {
        u64::MAX
    }
}
