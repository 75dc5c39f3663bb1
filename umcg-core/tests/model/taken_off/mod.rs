//! Workers that are stuck and taken off their servers (`umcg/stuck.rs`). Each worker that leaves
//! has a helper, and in the end no helper is lost, whatever becomes of the requests.
//!
//! The looker's steps, the request, the handler's end and the pool of helpers are the sources' own.
//! Here are the servers, and signals that come between any two of their steps.

pub(crate) mod frame;
mod parts;
mod preempt;
#[path = "../../../src/umcg/stuck.rs"]
mod stuck;
#[path = "../../../src/umcg/stuck_request.rs"]
mod stuck_request;

use crate::helper::maker::PATIENCE;
use crate::{check, idle, kernel};
use helper::pool::{HelperPool, IDLE, PoolCallbacks};
use helper::{POOL, maker};
use parts::{Role, blocking, role_beneath, server, thread, tick, worker};
use server::Server;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{spawn, yield_now};
use shuttle::{future, lazy_static};
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::SeqCst};
use stuck_request::StuckRequest;
use worker::{Carrier, Worker};

/// The pool as the sources have it, for these workers.
#[path = "../../../src/umcg/helper"]
mod helper {
    pub(crate) mod maker;
    pub(crate) mod pool;

    shuttle::lazy_static! {
        pub(crate) static ref POOL: pool::HelperPool = super::new_pool();
    }
}

lazy_static! {
    static ref SERVERS: [Server; 2] = std::array::from_fn(new_server);
    static ref HELPERS: AtomicUsize = AtomicUsize::new(0);
}

/// Helpers that there may be while the time stands still.
const MOST: usize = 1;

fn new_server(number: usize) -> Server {
    Server {
        current: crate::link::Link::none(),
        turns: crate::sync::AtomicU64::new(0),
        asked: AtomicU64::new(0),
        tick: tick::Tick {
            tid: AtomicI32::new(number as i32),
            stuck: StuckRequest::new(),
            is_pending: crate::sync::AtomicBool::new(false),
        },
    }
}

fn new_pool() -> HelperPool {
    HelperPool::new(PoolCallbacks {
        most: || MOST,
        make_maker,
        make_helper,
        notice: |_, _| {},
    })
}

fn make_maker(pool: &'static HelperPool) -> bool {
    // The maker never ends, and the checker lets only futures be left running.
    drop(future::spawn(async move { maker::main(pool) }));
    true
}

fn make_helper(pool: &'static HelperPool) -> bool {
    HELPERS.fetch_add(1, SeqCst);
    drop(spawn(move || {
        while let Some(worker) = pool.next_job() {
            worker.come_back();
            pool.came_back();
        }
        HELPERS.fetch_sub(1, SeqCst);
    }));
    true
}

/// True once in so many times.
fn rolls(times: u32) -> bool {
    thread_rng().gen_range(0..times) == 0
}

/// Runs each worker for a turn, in which signals may come.
fn serve(server: &'static Server, workers: Vec<&'static Worker>) {
    for worker in workers {
        preempt::may_come(server);
        server.current.publish(worker);
        server.turns.fetch_add(1, SeqCst);
        for _ in 0..4 {
            if !worker.has_left.load(SeqCst) {
                preempt::may_come(server);
            }
        }
        server.current.set(None);
        if worker.is_submitted() {
            POOL.submit(worker);
        }
    }
}

/// The looker: takes each worker that runs for one that is stuck.
fn look(server: &'static Server) {
    stuck::settle(server);
    let turn = server.turns.load(SeqCst);
    if server.current.see().is_some() && server.turns.load(SeqCst) == turn {
        server.asked.fetch_or(1 << turn, SeqCst);
        stuck::ask(server, turn);
    }
}

/// Servers run these workers while the looker looks.
fn looked_at<const COUNT: usize>(workers: [Vec<&'static Worker>; COUNT]) {
    let all = workers.concat();
    let servers = || SERVERS.iter().take(COUNT);
    let begin = |(server, workers)| spawn(move || serve(server, workers));
    let threads: Vec<_> = servers().zip(workers).map(begin).collect();
    for _ in 0..4 {
        servers().for_each(look);
        yield_now();
    }
    for thread in threads {
        thread.join().unwrap();
    }
    servers().for_each(stuck::settle);
    end(&all);
    // A helper that was given back twice would be promised to this one, and not be there.
    let last = Worker::new(Carrier::Owning, 0);
    last.has_left.store(true, SeqCst);
    assert!(POOL.reserve());
    POOL.submit(last);
    end(&[last]);
}

/// Each of these workers that has left comes back, and then all helpers end: one that is lost is a
/// model without an end.
fn end(workers: &[&'static Worker]) {
    while POOL.waits_since().is_some() {
        kernel::advance(kernel::now() + PATIENCE);
        yield_now();
    }
    workers
        .iter()
        .filter(|worker| worker.is_submitted())
        .for_each(|worker| worker.await_back());
    while HELPERS.load(SeqCst) > 0 {
        kernel::advance(kernel::now() + IDLE);
        yield_now();
    }
}

fn light(scopes: u32) -> &'static Worker {
    Worker::new(Carrier::Owning, scopes)
}

#[test]
fn no_helper_is_lost() {
    check(|| looked_at([vec![light(0)]]));
    check(|| looked_at([vec![light(0), light(0)], vec![light(0)]]));
}

#[test]
fn a_worker_that_stays_in_its_scope_gives_the_helper_back() {
    check(|| looked_at([vec![light(1), light(0)]]));
}

#[test]
fn threads_and_workers_without_storage_need_none() {
    check(|| {
        let of = |carrier| Worker::new(carrier, 0);
        looked_at([vec![of(Carrier::Moving), light(0), of(Carrier::Sharing)]]);
    });
}
