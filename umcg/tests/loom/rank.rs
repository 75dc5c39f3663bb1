//! Preemption by rank: one server that changes the worker it runs, one that does not, and threads
//! that make workers ready.

use crate::rt::here::Here;
use crate::rt::rank::{NOBODY, Post, Ranked, call, choose};
use crate::shim::atomic::AtomicU64;
use crate::{be, check, leak, party};
use std::sync::atomic::Ordering::*;

/// A scheduler whose workers are their ranks; a bit is set for each that waits.
struct World {
    posts: [Post; 2],
    ready: AtomicU64,
    /// The workers that may be run only by the server that changes its worker.
    bound: AtomicU64,
    /// Whether the server that changes nothing was preempted.
    preempted: AtomicU64,
}

impl Ranked for World {
    type Runnable = u64;

    fn servers(&self) -> usize {
        2
    }

    fn post(&self, server: usize) -> Option<&Post> {
        Some(&self.posts[server])
    }

    fn rank(&self, worker: &u64) -> u64 {
        *worker
    }

    /// As locks would have it; the first of each queue is seen without them.
    fn next(&self, here: &Here) -> Option<u64> {
        let bound = if here.index() == 0 {
            first(&self.bound)
        } else {
            NOBODY
        };
        let queue = if bound < first(&self.ready) {
            &self.bound
        } else {
            &self.ready
        };
        let mut ready = queue.load(Relaxed);
        while ready != 0 {
            match queue.compare_exchange(ready, ready & (ready - 1), AcqRel, Relaxed) {
                Ok(_) => return Some(u64::from(ready.trailing_zeros())),
                Err(newer) => ready = newer,
            }
        }
        None
    }

    fn most_urgent(&self, only: Option<usize>) -> u64 {
        match only {
            None => first(&self.ready),
            Some(0) => first(&self.bound),
            Some(_) => NOBODY,
        }
    }

    fn put_back(&self, worker: u64, _here: &Here) {
        self.make_ready(worker);
    }

    fn preempt(&self, server: usize) {
        if server == 1 {
            self.preempted.fetch_add(1, Relaxed);
        }
    }
}

fn first(queue: &AtomicU64) -> u64 {
    match queue.load(Relaxed) {
        0 => NOBODY,
        ready => u64::from(ready.trailing_zeros()),
    }
}

impl World {
    fn make_ready(&self, worker: u64) {
        self.ready.fetch_add(1 << worker, AcqRel);
        call(self, None, worker, |server| self.preempt(server));
    }
}

/// A server runs the first, which ends, and then the second, which is bound to it; another runs
/// `beside`. A worker of rank `urgent` becomes ready meanwhile.
fn ready_while_a_server_chooses(first: u64, second: u64, beside: u64, urgent: u64) {
    let none = || AtomicU64::new(0);
    let world = leak(World {
        posts: [Post::new(), Post::new()],
        ready: none(),
        bound: none(),
        preempted: none(),
    });
    // SAFETY: no other thread is the server by then.
    let begin = |server| choose(world, &unsafe { Here::new(server) }, &world.posts[server]);
    for (server, worker) in [(1, beside), (0, first)] {
        world.ready.fetch_add(1 << worker, AcqRel);
        assert_eq!(begin(server), Some(worker));
    }
    world.bound.fetch_add(1 << second, AcqRel);
    let (_, server) = party(true, move || {
        // SAFETY: used on this thread only.
        let here = unsafe { Here::new(0) };
        world.posts[0].leave();
        choose(world, &here, &world.posts[0]).unwrap_or(NOBODY)
    });
    be(true);
    world.make_ready(urgent);
    let runs = server.join().unwrap();
    let waits = world.most_urgent(None);
    // A server that finds no worker goes to sleep, and looks once more: that is not modelled here.
    // Nor are the consequences of a server's preemption.
    let is_served = world.posts[0].is_overdue() || world.preempted.load(Relaxed) > 0;
    assert!(
        is_served || runs == NOBODY || runs.max(beside) <= waits,
        "{waits} waits, {runs} and {beside} run"
    );
}

#[test]
fn the_urgent_wait_for_nobody() {
    check(2, || ready_while_a_server_chooses(3, 9, 2, 5));
    check(2, || ready_while_a_server_chooses(9, 4, 8, 5));
    check(2, || ready_while_a_server_chooses(9, 5, 8, 4));
}
