//! The pool of helpers and its maker. Each worker that blocks has a helper or is told that there is
//! none. There are no more helpers than there may be as long as one comes back. Workers that wait
//! for each other get further helpers. In the end all helpers end.

use crate::helper::maker::{self, PATIENCE};
use crate::helper::pool::{HelperPool, IDLE, PoolCallbacks};
use crate::{check, kernel};
use shuttle::rand::{Rng, thread_rng};
use shuttle::{future, lazy_static, thread};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use worker::Worker;

pub(crate) mod worker {
    use crate::link::Link;
    use crate::sync::{AtomicU32, futex_wait_until, futex_wake};
    use std::sync::atomic::Ordering::Relaxed;

    /// A worker that blocks: until another one has come back, or for no time.
    pub(crate) struct Worker {
        pub(crate) next_job: Link<Worker>,
        waits_for: Option<&'static Worker>,
        is_back: AtomicU32,
    }

    impl Worker {
        pub(crate) fn new(waits_for: Option<&'static Worker>) -> &'static Worker {
            Box::leak(Box::new(Worker {
                next_job: Link::none(),
                waits_for,
                is_back: AtomicU32::new(0),
            }))
        }

        /// Run by its helper, or by its server if it has none.
        pub(crate) fn block(&self) {
            self.waits_for.inspect(|other| other.wait());
            assert_eq!(self.is_back.swap(1, Relaxed), 0, "one worker, two helpers");
            futex_wake(&self.is_back, u32::MAX >> 1);
        }

        pub(crate) fn wait(&self) {
            while !self.is_back() {
                let _ = futex_wait_until(&self.is_back, 0, u64::MAX);
            }
        }

        pub(crate) fn is_back(&self) -> bool {
            self.is_back.load(Relaxed) != 0
        }
    }
}

/// The state outside of the pool. Plain numbers: the checker switches at the operations of the pool
/// only.
#[derive(Default)]
struct World {
    helpers: AtomicUsize,
    bound: AtomicUsize,
    /// How often enough time has passed for one helper to be made beyond the bound.
    moments: AtomicUsize,
    /// The system gives a thread only now and then.
    is_short: AtomicBool,
}

lazy_static! {
    static ref WORLD: World = World::default();
}

impl World {
    fn refuses(&self) -> bool {
        self.is_short.load(Relaxed) && thread_rng().gen_range(0..2) == 0
    }
}

fn bound() -> usize {
    WORLD.bound.load(Relaxed)
}

fn make_maker(pool: &'static HelperPool) -> bool {
    !WORLD.refuses() && {
        // The maker never ends, and the checker lets only futures be left running.
        drop(future::spawn(async move { maker::main(pool) }));
        true
    }
}

fn make_helper(pool: &'static HelperPool) -> bool {
    if WORLD.refuses() {
        return false;
    }
    let helpers = WORLD.helpers.fetch_add(1, Relaxed) + 1;
    assert!(
        helpers <= bound() + WORLD.moments.load(Relaxed),
        "too many helpers"
    );
    drop(thread::spawn(move || {
        while let Some(worker) = pool.next_job() {
            worker.block();
            pool.came_back();
        }
        WORLD.helpers.fetch_sub(1, Relaxed);
    }));
    true
}

fn notice(helpers: usize, waiting: usize) {
    assert!(WORLD.is_short.load(Relaxed) || (waiting > 0 && helpers >= bound()));
}

fn pool(bound: usize) -> &'static HelperPool {
    WORLD.bound.store(bound, Relaxed);
    Box::leak(Box::new(HelperPool::new(PoolCallbacks {
        most: self::bound,
        make_maker,
        make_helper,
        notice,
    })))
}

/// A server that sees this worker block. Joining it tells whether the worker had a helper.
fn serve(pool: &'static HelperPool, worker: &'static Worker) -> thread::JoinHandle<bool> {
    thread::spawn(move || {
        let has_claim = pool.reserve();
        if has_claim {
            pool.submit(worker);
        } else {
            worker.block();
        }
        has_claim
    })
}

/// Lets time pass until all workers are back.
fn pass_time_for(workers: &[&'static Worker]) {
    while !workers.iter().all(|worker| worker.is_back()) {
        WORLD.moments.fetch_add(1, Relaxed);
        kernel::advance(kernel::now() + PATIENCE);
        thread::yield_now();
    }
}

/// No helper is left behind: those beyond the bound end at once, the others after some time.
fn end(pool: &'static HelperPool) {
    while WORLD.helpers.load(Relaxed) > bound() {
        thread::yield_now();
    }
    assert_eq!(pool.waits_since(), None, "a claim without a worker");
    while WORLD.helpers.load(Relaxed) > 0 {
        kernel::advance(kernel::now() + IDLE);
        thread::yield_now();
    }
}

/// While helpers come back, there are no more than there may be: time stands still.
#[test]
fn each_worker_has_a_helper() {
    check(|| {
        let pool = pool(2);
        let workers = [(); 4].map(|()| Worker::new(None));
        let servers = workers.map(|worker| serve(pool, worker));
        assert!(
            servers
                .map(|server| server.join().unwrap())
                .iter()
                .all(|had| *had)
        );
        workers.iter().for_each(|worker| worker.wait());
        end(pool);
    });
}

/// All helpers wait for a worker that waits for a helper.
#[test]
fn workers_that_wait_for_each_other_go_on_beyond_the_bound() {
    check(|| {
        let pool = pool(1);
        let last = Worker::new(None);
        let second = Worker::new(Some(last));
        let workers = [Worker::new(Some(second)), second, last];
        let servers = workers.map(|worker| serve(pool, worker));
        pass_time_for(&workers);
        assert!(
            servers
                .map(|server| server.join().unwrap())
                .iter()
                .all(|had| *had)
        );
        end(pool);
    });
}

/// If the system gives a thread only now and then, a worker has either a valid claim or none.
#[test]
fn refusals_lose_no_claim() {
    check(|| {
        let pool = pool(1);
        WORLD.is_short.store(true, Relaxed);
        let first = Worker::new(None);
        let workers = [Worker::new(Some(first)), first, Worker::new(None)];
        let servers = workers.map(|worker| serve(pool, worker));
        pass_time_for(&workers);
        servers
            .into_iter()
            .for_each(|server| _ = server.join().unwrap());
        end(pool);
    });
}
