//! Preemption by rank: no worker waits while a server runs a less urgent one.
//!
//! A rank is a number, and less is more urgent. Each server has a [`Post`]. It shows the rank of
//! the worker that the server runs, and the rank for which other threads have called the server. A
//! thread that makes a worker ready calls the server that runs the least urgent worker. A server
//! that was called already counts as running the worker it was called for. So several urgent
//! workers preempt several others.
//!
//! # Steps
//!
//! ```text
//!   a thread that makes a worker ready   a server
//!   ----------------------------------   --------
//!   P1 put it into the scheduler         S1 its worker has left: runs = NOBODY; fence
//!   P2 fence                             S2 take the most urgent worker; none: called = ANYBODY
//!   P3 the post with the greatest        S3 runs = its rank; called = NOBODY
//!      min(runs, called); if that is     S4 it was called: find workers that still wait (P2 to P5
//!      not above the rank: done             for the most urgent one); if that one is to run here,
//!   P4 called = min(called, rank)           put the other back, and choose again
//!   P5 runs is above the rank: preempt
//!      it; or if it is NOBODY, let it
//!      come; else again from P3
//! ```
//!
//! - R1: a server that was called has taken the most urgent worker. It may have done so before the
//!   worker it was called for was there. Or it was called for several at once, and one of them may
//!   run on no other server. Therefore S4. Each check calls one server, which checks in turn: so no
//!   worker is forgotten.
//! - R2: P4 and P5 are in the opposite order of S3: either S3 finds the call, or P5 finds the
//!   worker that runs.
//! - R3: a thread in P3 may find the rank of a server's last worker, though that worker has left.
//!   The thread's worker is then found in S2: there is a fence between each two.
//! - R4: a preemption may have no effect, where the server cannot be preempted just then. The watch
//!   sees that a post is overdue, and repeats it.
//! - R5: a superfluous call costs a switch, and puts the preempted worker behind those of its own
//!   rank. No less urgent worker runs because of it: the scheduler gives out the most urgent first.

use super::here::Here;
use super::sync::{AtomicU64, Ordering::*, full_fence};

/// Rank of no worker: less urgent than any worker.
pub(crate) const NOBODY: u64 = u64::MAX;
/// The rank of the least urgent worker.
const ANYBODY: u64 = NOBODY - 1;

/// The worker that a server runs, as other threads see it.
pub(crate) struct Post {
    runs: AtomicU64,
    /// The rank for which the server is to be preempted, or comes by itself.
    called: AtomicU64,
}

impl Post {
    /// The post of a server that has not begun: no thread calls it before it has chosen.
    pub(crate) fn new() -> Post {
        Post {
            runs: AtomicU64::new(0),
            called: AtomicU64::new(NOBODY),
        }
    }

    /// S1. Called by the server. Calling it again while no worker runs changes nothing.
    pub(crate) fn leave(&self) {
        if self.runs.load(Relaxed) == NOBODY {
            return;
        }
        self.runs.store(NOBODY, Relaxed);
        // ORDERING(rank.1): SeqCst, pairs with rank.2: either this server finds the worker, or the
        // other thread finds the post free.
        full_fence();
    }

    /// S2, if there is no worker. Forgets the rank it was called for, but not that it was called:
    /// another worker of that rank may have come meanwhile.
    fn rest(&self) {
        self.called.fetch_max(ANYBODY, Relaxed);
    }

    /// S3: returns whether the server was called.
    fn begin(&self, rank: u64) -> bool {
        self.runs.store(rank, Relaxed);
        // ORDERING(rank.3): AcqRel, pairs with rank.4: the worker that this server was called for
        // is seen from here on; a thread that calls later sees the rank that runs.
        self.called.swap(NOBODY, AcqRel) != NOBODY
    }

    /// Whether the server was to be preempted and has not been yet.
    pub(crate) fn is_overdue(&self) -> bool {
        let runs = self.runs.load(Relaxed);
        runs != NOBODY && runs > self.called.load(Relaxed)
    }

    fn urgency(&self) -> u64 {
        self.runs.load(Relaxed).min(self.called.load(Relaxed))
    }
}

/// A scheduler that ranks workers, and its servers. `only` names the one server that may run a
/// worker; where none is named, all servers may.
pub(crate) trait Ranked {
    type Runnable;

    /// How many servers, from the first on, run workers that any may run.
    fn servers(&self) -> usize;

    /// The server's post. None if the server has not begun.
    fn post(&self, server: usize) -> Option<&Post>;

    fn rank(&self, worker: &Self::Runnable) -> u64;

    /// Takes the most urgent worker that this server may run.
    fn next(&self, here: &Here) -> Option<Self::Runnable>;

    /// The rank of the most urgent worker; [`NOBODY`] for none.
    fn most_urgent(&self, only: Option<usize>) -> u64;

    /// Puts back a worker that has not begun to run after all, by P1 to P5.
    fn put_back(&self, worker: Self::Runnable, here: &Here);

    /// Preempts the worker that runs on a server.
    fn preempt(&self, server: usize);
}

/// P2 to P5, for a worker of this rank. Calls `preempt` with each server that is to be preempted.
pub(crate) fn call(
    ranked: &impl Ranked,
    only: Option<usize>,
    rank: u64,
    mut preempt: impl FnMut(usize),
) {
    // ORDERING(rank.2): SeqCst, pairs with rank.1.
    full_fence();
    let servers = only.map_or(0..ranked.servers(), |server| server..server + 1);
    loop {
        let posts = servers.clone().filter_map(|server| {
            ranked
                .post(server)
                .map(|post| (post.urgency(), server, post))
        });
        let Some((_, server, post)) = posts.max_by_key(|post| post.0).filter(|post| post.0 > rank)
        else {
            return;
        };
        // ORDERING(rank.4): Acquire, pairs with rank.3, and releases by the fence above.
        post.called.fetch_min(rank, Acquire);
        let runs = post.runs.load(Relaxed);
        if runs > rank {
            if runs != NOBODY {
                preempt(server);
            }
            return;
        }
    }
}

/// Calls again for the most urgent of the workers that any server may run: it may have been the
/// caller's, whose post counts no longer. A fence comes before.
pub(crate) fn call_again(ranked: &impl Ranked) {
    let rank = ranked.most_urgent(None);
    if rank != NOBODY {
        call(ranked, None, rank, |server| ranked.preempt(server));
    }
}

/// S1 to S4: returns the worker that the server is to run.
pub(crate) fn choose<R: Ranked>(ranked: &R, here: &Here, post: &Post) -> Option<R::Runnable> {
    loop {
        post.leave();
        let Some(worker) = ranked.next(here) else {
            post.rest();
            return None;
        };
        let called = post.begin(ranked.rank(&worker));
        if !called || !look_who_waits(ranked, here) {
            return Some(worker);
        }
        post.leave();
        ranked.put_back(worker, here);
    }
}

/// S4: true if the server has to choose again.
#[cold]
fn look_who_waits(ranked: &impl Ranked, here: &Here) -> bool {
    let mut again = false;
    for only in [Some(here.index()), None] {
        let rank = ranked.most_urgent(only);
        if rank != NOBODY {
            call(ranked, only, rank, |server| match server == here.index() {
                true => again = true,
                false => ranked.preempt(server),
            });
        }
    }
    again
}
