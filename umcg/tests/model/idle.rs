//! Idle servers.

use crate::parties::join_all;
use crate::rt::idle::idle;
use crate::rt::run::turns;
use crate::rt::runtime::RuntimeState;
use crate::rt::scheduler::WorkStealing;
use crate::rt::server::ServerState;
use crate::{check, kernel};
use shuttle::thread;
use std::cell::Cell;
use umcg_core::raw;

shuttle::thread_local! {
    static CURRENT: Cell<Option<&'static RuntimeState>> = const { Cell::new(None) };
}

/// The runtime of the calling server.
pub(crate) fn current() -> &'static RuntimeState {
    CURRENT.with(Cell::get).expect("a timer on no server")
}

/// Servers as the library has them: run the ready workers, and be idle.
pub(crate) fn serve(shared: &'static RuntimeState) -> Vec<thread::JoinHandle<()>> {
    let server = |index| {
        thread::spawn(move || {
            CURRENT.with(|current| current.set(Some(shared)));
            let local = ServerState::new(index, Some(shared));
            while !shared.is_over() {
                match turns::next(&local, raw::Server) {
                    Some(worker) => local.run(raw::Server, worker),
                    None => idle(&local, raw::Server),
                }
            }
        })
    };
    (0..shared.servers.len()).map(server).collect()
}

pub(crate) fn end(shared: &'static RuntimeState, servers: Vec<thread::JoinHandle<()>>) {
    shared.end();
    join_all(servers);
}

/// This many threads make a worker ready each; each is run, though nothing else wakes a server.
fn all_are_run(servers: usize, pushers: usize, together: usize, has_sources: bool) {
    let shared = RuntimeState::new(servers, together, has_sources);
    let running = serve(shared);
    let pushers: Vec<_> = (0..pushers)
        .map(|_| thread::spawn(|| shared.push()))
        .collect();
    let count = pushers.len();
    join_all(pushers);
    shared.wait_for(count);
    end(shared, running);
}

#[test]
fn one_server_sleeps_over_nothing() {
    check(|| all_are_run(1, 1, 0, false));
    check(|| all_are_run(1, 2, 0, true));
}

#[test]
fn several_servers_sleep_over_nothing() {
    check(|| all_are_run(2, 2, 0, false));
    check(|| all_are_run(3, 3, 0, true));
}

/// Workers that end only when all of them run: a server that takes one must not be the only one
/// awake.
#[test]
fn work_in_bulk_wakes_all() {
    check(|| all_are_run(2, 2, 2, false));
    check(|| all_are_run(3, 3, 3, true));
}

/// Likewise of workers that are back from the kernel, of which the scheduler does not know yet.
/// Those that servers have taken may be found by patrols.
#[test]
fn events_in_bulk_wake_all() {
    fn from_one(servers: usize, shared: &'static RuntimeState) {
        let running = serve(shared);
        while shared.sleepers.asleep() + 1 < servers {
            kernel::advance(kernel::now() + 30_000);
            thread::yield_now();
        }
        (0..servers).for_each(|_| shared.post_event());
        pass_until_run(shared, servers);
        end(shared, running);
    }
    check(|| from_one(3, RuntimeState::new(3, 3, false)));
    check(|| {
        let scheduler = WorkStealing::new();
        from_one(3, RuntimeState::with_scheduler(scheduler, 3, 3, false));
    });
}

/// The same where one searches and the others sleep when the work comes, all of it from one thread.
#[test]
fn a_searcher_wakes_another() {
    fn from_one(servers: usize) {
        let shared = RuntimeState::new(servers, servers, false);
        let running = serve(shared);
        while shared.sleepers.asleep() + 1 < servers {
            thread::yield_now();
        }
        (0..servers).for_each(|_| shared.push());
        shared.wait_for(servers);
        end(shared, running);
    }
    check(|| from_one(2));
    check(|| from_one(3));
}

/// A deadline is kept by the server that has it, on its word or in the driver.
#[test]
fn a_deadline_is_kept() {
    fn kept(has_sources: bool) {
        let shared = RuntimeState::new(2, 0, has_sources);
        shared.servers[0].timers.arm(10);
        let running = serve(shared);
        let clock = thread::spawn(|| [5, 10].map(kernel::advance));
        shared.wait_for(1);
        clock.join().unwrap();
        end(shared, running);
    }
    check(|| kept(false));
    check(|| kept(true));
}

/// The watch waits in the driver as well, and may take a wake-up that was for a server.
#[test]
fn another_one_polls() {
    fn beside(servers: usize) {
        let shared = RuntimeState::new(servers, 0, true);
        let running = serve(shared);
        let watch = thread::spawn(|| shared.driver.poll(None));
        let pusher = thread::spawn(|| shared.push());
        pusher.join().unwrap();
        shared.wait_for(1);
        end(shared, running);
        shared.driver.wake();
        watch.join().unwrap();
    }
    check(|| beside(1));
    check(|| beside(2));
}

/// The time passes until so many workers have begun.
pub(crate) fn pass_until_run(shared: &'static RuntimeState, count: usize) {
    while shared.count_run() < count {
        kernel::advance(kernel::now() + 30_000);
        thread::yield_now();
    }
}

/// Servers that go on patrol. Workers that a running one has woken on its server are run, though
/// that is left for patrols to find. All of them have to run at once. Some servers steal whatever
/// they find.
fn found(servers: usize, outside: usize, stealing: usize) {
    let scheduler = WorkStealing::new();
    scheduler.patrol().spread(stealing);
    let shared = RuntimeState::with_scheduler(scheduler, servers, servers, false);
    let running = serve(shared);
    let pusher = thread::spawn(move || (0..outside).for_each(|_| shared.push()));
    shared.push_parent(servers - 1 - outside);
    pass_until_run(shared, servers);
    pusher.join().unwrap();
    end(shared, running);
}

#[test]
fn patrols_find_all() {
    check(|| found(2, 0, 0));
    check(|| found(3, 0, 0));
    check(|| found(3, 1, 0));
    check(|| found(4, 1, 0));
    check(|| found(2, 0, 2));
    check(|| found(3, 1, 2));
}

/// With so many servers, one is woken that leaves what it finds first, and takes a worker later.
#[test]
fn patrols_woken_in_vain_wake_others() {
    check(|| found(5, 1, 0));
}
