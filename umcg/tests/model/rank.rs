//! Preemption by rank.

use crate::check;
use crate::parties::join_all;
use crate::rt::here::Here;
use crate::rt::rank::{NOBODY, Post, Ranked, call, call_again, choose};
use shuttle::rand::Rng;
use shuttle::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use shuttle::sync::{Condvar, Mutex, MutexGuard};
use shuttle::thread;

#[derive(Clone, Copy)]
struct Worker {
    rank: u64,
    /// The one server that may run it.
    only: Option<usize>,
    /// It ends as soon as it has begun.
    is_short: bool,
}

/// The state of a server.
#[derive(Clone, Copy, PartialEq)]
enum Doing {
    Something,
    Runs(u64),
    Sleeps,
}

struct State {
    ready: Vec<Worker>,
    doing: Vec<Doing>,
    /// Its worker has been signaled.
    preempted: Vec<bool>,
    /// Its worker ends.
    ends: Vec<bool>,
    /// It is to become inactive.
    told: Vec<bool>,
    /// It has, and runs its own workers only.
    left: Vec<bool>,
    pushers: usize,
    over: bool,
}

impl State {
    /// Where the most urgent worker stands.
    fn find(&self, fits: impl Fn(&Worker) -> bool) -> Option<usize> {
        (0..self.ready.len())
            .filter(|&index| fits(&self.ready[index]))
            .min_by_key(|&index| self.ready[index].rank)
    }

    fn find_for(&self, server: usize) -> Option<usize> {
        self.find(|worker| self.may_run(worker, server))
    }

    fn may_run(&self, worker: &Worker, server: usize) -> bool {
        worker
            .only
            .map_or(!self.left[server], |only| only == server)
    }

    /// Whether nothing happens any more.
    fn is_still(&self) -> bool {
        let is_still = |server: usize| match self.doing[server] {
            Doing::Something => false,
            _ if self.told[server] => false,
            Doing::Runs(_) => !self.preempted[server] && !self.ends[server],
            // A signal may have come too late for the worker that ran: no thread looks at it.
            Doing::Sleeps => self.find_for(server).is_none(),
        };
        self.pushers == 0 && (0..self.doing.len()).all(is_still)
    }
}

/// A scheduler, its servers, and the threads that make workers ready.
struct World {
    posts: Vec<Post>,
    active: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
    /// One signal in this many is lost; 0 for none.
    lost: u32,
}

impl Ranked for World {
    type Runnable = Worker;

    fn servers(&self) -> usize {
        self.active.load(Relaxed)
    }

    fn post(&self, server: usize) -> Option<&Post> {
        Some(&self.posts[server])
    }

    fn rank(&self, worker: &Worker) -> u64 {
        worker.rank
    }

    fn next(&self, here: &Here) -> Option<Worker> {
        let mut state = self.state();
        let first = state.find_for(here.index())?;
        Some(state.ready.remove(first))
    }

    fn most_urgent(&self, only: Option<usize>) -> u64 {
        let state = self.state();
        state
            .find(|worker| worker.only == only)
            .map_or(NOBODY, |first| state.ready[first].rank)
    }

    fn put_back(&self, worker: Worker, _here: &Here) {
        self.make_ready(worker);
    }

    fn preempt(&self, server: usize) {
        if self.lost == 0 || !shuttle::rand::thread_rng().gen_ratio(1, self.lost) {
            self.state().preempted[server] = true;
            self.changed.notify_all();
        }
    }
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn make_ready(&self, worker: Worker) {
        self.state().ready.push(worker);
        self.changed.notify_all();
        call(self, worker.only, worker.rank, |server| {
            self.preempt(server)
        });
    }

    /// The last server is told to become inactive.
    fn tell(&self) {
        let last = self.posts.len() - 1;
        self.active.store(last, Relaxed);
        let mut state = self.state();
        (state.told[last], state.preempted[last]) = (true, true);
        self.changed.notify_all();
    }

    /// Whether the server, which was told, becomes inactive now.
    fn leaves(&self, server: usize) -> bool {
        let mut state = self.state();
        let is_told = std::mem::take(&mut state.told[server]);
        state.left[server] |= is_told;
        is_told
    }

    fn serve(&self, server: usize) {
        // SAFETY: used on this thread only.
        let here = unsafe { Here::new(server) };
        let post = &self.posts[server];
        loop {
            if self.leaves(server) {
                call_again(self);
            }
            let chosen = choose(self, &here, post);
            let mut state = self.state();
            let doing = match chosen {
                // A signal for the worker that ran before is for none now, or comes late.
                Some(worker) if worker.is_short => Doing::Something,
                Some(worker) => Doing::Runs(worker.rank),
                None => Doing::Sleeps,
            };
            while !state.over && doing != Doing::Something {
                let is_woken = match doing {
                    Doing::Sleeps => state.find_for(server).is_some() || state.told[server],
                    _ => state.preempted[server] || state.ends[server],
                };
                if is_woken {
                    break;
                }
                if state.doing[server] != doing {
                    state.doing[server] = doing;
                    self.changed.notify_all();
                }
                state = self.changed.wait(state).unwrap();
            }
            if state.over {
                return;
            }
            state.doing[server] = Doing::Something;
            let is_preempted = std::mem::take(&mut state.preempted[server]);
            let ends = std::mem::take(&mut state.ends[server]);
            drop(state);
            if let Some(worker) = chosen {
                post.leave();
                if is_preempted && !ends && !worker.is_short {
                    self.make_ready(worker);
                }
            }
        }
    }

    /// Waits until nothing happens any more; then no worker may wait while a less urgent one runs.
    fn settle(&self) {
        loop {
            let mut state = self.state();
            while !state.is_still() {
                state = self.changed.wait(state).unwrap();
            }
            // The work of the watch.
            if let Some(server) =
                (0..self.posts.len()).find(|&server| self.posts[server].is_overdue())
            {
                assert_ne!(self.lost, 0, "server {server} was to be preempted");
                state.preempted[server] = true;
                self.changed.notify_all();
                continue;
            }
            for worker in &state.ready {
                for server in (0..self.posts.len()).filter(|&server| state.may_run(worker, server))
                {
                    let Doing::Runs(runs) = state.doing[server] else {
                        unreachable!("it sleeps over work")
                    };
                    assert!(
                        runs <= worker.rank,
                        "{} waits, and {runs} runs on server {server}",
                        worker.rank
                    );
                }
            }
            return;
        }
    }

    fn begin(servers: usize, lost: u32) -> &'static World {
        let state = State {
            ready: Vec::new(),
            doing: vec![Doing::Something; servers],
            preempted: vec![false; servers],
            ends: vec![false; servers],
            told: vec![false; servers],
            left: vec![false; servers],
            pushers: 0,
            over: false,
        };
        Box::leak(Box::new(World {
            posts: (0..servers).map(|_| Post::new()).collect(),
            active: AtomicUsize::new(servers),
            state: Mutex::new(state),
            changed: Condvar::new(),
            lost,
        }))
    }

    /// Servers with these workers, then those of each pusher, and `besides`.
    fn run(&'static self, first: &[Worker], pushers: &[&[Worker]], besides: impl Fn(&World)) {
        let running: Vec<_> = (0..self.posts.len())
            .map(|server| thread::spawn(move || self.serve(server)))
            .collect();
        first.iter().for_each(|worker| self.make_ready(*worker));
        self.settle();
        self.state().pushers = pushers.len();
        let push = |workers: &&[Worker]| {
            let workers = workers.to_vec();
            thread::spawn(move || {
                workers.iter().for_each(|worker| self.make_ready(*worker));
                self.state().pushers -= 1;
                self.changed.notify_all();
            })
        };
        let pushing: Vec<_> = pushers.iter().map(push).collect();
        besides(self);
        join_all(pushing);
        self.settle();
        self.state().over = true;
        self.changed.notify_all();
        join_all(running);
    }
}

fn long(rank: u64) -> Worker {
    Worker {
        rank,
        only: None,
        is_short: false,
    }
}

fn short(rank: u64) -> Worker {
    Worker {
        is_short: true,
        ..long(rank)
    }
}

fn bound(server: usize, rank: u64) -> Worker {
    Worker {
        only: Some(server),
        ..long(rank)
    }
}

/// This many servers with these workers, and then those of each pusher. One worker `ends` then.
fn the_urgent_run(servers: usize, lost: u32, first: &[Worker], pushers: &[&[Worker]], ends: bool) {
    let world = World::begin(servers, lost);
    world.run(first, pushers, |world| {
        world.state().ends[0] = ends;
        world.changed.notify_all();
    });
}

/// The same, and the last server becomes inactive then.
fn one_leaves(servers: usize, first: &[Worker], pushers: &[&[Worker]]) {
    World::begin(servers, 0).run(first, pushers, World::tell);
}

#[test]
fn several_take_the_places_of_several() {
    check(|| {
        the_urgent_run(
            2,
            0,
            &[long(245), long(235)],
            &[&[long(55), long(54)]],
            false,
        )
    });
    check(|| {
        the_urgent_run(
            2,
            0,
            &[long(245), long(235)],
            &[&[long(55)], &[long(54)]],
            false,
        )
    });
    check(|| {
        the_urgent_run(
            3,
            0,
            &[long(9), long(8), long(7)],
            &[&[long(3), long(1)], &[long(2)]],
            false,
        )
    });
}

/// Some servers sleep, and others run the less urgent.
#[test]
fn beside_servers_that_sleep() {
    check(|| the_urgent_run(2, 0, &[long(245)], &[&[long(55)], &[long(54)]], false));
    check(|| {
        the_urgent_run(
            3,
            0,
            &[long(9), long(8)],
            &[&[long(3), short(1)], &[long(2), long(4)]],
            false,
        )
    });
}

/// Others end meanwhile, or are short.
#[test]
fn others_come_and_go() {
    check(|| {
        the_urgent_run(
            2,
            0,
            &[long(3), long(9), long(5)],
            &[&[long(4), short(1)], &[long(6)]],
            true,
        )
    });
    check(|| {
        the_urgent_run(
            2,
            0,
            &[long(1), long(2), long(7), long(8)],
            &[&[long(6)], &[short(0)]],
            true,
        )
    });
}

/// Some may run on one server only.
#[test]
fn those_bound_to_a_server() {
    check(|| {
        the_urgent_run(
            2,
            0,
            &[bound(0, 9), bound(1, 8)],
            &[&[long(5)], &[bound(0, 4)]],
            false,
        )
    });
    check(|| {
        the_urgent_run(
            2,
            0,
            &[bound(0, 9), bound(1, 8)],
            &[&[long(5)], &[bound(0, 4)]],
            true,
        )
    });
    check(|| {
        the_urgent_run(
            2,
            0,
            &[long(9), long(8)],
            &[&[bound(0, 5), long(3)], &[bound(0, 4)]],
            true,
        )
    });
    check(|| {
        the_urgent_run(
            2,
            0,
            &[bound(1, 9)],
            &[&[bound(1, 5), long(6)], &[bound(0, 7)]],
            false,
        )
    });
}

/// Signals come to nothing, and the watch repeats them.
#[test]
fn signals_are_lost() {
    check(|| {
        the_urgent_run(
            2,
            2,
            &[long(9), long(8)],
            &[&[long(5), long(3)], &[long(4)]],
            false,
        )
    });
    check(|| {
        the_urgent_run(
            2,
            1,
            &[long(9), bound(1, 8)],
            &[&[long(5), bound(1, 3)], &[long(4)]],
            true,
        )
    });
}

/// The last server becomes inactive while urgent workers come, for one of which it may be called.
#[test]
fn a_server_leaves() {
    check(|| one_leaves(2, &[long(9)], &[&[long(3)]]));
    check(|| one_leaves(2, &[long(9), long(8)], &[&[long(3)], &[bound(1, 5)]]));
    check(|| one_leaves(3, &[long(9), long(8), long(7)], &[&[long(3)], &[long(4)]]));
}
