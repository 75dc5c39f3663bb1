//! Small simulations: they repeat themselves, lose no work, notice work that is lost, and meet the
//! bars where these hold.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use umcg_sim::scheduler::{Scheduler, Wake, Why, WorkStealing};
use umcg_sim::{
    Cause, Costs, Experiment, Findings, Here, Runnable, Stop, Workload, simulate, simulate_with,
};

fn small(workload: Workload, servers: usize, sockets: usize) -> Experiment {
    Experiment {
        size: 20,
        ..Experiment::new(workload, servers, sockets)
    }
}

fn all_small() -> impl Iterator<Item = Experiment> {
    let sizes = [(1, 1), (2, 1), (5, 2), (16, 2)];
    Workload::ALL
        .into_iter()
        .flat_map(move |workload| sizes.map(|(servers, sockets)| small(workload, servers, sockets)))
}

fn efficiency(experiment: &Experiment, findings: &Findings) -> f64 {
    findings.bound(experiment.servers) as f64 / findings.time as f64
}

fn time_for(findings: &Findings, cause: Cause) -> u64 {
    let its = findings.causes.iter().find(|(other, _)| *other == cause);
    its.expect("all are listed").1
}

#[test]
fn one_seed_gives_the_same_findings_each_time() {
    for experiment in all_small().filter(|experiment| experiment.servers > 2) {
        let first = simulate(&experiment);
        assert_eq!(first, simulate(&experiment), "{experiment:?}");
        let seed = 2;
        let other = simulate(&Experiment { seed, ..experiment });
        assert_ne!(first.work, other.work);
    }
}

#[test]
fn no_work_is_lost_or_done_twice() {
    for experiment in all_small() {
        let findings = simulate(&experiment);
        assert_eq!(findings.lost, None, "{experiment:?}");
        assert_eq!(
            time_for(&findings, Cause::Work),
            findings.work,
            "{experiment:?}"
        );
        let servers = experiment.servers;
        assert!(findings.time >= findings.bound(servers), "{experiment:?}");
        let one = simulate(&Experiment {
            servers: 1,
            sockets: 1,
            ..experiment.clone()
        });
        let by = match experiment.workload {
            // A tree with two leaves has three nodes.
            Workload::ForkJoin => (one.pieces + 1) * servers as u64 - 1,
            _ => one.pieces * servers as u64,
        };
        assert_eq!(findings.pieces, by, "{experiment:?}");
    }
}

/// The default scheduler, with a fault.
struct Faulty {
    inner: WorkStealing,
    fault: Fault,
    count: AtomicU64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    WakesNobody,
    LosesOne,
}

fn faulty(fault: Fault) -> Faulty {
    Faulty {
        inner: WorkStealing::new(),
        fault,
        count: AtomicU64::new(0),
    }
}

impl Scheduler for Faulty {
    fn start(&mut self, servers: usize) {
        self.inner.start(servers);
    }

    fn ready(&self, worker: Runnable, why: Why, here: Option<&Here>) -> Wake {
        if self.fault == Fault::LosesOne && self.count.fetch_add(1, Relaxed) == 20 {
            drop(worker);
            return Wake::Nobody;
        }
        match self.inner.ready(worker, why, here) {
            _ if self.fault == Fault::WakesNobody => Wake::Nobody,
            wake => wake,
        }
    }

    fn next(&self, here: &Here) -> Option<Runnable> {
        self.inner.next(here)
    }

    fn has_work(&self, here: &Here) -> bool {
        self.inner.has_work(here)
    }

    fn look_around(&self, here: &Here) {
        self.inner.look_around(here);
    }

    fn nap(&self, here: &Here) -> Option<Duration> {
        self.inner.nap(here)
    }

    fn will_look(&self) -> bool {
        self.inner.will_look()
    }

    fn end_naps(&self, here: &Here) {
        self.inner.end_naps(here);
    }

    fn has_slots(&self) -> bool {
        self.inner.has_slots()
    }
}

#[test]
fn a_scheduler_of_ones_own_is_simulated_too() {
    let experiment = small(Workload::ForkJoin, 4, 1);
    let findings = simulate_with(&experiment, faulty(Fault::None));
    assert_eq!(findings.lost, None);
    assert!(efficiency(&experiment, &findings) > 0.8);
}

#[test]
fn work_that_nobody_is_woken_for_is_reported() {
    let experiment = small(Workload::Bursts, 4, 1);
    let findings = simulate_with(&experiment, faulty(Fault::WakesNobody));
    let lost = findings.lost.expect("all sleep when the next burst comes");
    assert_eq!(lost.stop, Stop::Stuck);
    assert!(lost.pieces > 0 && findings.wakes < 10, "{findings:?}");
}

#[test]
fn a_worker_that_is_lost_is_reported() {
    for workload in Workload::ALL {
        let findings = simulate_with(&small(workload, 8, 2), faulty(Fault::LosesOne));
        let lost = findings.lost.expect("one of its workers is lost");
        assert_eq!(lost.stop, Stop::Stuck, "{workload:?}");
        assert!(lost.pieces > 0, "{workload:?}");
    }
}

#[test]
fn a_simulation_ends_at_its_limit() {
    let experiment = Experiment {
        limit: 100_000,
        ..small(Workload::PingPong, 3, 1)
    };
    let lost = simulate(&experiment).lost.expect("it takes longer");
    assert_eq!(lost.stop, Stop::OutOfTime);
}

#[test]
fn costs_are_felt_where_they_arise() {
    let experiment = small(Workload::ForkJoin, 8, 2);
    let with = |change: fn(&mut Costs)| {
        let mut costs = Costs::default();
        change(&mut costs);
        simulate(&Experiment {
            costs,
            ..experiment.clone()
        })
    };
    let usual = with(|_| {});
    let at_once = with(|costs| costs.barriers_in_turn = false);
    assert_eq!(time_for(&at_once, Cause::BarrierTurn), 0);
    assert!(time_for(&usual, Cause::BarrierTurn) > 0);
    let slow = with(|costs| costs.barrier_others = 1_000_000);
    assert!(slow.time > 2 * usual.time);
    let far = with(|costs| costs.far = 2_000);
    assert!(time_for(&far, Cause::Lines) > 2 * time_for(&usual, Cause::Lines));
    let free = with(|costs| (costs.interrupted, costs.line) = (0, 0));
    assert_eq!(time_for(&free, Cause::Interrupted), 0);
    assert!(
        free.places
            .iter()
            .all(|spent| spent.cause != Cause::Interrupted)
    );
}

#[test]
fn bars_are_met_with_few_servers() {
    let held: [(Workload, &[usize]); 2] = [
        (Workload::ForkJoin, &[2, 4, 8, 16, 32, 64]),
        (Workload::Bursts, &[2, 4, 16]),
    ];
    for (workload, sizes) in held {
        for &servers in sizes {
            let experiment = Experiment::new(workload, servers, 1);
            let findings = simulate(&experiment);
            let efficiency = efficiency(&experiment, &findings);
            assert!(efficiency > 0.9, "{workload:?} {servers}: {efficiency}");
        }
    }
    for experiment in all_small() {
        let Findings { wakes, rises, .. } = simulate(&experiment);
        assert!(wakes <= 2 * rises, "{experiment:?}: {wakes} for {rises}");
    }
    let p99 = |servers| simulate(&Experiment::new(Workload::Echo, servers, 1)).p99;
    let (two, four) = (p99(2), p99(4));
    assert!(four < two.map(|two| 2 * two), "{four:?} {two:?}");
}
