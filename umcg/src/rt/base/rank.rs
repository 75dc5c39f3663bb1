//! Preemption by rank: nobody waits while a server runs somebody less urgent.
//!
//! A rank is a number, and less is more urgent. Each server has a [`Post`], on which stands whom it
//! runs, and for whom others have called it. Who makes a worker ready calls the server that runs
//! the least urgent one, counting each that was called already as running whom it was called for:
//! so several urgent workers take the places of several.
//!
//! # Steps
//!
//! ```text
//!   who makes a worker ready             a server
//!   ------------------------             --------
//!   P1 put it into the scheduler         S1 whoever ran has left: runs = NOBODY; fence
//!   P2 fence                             S2 take the most urgent worker; none: called = anybody
//!   P3 the post with the greatest        S3 runs = its rank; called = NOBODY
//!      min(runs, called); if that is     S4 it was called: look who waits still (P2 to P5 for the
//!      not above the rank: done             most urgent one); if that one is to run here, put the
//!   P4 called = min(called, rank)           other back, and choose again
//!   P5 runs is above the rank: preempt
//!      it, or if it is NOBODY let it
//!      come; else again from P3
//! ```
//!
//! - R1: a server that was called has taken the most urgent worker, but perhaps before that one was
//!   there for which it was called; or it was called for several at once, for one that no other may
//!   run among them. Therefore S4. Each look calls one, who looks in turn: so nobody is forgotten.
//! - R2: P4 and P5 are in the opposite order of S3: either S3 finds the call, or P5 finds who runs.
//! - R3: who finds in P3 whom a server ran last, though that has left, is found itself in S2:
//!   between each two there is a fence.
//! - R4: a preemption may come to nothing, where the server cannot be preempted just then: the
//!   watch sees that a post is overdue, and repeats it.
//! - R5: a call too many costs a switch, and puts whoever is preempted behind those of its own
//!   rank. Nobody less urgent runs for it: the scheduler gives out the most urgent first.

use super::here::Here;
use super::sync::{AtomicU64, Ordering::*, fence};

/// Less urgent than any worker.
pub(crate) const NOBODY: u64 = u64::MAX;
/// As urgent as the least urgent worker.
const ANYBODY: u64 = NOBODY - 1;

/// What a server runs, as others see it.
pub(crate) struct Post {
    runs: AtomicU64,
    /// For whom it is to be preempted, or comes by itself.
    called: AtomicU64,
}

impl Post {
    /// Of a server that is not there yet: nobody calls it before it has chosen.
    pub(crate) fn new() -> Post {
        Post {
            runs: AtomicU64::new(0),
            called: AtomicU64::new(NOBODY),
        }
    }

    /// S1. By the server; again while nobody runs changes nothing.
    pub(crate) fn leave(&self) {
        if self.runs.load(Relaxed) == NOBODY {
            return;
        }
        self.runs.store(NOBODY, Relaxed);
        // ORDERING(rank.1): SeqCst, pairs with rank.2: either the worker is found here, or the post
        // is found free there.
        fence(SeqCst);
    }

    /// S2, where there is nobody. For whom it was called is over, but not that it was: somebody
    /// else may have come for whom it was called, too.
    fn rest(&self) {
        self.called.fetch_max(ANYBODY, Relaxed);
    }

    /// S3: whether it was called.
    fn begin(&self, rank: u64) -> bool {
        self.runs.store(rank, Relaxed);
        // ORDERING(rank.3): AcqRel, pairs with rank.4: for whom this was called is seen from here
        // on; and who calls later sees who runs.
        self.called.swap(NOBODY, AcqRel) != NOBODY
    }

    /// Whether it was to be preempted, and has not been yet.
    pub(crate) fn is_overdue(&self) -> bool {
        let runs = self.runs.load(Relaxed);
        runs != NOBODY && runs > self.called.load(Relaxed)
    }

    fn urgency(&self) -> u64 {
        self.runs.load(Relaxed).min(self.called.load(Relaxed))
    }
}

/// A scheduler that ranks workers, and its servers. `only` names the one server that may run a
/// worker; where none is named all may.
pub(crate) trait Ranked {
    type Worker;

    fn servers(&self) -> usize;

    /// None of one that is not there yet.
    fn post(&self, server: usize) -> Option<&Post>;

    fn rank(&self, worker: &Self::Worker) -> u64;

    /// Takes the most urgent worker that this server may run.
    fn next(&self, here: &Here) -> Option<Self::Worker>;

    /// The rank of the most urgent one; [`NOBODY`] for none.
    fn most_urgent(&self, only: Option<usize>) -> u64;

    /// P1 to P5, for a worker that has not begun to run after all.
    fn put_back(&self, worker: Self::Worker, here: &Here);

    /// Has a server take off whoever runs there.
    fn preempt(&self, server: usize);
}

/// P2 to P5, for a worker of this rank. `preempt` is called with the servers that are to be
/// preempted.
pub(crate) fn call(
    ranked: &impl Ranked,
    only: Option<usize>,
    rank: u64,
    mut preempt: impl FnMut(usize),
) {
    // ORDERING(rank.2): SeqCst, pairs with rank.1.
    fence(SeqCst);
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

/// S1 to S4: whom the server is to run.
pub(crate) fn choose<R: Ranked>(ranked: &R, here: &Here, post: &Post) -> Option<R::Worker> {
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

/// S4: true when the server has to choose again.
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
