//! Servers that become inactive, and active again.

use crate::check;
use crate::idle::{end, pass_until_run, serve};
use crate::rt::run::inactive::set_active;
use crate::rt::runtime::RuntimeState;
use crate::rt::scheduler::{Count, Scheduler, WorkStealing};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;

/// The watch, which makes so many servers active, one number after the other.
fn watch(shared: &'static RuntimeState, counts: &'static [usize]) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for count in counts {
            (0..thread_rng().gen_range(0..4)).for_each(|_| thread::yield_now());
            set_active(shared, *count);
        }
    })
}

/// Workers become ready while servers leave and come back. All are run, and so many of them
/// together.
fn all_are_run(
    scheduler: impl Scheduler,
    servers: usize,
    counts: &'static [usize],
    together: usize,
    has_sources: bool,
) {
    let shared = RuntimeState::with_scheduler(scheduler, servers, together, has_sources);
    let running = serve(shared);
    let watch = watch(shared, counts);
    let pusher = thread::spawn(|| (0..2).for_each(|_| shared.push()));
    shared.push();
    pusher.join().unwrap();
    watch.join().unwrap();
    pass_until_run(shared, 3);
    shared.wait_for(3);
    end(shared, running);
}

#[test]
fn servers_that_leave_lose_nothing() {
    check(|| all_are_run(Count::default(), 2, &[1], 0, false));
    check(|| all_are_run(WorkStealing::new(), 2, &[1], 0, false));
    check(|| all_are_run(WorkStealing::new(), 3, &[2, 1], 0, true));
}

#[test]
fn servers_that_come_back_take_part() {
    check(|| all_are_run(Count::default(), 3, &[1, 3], 3, false));
    check(|| all_are_run(WorkStealing::new(), 3, &[1, 3], 3, false));
    check(|| all_are_run(WorkStealing::new(), 3, &[2, 1, 3], 3, true));
}

/// A server leaves, and has a worker of its own that runs for as long as another one waits: that
/// one is run elsewhere.
#[test]
fn a_worker_of_its_own_keeps_no_other_waiting() {
    fn beside(scheduler: impl Scheduler, servers: usize) {
        let shared = RuntimeState::with_scheduler(scheduler, servers, 2, false);
        shared.let_bound_wait();
        let running = serve(shared);
        let watch = watch(shared, &[1]);
        let pusher = thread::spawn(|| shared.push());
        shared.push_bound(servers - 1);
        pusher.join().unwrap();
        watch.join().unwrap();
        shared.wait_for(2);
        end(shared, running);
    }
    check(|| beside(WorkStealing::new(), 2));
    check(|| beside(WorkStealing::new(), 3));
}

/// A worker that is bound to an inactive server is run there, however deep it rests.
#[test]
fn a_bound_worker_is_run() {
    fn bound() {
        let shared = RuntimeState::with_scheduler(WorkStealing::new(), 2, 0, false);
        let running = serve(shared);
        set_active(shared, 1);
        while !(0..2).any(|_| shared.sleepers.are_all_asleep()) {
            thread::yield_now();
        }
        shared.push_bound(1);
        shared.wait_for(1);
        end(shared, running);
    }
    check(bound);
}

/// A worker on a server that leaves makes others ready there, for which that has no time.
#[test]
fn what_it_makes_ready_is_run_elsewhere() {
    fn elsewhere(servers: usize, brood: usize) {
        let shared = RuntimeState::with_scheduler(WorkStealing::new(), servers, brood + 1, false);
        let running = serve(shared);
        let watch = watch(shared, &[1, 2]);
        shared.push_parent(brood);
        pass_until_run(shared, brood + 1);
        watch.join().unwrap();
        end(shared, running);
    }
    check(|| elsewhere(2, 1));
    check(|| elsewhere(3, 1));
}

/// A worker that yields on a server that leaves, which nobody is told of, goes on elsewhere.
#[test]
fn a_worker_that_yields_is_run_elsewhere() {
    fn elsewhere(scheduler: impl Scheduler, counts: &'static [usize]) {
        let shared = RuntimeState::with_scheduler(scheduler, 2, 0, false);
        let running = serve(shared);
        let watch = watch(shared, counts);
        shared.let_yield(3);
        shared.push();
        shared.wait_for(1);
        watch.join().unwrap();
        end(shared, running);
    }
    check(|| elsewhere(WorkStealing::new(), &[1]));
    check(|| elsewhere(WorkStealing::new(), &[1, 2, 1]));
    check(|| elsewhere(Count::default(), &[1]));
}

/// A bound worker hands over to another one, which yields there.
#[test]
fn a_worker_that_is_handed_over_to_is_run_elsewhere() {
    fn elsewhere(has_sources: bool) {
        let shared = RuntimeState::with_scheduler(WorkStealing::new(), 2, 0, has_sources);
        let running = serve(shared);
        let watch = watch(shared, &[1]);
        shared.let_yield(1);
        shared.push_bound(1);
        shared.wait_for(2);
        watch.join().unwrap();
        end(shared, running);
    }
    check(|| elsewhere(false));
    check(|| elsewhere(true));
}

/// A deadline of an inactive server's is kept.
#[test]
fn a_deadline_is_kept() {
    fn kept(has_sources: bool) {
        let shared = RuntimeState::with_scheduler(WorkStealing::new(), 2, 0, has_sources);
        shared.servers[1].timers.arm(10);
        let running = serve(shared);
        let watch = watch(shared, &[1]);
        let clock = thread::spawn(|| [5, 10].map(crate::kernel::advance));
        shared.wait_for(1);
        clock.join().unwrap();
        watch.join().unwrap();
        end(shared, running);
    }
    check(|| kept(false));
    check(|| kept(true));
}

/// Servers that leave while they are on patrol, and others rely on that.
#[test]
fn patrols_end_with_a_look() {
    fn found(servers: usize, counts: &'static [usize]) {
        let shared = RuntimeState::with_scheduler(WorkStealing::new(), servers, 2, false);
        let running = serve(shared);
        let watch = watch(shared, counts);
        shared.push_parent(1);
        pass_until_run(shared, 2);
        watch.join().unwrap();
        end(shared, running);
    }
    check(|| found(3, &[2, 3, 2]));
    check(|| found(4, &[3, 2, 4, 2]));
}
