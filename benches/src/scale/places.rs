//! Where in the sources the servers of a simulation wait.

use crate::harness::number;
use std::fmt::Write;
use std::sync::Mutex;
use umcg_sim::{Cause, Experiment, Findings, Spent, Workload};

/// How many places of a workload are named.
const MOST: usize = 5;

/// What is known of one simulation.
struct Noted {
    workload: Workload,
    servers: usize,
    /// The time of all servers.
    all: u64,
    spent: Vec<Spent>,
    /// The plain thread: in nanoseconds, how long it was awake, and how long it woke servers.
    outside: [u64; 2],
}

/// Of each workload, those of the simulation with the most servers.
#[derive(Default)]
pub(super) struct Places(Mutex<Vec<Noted>>);

impl Places {
    pub(super) fn note(&self, experiment: &Experiment, findings: &Findings) {
        let of = |takes: &dyn Fn(Cause) -> bool| -> u64 {
            let its = findings.outside.iter().filter(|(cause, _)| takes(*cause));
            its.map(|(_, time)| time).sum()
        };
        let awake = of(&|cause| cause != Cause::Asleep);
        let wakes = of(&|cause| cause == Cause::Wakes);
        let noted = Noted {
            workload: experiment.workload,
            servers: experiment.servers,
            all: findings.causes.iter().map(|(_, time)| time).sum(),
            outside: [awake, wakes],
            spent: findings.places.iter().take(MOST).cloned().collect(),
        };
        let mut all = self.0.lock().expect("no panic with the lock");
        match all.iter_mut().find(|old| old.workload == noted.workload) {
            Some(old) if old.servers < noted.servers => *old = noted,
            Some(_) => {}
            None => all.push(noted),
        }
    }

    /// For people; empty if nothing was simulated.
    pub(super) fn text(&self) -> String {
        let all = self.0.lock().expect("no panic with the lock");
        let mut text = String::new();
        for noted in all.iter() {
            let (name, servers) = (noted.workload.name(), noted.servers);
            // Writing to a string cannot fail.
            let _ = writeln!(text, "Where {servers} servers wait: {name}");
            let [awake, wakes] = noted.outside.map(|time| number(time as f64 / 1e6));
            let _ = writeln!(
                text,
                "  the plain thread: {awake} ms, of which it wakes servers for {wakes} ms"
            );
            for spent in &noted.spent {
                let share = 100.0 * spent.time as f64 / noted.all as f64;
                let _ = writeln!(
                    text,
                    "  {:>6} %  {:<19} {:<24} {} times, {} us each",
                    number(share),
                    spent.cause.name(),
                    spent.place,
                    number(spent.times as f64),
                    number(spent.time as f64 / spent.times as f64 / 1e3),
                );
            }
        }
        text
    }
}
