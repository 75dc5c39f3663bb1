//! One simulation, from its parameters to its findings.

use crate::machine::{self, Body, Cause, Costs, Machine, Spent, Stop};
use crate::raw;
use crate::rt::engine::active::FEW;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::run::{turns, watch};
use crate::rt::scheduler::{Chosen, Scheduler, WorkStealing};
use crate::rt::task::runnable;
use crate::workload::{Workload, World};
use std::rc::Rc;
use std::thread;

/// A millisecond, in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The work.
    pub workload: Workload,
    /// How many servers, each with a core of its own: 256 at most.
    pub servers: usize,
    /// Over how many sockets the cores are spread.
    pub sockets: usize,
    /// Of the times that workers compute, and of messages. The same seed gives the same findings.
    pub seed: u64,
    /// The machine.
    pub costs: Costs,
    /// How much work, in percent of the usual.
    pub size: u64,
    /// The virtual time after which work that is not done counts as lost, in nanoseconds.
    pub limit: u64,
}

impl Experiment {
    /// With the usual costs and size.
    pub fn new(workload: Workload, servers: usize, sockets: usize) -> Experiment {
        Experiment {
            workload,
            servers,
            sockets,
            seed: 1,
            costs: Costs::default(),
            size: 100,
            limit: 10_000 * MILLISECOND,
        }
    }
}

/// Work that was not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// How many pieces of it were left.
    pub pieces: u64,
    /// Why it ended.
    pub stop: Stop,
}

/// What came of it. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Findings {
    /// The work that was not done, if there is any.
    pub lost: Option<Lost>,
    /// From the beginning to the end of the work. Of bursts: without the pauses in between.
    pub time: u64,
    /// The workers' own work, all together.
    pub work: u64,
    /// Its pieces: leaves and nodes, items at each stage, messages, hops, workers of bursts.
    pub pieces: u64,
    /// How often a server was woken.
    pub wakes: u64,
    /// How often a worker became ready when fewer were ready or running than there are servers. So
    /// often the work rose by one that a server could be woken for.
    pub rises: u64,
    /// How often a server stopped another one to steal from it.
    pub thefts: u64,
    /// Turns of workers, and those on another server than the worker's last one.
    pub turns: u64,
    /// See `turns`.
    pub moves: u64,
    /// The 99th percentile of the time from a message to its answer; none without messages.
    pub p99: Option<u64>,
    /// What the servers did with their time, all together, from the beginning to their end.
    pub causes: Vec<(Cause, u64)>,
    /// The same of the plain thread that begins the work.
    pub outside: Vec<(Cause, u64)>,
    /// Where in the sources the servers waited, the dearest place first.
    pub places: Vec<Spent>,
}

impl Findings {
    /// The shortest time in which so many servers can do the work.
    pub fn bound(&self, servers: usize) -> u64 {
        self.work / servers as u64
    }
}

/// Simulates the default scheduler.
pub fn simulate(experiment: &Experiment) -> Findings {
    on_own_thread(experiment, || Chosen::Default(WorkStealing::new()))
}

/// Simulates a scheduler.
pub fn simulate_with<S: Scheduler>(experiment: &Experiment, scheduler: S) -> Findings {
    on_own_thread(experiment, || Chosen::other(scheduler))
}

/// A simulation needs a kernel thread that is no virtual processor yet.
fn on_own_thread(experiment: &Experiment, choose: impl FnOnce() -> Chosen + Send) -> Findings {
    thread::scope(|scope| {
        let running = scope.spawn(|| run(experiment, choose()));
        running
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// The state of a runtime for as long as its servers exist.
struct Held(*mut RuntimeState);

impl Held {
    fn get(&self) -> &'static RuntimeState {
        // SAFETY: it lives until this is dropped, which is the last thing in `run`.
        unsafe { &*self.0 }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: `run` made it of a box. All threads of the machine have ended.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

fn run(experiment: &Experiment, scheduler: Chosen) -> Findings {
    // Workers that are left when a simulation ends are dropped with their queues.
    runnable::when_dropped(|worker| {
        worker.into_task();
    });
    let Experiment {
        workload, servers, ..
    } = *experiment;
    assert!((1..=256).contains(&servers), "1 to 256 servers");
    let state = RuntimeState::new(scheduler, servers, workload.has_sources());
    let held = Held(Box::into_raw(Box::new(state)));
    let shared = held.get();
    let world = Rc::new(World::new(shared, servers, experiment.size));
    let bodies = bodies(shared, &world, workload);
    let mut costs = experiment.costs.clone();
    // As `RuntimeState::new` decides.
    costs.has_barriers &= servers <= FEW;
    let machine = Machine::new(
        costs,
        experiment.sockets,
        experiment.seed,
        experiment.limit,
        bodies,
    );
    anchor(&machine, shared);
    let stop = machine.run(|| shared.end());
    let findings = findings(&machine, &world, stop);
    // The queues first, as they name descriptors. Programs have the world that has them.
    drop(held);
    world.pool.forget_programs();
    findings
}

/// The servers, and beside them the watch, the device that brings messages, and last a plain thread
/// that begins the work.
fn bodies(shared: &'static RuntimeState, world: &Rc<World>, workload: Workload) -> Vec<Body> {
    let server = |index| Body {
        is_server: true,
        run: Box::new(move || turns::main(shared, index, raw::Server)),
    };
    let other = |run| Body {
        is_server: false,
        run,
    };
    let begins = Rc::clone(world);
    let others: [Box<dyn FnOnce()>; 3] = [
        Box::new(|| watch::main(shared)),
        Box::new(|| shared.messages().bring()),
        Box::new(move || workload.begin(&begins)),
    ];
    let servers = (0..shared.servers.len()).map(server);
    servers.chain(others.into_iter().map(other)).collect()
}

/// Words that share a line: the head of each server's queues; the number of sleepers and of
/// searchers; the number of patrols and what stands beside it.
fn anchor(machine: &Machine, shared: &RuntimeState) {
    machine.anchor(machine::address_of(|| shared.sleepers.asleep()));
    machine.anchor(machine::address_of(|| {
        shared.scheduler.patrol().map(|patrol| patrol.count())
    }));
    for index in 0..shared.servers.len() {
        machine.anchor(machine::address_of(|| shared.scheduler.keeps_work(index)));
    }
}

fn findings(machine: &Machine, world: &World, stop: Option<Stop>) -> Findings {
    let counts = &world.shared.counts;
    let (expected, done) = (world.expected.get(), world.done.get());
    let lost = match (world.is_done.get(), stop) {
        (true, _) => None,
        (false, stop) => Some(Lost {
            pieces: expected - done,
            stop: stop.unwrap_or(Stop::Stuck),
        }),
    };
    let places = machine.dearest();
    let mut latencies = world.latencies.take();
    latencies.sort_unstable();
    let p99 = latencies.get(latencies.len() * 99 / 100).copied();
    Findings {
        lost,
        time: world.time(),
        work: world.work.get(),
        pieces: done,
        wakes: world.shared.sleepers.wakes.peek(),
        rises: counts.rises.get(),
        thefts: machine.count_heavy("per_server.rs"),
        turns: counts.turns.get(),
        moves: counts.moves.get(),
        p99,
        causes: Cause::ALL
            .into_iter()
            .map(|cause| (cause, machine.spent(cause)))
            .collect(),
        outside: Cause::ALL
            .into_iter()
            .map(|cause| (cause, machine.spent_by_last(cause)))
            .collect(),
        places,
    }
}
