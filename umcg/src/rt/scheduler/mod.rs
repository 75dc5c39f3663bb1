//! Schedulers: who runs next.
//!
//! A runtime tells its scheduler of each worker that becomes ready, and why, and each server asks
//! it whom to run. All else, waking servers, timers, I/O, the switch itself, is the runtime's. The
//! schedulers here use nothing that a program's own could not; docs/schedulers.md shows how to
//! write one.

mod chosen;
mod earliest_deadline;
mod fifo;
mod priority;
mod shared;
mod weighted;
mod work_stealing;

pub(crate) use chosen::{Chosen, RuntimeNamed};
pub use earliest_deadline::EarliestDeadline;
pub use fifo::Fifo;
pub use priority::Priority;
pub use weighted::Weighted;
pub use work_stealing::WorkStealing;

use crate::rt::base::here::Here;
use crate::rt::task::runnable::Runnable;

/// Why a worker is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// It is new.
    Spawned,
    /// Somebody unparked it, or what it waited for has come.
    Woken,
    /// It gave way to others.
    Yielded,
    /// It ran for too long, and was taken off its server.
    Preempted,
    /// It is back from blocking in the kernel.
    Unblocked,
}

/// Whom the runtime is to wake, if they sleep, because a worker is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Nobody: the server that made it ready will get to it soon, or somebody was woken already.
    Nobody,
    /// Any server that sleeps.
    One,
    /// This server, since no other will run the worker. An index that no server has means
    /// [`Wake::One`].
    Server(usize),
}

/// Decides which worker runs next, on which server.
///
/// The runtime calls these functions from servers, workers and other threads, all at once; none may
/// block for long. A worker that was given to [`Scheduler::ready`] must sooner or later be given
/// out by [`Scheduler::next`] of the same scheduler: nothing else runs it.
///
/// A scheduler cannot do harm to memory:
/// - Within these functions the caller counts as a plain thread. So nothing there switches: what
///   would wait blocks the server.
/// - A panic in one of them ends the process, as does a worker of another runtime that
///   [`Scheduler::next`] gives out.
/// - A worker that is never given out never runs, and its runtime does not end.
pub trait Scheduler: Send + Sync + 'static {
    /// Called once, before anything else: how many servers there are.
    fn start(&mut self, servers: usize);

    /// A worker is ready. `here` is the server on whose kernel thread that was done, if it was; the
    /// calling worker, if it is one, stays there meanwhile.
    fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake;

    /// The worker that the calling server is to run next; none if it has nothing to run.
    fn next(&self, here: &Here) -> Option<Runnable>;

    /// The server has made a bounded number of turns, or long ones, since this was last called: the
    /// next [`Scheduler::next`] should look at those first that might otherwise never have theirs.
    fn look_around(&self, _here: &Here) {}

    /// Whether [`Scheduler::next`] may give the calling server something: asked before it goes to
    /// sleep, after it has said that it will. So what `ready` was given before is seen.
    fn has_work(&self, here: &Here) -> bool;

    /// Whether the last worker that was made or woken on a server runs there next, before all
    /// others, without the scheduler's being asked: while what it shares with the one that woke it
    /// is in the cache. The runtime bounds how often in a row that happens, and gives the scheduler
    /// who falls out of that slot. Asked once.
    fn has_slots(&self) -> bool {
        false
    }

    /// Whether workers have ranks: then none waits while one that is less urgent runs on a server
    /// where it may run, if the runtime preempts. It needs [`Scheduler::rank`] and
    /// [`Scheduler::most_urgent`]. There are no slots then. Asked once.
    fn is_ranked(&self) -> bool {
        false
    }

    /// How urgent a worker is: less is more urgent; below `u64::MAX`. It does not change while the
    /// worker is ready. Asked with ranks only.
    fn rank(&self, _worker: &Runnable) -> u64 {
        0
    }

    /// The rank of the most urgent worker that waits here: of those that only this server may run,
    /// or of those that any server may; `u64::MAX` for none. Of both together [`Scheduler::next`]
    /// gives out the most urgent one. Asked with ranks only, after a call of it or of
    /// [`Scheduler::ready`], whose effect it is to see.
    fn most_urgent(&self, _server: Option<usize>) -> u64 {
        u64::MAX
    }
}
