//! `umcg bench switch`: control goes from a main thread to a worker and back, as often as it can
//! (seed of the whole project: the Nanos benchmark of condition variables, futexes and UMCG).
//!
//! | case | one round trip |
//! |---|---|
//! | `condvar` | two kernel threads, a mutex and two condition variables of the C library |
//! | `futex` | two kernel threads, a private futex word each: one wake and one wait a direction |
//! | `pipe` | two kernel threads, one byte through a pipe each way |
//! | `sem_t` | two kernel threads, two unnamed semaphores |
//! | `swapcontext` | one kernel thread, the C library's two `ucontext_t` |
//! | `umcg-thread` | a server runs a worker that is a pthread, which waits |
//! | `umcg-light` | a server runs a light worker, which waits |
//! | `uth` | two uths switch to each other |
//!
//! `cpus` is 1 (both kernel threads on one CPU) or 2 (one on each). Where one kernel thread does it
//! all, 2 means that the home of the worker, if it has one, is on the other CPU. No thread spins.

mod condvar;
mod futex;
mod ours;
mod pair;
mod pipe;
mod sem;
#[cfg(all(
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod swapcontext;

use crate::harness::{
    self, Case, Metric, Options, Params, Plan, Report, Sample, Section, higher, number,
};
use crate::{About, uth};
use anyhow::Result;
use std::time::Duration;

/// The cases that are ours.
const OURS: &[&str] = &["umcg-thread", "umcg-light", "uth"];

pub(crate) const METRICS: &[Metric] = &[higher("round_trips", "1/s")];

const SECTIONS: &[Section] = &[Section {
    title: "Main thread to worker and back",
    metric: "round_trips",
    heading: "round trips/s",
    columns: &[("ns a switch", |_, row| Some(number(1e9 / row.median / 2.0)))],
    bar: None,
    references: &["futex"],
}];

/// Makes round trips with the worker on the given CPU for about as long as it is told.
type RoundTrips = fn(worker_cpu: usize, budget: Duration) -> Result<Sample>;

const SIDES: &[(&str, RoundTrips)] = &[
    ("condvar", pair::round_trips::<condvar::Condvar>),
    ("futex", pair::round_trips::<futex::Futex>),
    ("pipe", pair::round_trips::<pipe::Pipe>),
    ("sem_t", pair::round_trips::<sem::Sem>),
    #[cfg(all(
        target_env = "gnu",
        any(target_arch = "x86_64", target_arch = "aarch64")
    ))]
    ("swapcontext", swapcontext::round_trips),
    ("umcg-thread", ours::thread_worker),
    ("umcg-light", ours::light_worker),
    ("uth", |_, budget| uth::ours::round_trips(budget)),
];

/// For the catalogue.
pub(crate) fn about() -> About {
    About {
        name: "switch",
        title: "Round trips between a main thread and a worker",
        ours: OURS,
        metrics: METRICS.iter().collect(),
        params: &["cpus"],
        sections: SECTIONS,
        graphs: &[],
        usual: &[],
        share: 2,
        arguments: &[],
        run,
    }
}

/// Runs the bench.
fn run(plan: Plan, options: &Options) -> Result<Report> {
    let cpus = harness::cpu::allowed()?;
    let mut cases = Vec::new();
    for count in [1, 2] {
        let Some(&worker_cpu) = cpus.get(count - 1) else {
            let line = "switch: only one CPU to run on: no rows for cpus 2";
            options.notes.say(line);
            continue;
        };
        for &(name, round_trips) in SIDES {
            let params: Params = [("cpus".to_owned(), count.into())].into_iter().collect();
            let turn = Box::new(move |budget| Ok(vec![round_trips(worker_cpu, budget)?.rate()]));
            cases.push(Case {
                name,
                params,
                metrics: METRICS,
                cpu: cpus[0],
                length: 1,
                turn,
            });
        }
    }
    let is_asked = options.choice.takes_case("swapcontext");
    if is_asked && !SIDES.iter().any(|(name, _)| *name == "swapcontext") {
        options
            .notes
            .say("swapcontext: no row: not for this target");
    }
    harness::run("switch", cases, plan, options)
}
