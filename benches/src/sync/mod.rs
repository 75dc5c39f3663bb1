//! `umcg bench sem | altsems | tube | select | waitv`: synchronisation beside that of the kernel,
//! of libraries and of other runtimes.
//!
//! Each turn of each side is a child process that does one piece of work, on as many CPUs as `cpus`
//! says, and answers with one line (`request`). The common parts of the sides of an experiment
//! stand once. Traits say what a lock, a semaphore, a channel, a choice can do. One more trait
//! stands for the flows that do it (`flow`: kernel threads or workers of ours), and the measured
//! loops are generic over both. Tasks of tokio cannot run the same lines, so they have their own
//! (`tasks`); so has Go (`peers/main.go`).
//!
//! Where the papers measure every operation by itself, so do we: a child then answers with
//! quantiles too, of which the boxes of Tukey diagrams are made.

mod altsems;
mod bars;
mod channels;
mod choice;
mod contest;
mod critical;
mod experiment;
mod flow;
mod increment;
mod locks;
mod request;
mod select;
mod sem;
mod semaphores;
mod tasks;
mod tube;
mod waitv;

use crate::About;
use crate::harness::{self, Graph, Metric, Options, Plan, Report, Section};
use anyhow::{Result, ensure};
use experiment::{Experiment, Grid, Maker};
pub use request::child;
use request::{Answer, Request};

/// One of these commands.
#[derive(Debug)]
pub(crate) struct Bench {
    name: &'static str,
    title: &'static str,
    params: &'static [&'static str],
    sections: &'static [Section],
    graphs: &'static [Graph],
    usual: &'static [&'static str],
    experiments: &'static [Experiment],
    /// The work of a child.
    work: fn(&Request) -> Result<Answer>,
}

/// The cases that are ours.
const OURS: &[&str] = &["umcg"];

/// All of them.
static BENCHES: [&Bench; 5] = [&SEM, &ALTSEMS, &TUBE, &SELECT, &WAITV];

/// Semaphores and locks.
pub(crate) static SEM: Bench = sem::BENCH;
/// One of many semaphores.
pub(crate) static ALTSEMS: Bench = altsems::BENCH;
/// Channels.
pub(crate) static TUBE: Bench = tube::BENCH;
/// One of many channels.
pub(crate) static SELECT: Bench = select::BENCH;
/// One of many words.
pub(crate) static WAITV: Bench = waitv::BENCH;

impl Bench {
    /// For the catalogue.
    pub(crate) fn about(&self, share: u32, run: fn(Plan, &Options) -> Result<Report>) -> About {
        About {
            name: self.name,
            title: self.title,
            ours: OURS,
            metrics: self.metrics().collect(),
            params: self.params,
            sections: self.sections,
            graphs: self.graphs,
            usual: self.usual,
            share,
            arguments: &["bench", "sync-child"],
            run,
        }
    }

    /// The metrics.
    fn metrics(&self) -> impl Iterator<Item = &'static Metric> {
        self.experiments
            .iter()
            .flat_map(|experiment| experiment.metrics)
    }

    /// Runs it, with children that run [`child`].
    pub(crate) fn run(&self, plan: Plan, options: &Options) -> Result<Report> {
        let cpus = harness::cpu::allowed()?;
        ensure!(!cpus.is_empty(), "no CPU to run on");
        if cpus.len() < 2 {
            let line = format!("{}: only one CPU to run on: no rows for cpus 2", self.name);
            options.notes.say(line);
        }
        let grid = Grid {
            most_cpus: cpus.len().min(2),
            small: options.small,
        };
        let mut maker = Maker::new(self.name, options, cpus, self.experiments, &grid);
        let groups = self
            .experiments
            .iter()
            .flat_map(|experiment| maker.groups(experiment, &grid))
            .collect();
        let mut report = harness::run_groups(self.name, groups, plan, options)?;
        maker.put_boxes(&mut report);
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_has_a_section_and_every_graph_rows() {
        for bench in BENCHES {
            let shown: Vec<&str> = bench
                .sections
                .iter()
                .map(|section| section.metric)
                .collect();
            assert_eq!(
                bench
                    .metrics()
                    .map(|metric| metric.name)
                    .collect::<Vec<_>>(),
                shown,
                "{}",
                bench.name
            );
            assert!(
                bench
                    .graphs
                    .iter()
                    .all(|graph| shown.contains(&graph.metric)),
                "{}",
                bench.name
            );
        }
    }

    /// All that are in this program; they check their own results.
    #[test]
    fn every_side_does_all_its_work() {
        let grid = Grid {
            most_cpus: 2,
            small: true,
        };
        for bench in BENCHES {
            for experiment in bench.experiments {
                for shared in (experiment.grid)(&grid) {
                    let can = |side: &&experiment::Side| {
                        side.case != "go" && side.cannot.is_none_or(|(what, _)| !what(&shared))
                    };
                    for side in experiment.sides.iter().filter(can) {
                        let mut request = Request::new(
                            bench.name,
                            experiment.metrics[0].name,
                            side.case,
                            side.params(&shared),
                        );
                        (request.nanos, request.times) = (2_000_000, 20);
                        let known = |key: &String| bench.params.contains(&key.as_str());
                        assert!(side.params(&shared).keys().all(known), "{request:?}");
                        let answer = (bench.work)(&request)
                            .unwrap_or_else(|error| panic!("{request:?}: {error:#}"));
                        assert_eq!(answer.values.len(), experiment.metrics.len(), "{request:?}");
                        assert!(
                            answer
                                .values
                                .iter()
                                .all(|value| value.is_finite() && *value >= 0.0),
                            "{request:?}: {answer:?}"
                        );
                    }
                }
            }
        }
    }
}
