//! `umcg bench scale`: the default scheduler with up to 256 servers, in virtual time, and beside it
//! the real runtime with as many servers as there are CPUs.
//!
//! A simulation ([`umcg_sim`]) is the same each time, so it runs once, and all rounds of its rows
//! are equal. Its machine is described by [`Costs`]: those measured on one machine, or on this one
//! before the simulations begin. The real runtime does the same work (`measured`), computing by
//! the clock.

mod bars;
mod costs;
mod measured;
mod picture;
mod places;
mod word;

use crate::About;
use crate::harness::{
    self, Case, Column, Metric, Options, Params, Plan, Report, Row, Section, higher, lower, number,
    tell,
};
use anyhow::{Result, bail};
pub use picture::plot;
use places::Places;
use std::sync::Arc;
use umcg_sim::{Cause, Costs, Experiment, Findings, Workload, simulate};

/// The cases that are ours: there are no others.
pub const OURS: &[&str] = &[SIMULATED, MEASURED];

const SIMULATED: &str = "simulated";
const MEASURED: &str = "measured";

const SERVERS: [usize; 8] = [2, 4, 8, 16, 32, 64, 128, 256];
const SOCKETS: [usize; 2] = [1, 2];

const EFFICIENCY: Metric = higher("efficiency", "of 1");
const TIME: Metric = lower("time", "ms");
const P99: Metric = lower("p99", "us");

pub(crate) const METRICS: &[Metric] = &[
    EFFICIENCY,
    TIME,
    lower("wakes", "for 1"),
    lower("thefts", "1/ms"),
    higher("share_work", "%"),
    lower("share_lines", "%"),
    lower("share_barriers", "%"),
    lower("share_wakes", "%"),
    lower("share_locks", "%"),
    lower("share_pauses", "%"),
    lower("share_asleep", "%"),
    lower("share_other", "%"),
    // Of `echo` only.
    P99,
];

/// The metrics of work without messages.
const WITHOUT_P99: &[Metric] = METRICS.split_at(METRICS.len() - 1).0;
const OF_MEASURED: &[Metric] = &[EFFICIENCY, TIME];
const OF_MEASURED_ECHO: &[Metric] = &[P99];

/// The metric of a share of the servers' time, and what belongs to it.
const SHARES: [(&str, &[Cause]); 8] = [
    ("share_work", &[Cause::Work]),
    ("share_lines", &[Cause::Lines]),
    (
        "share_barriers",
        &[Cause::Barriers, Cause::BarrierTurn, Cause::Interrupted],
    ),
    ("share_wakes", &[Cause::Wakes, Cause::Latency]),
    ("share_locks", &[Cause::Locks]),
    ("share_pauses", &[Cause::Pauses]),
    ("share_asleep", &[Cause::Asleep]),
    ("share_other", &[Cause::Switch, Cause::Steps, Cause::Calls]),
];

/// How [`run`]'s report is shown.
pub const SECTIONS: &[Section] = &[
    Section {
        title: "Work on all servers: the work of each, of the time that it takes",
        metric: EFFICIENCY.name,
        heading: "of 1",
        columns: &[("ms", |report, row| of(report, row, TIME.name))],
        bar: Some(bars::efficiency),
        references: &[],
    },
    Section {
        title: "Wake-ups of servers, for each time that the work rises by one server's",
        metric: "wakes",
        heading: "for 1",
        columns: &[("thefts/ms", |report, row| of(report, row, "thefts"))],
        bar: Some(bars::wakes),
        references: &[],
    },
    Section {
        title: "From a message to its answer, 99th percentile",
        metric: P99.name,
        heading: "us",
        columns: &[],
        bar: Some(bars::p99),
        references: &[],
    },
    Section {
        title: "What servers do with their time",
        metric: "share_work",
        heading: "% work",
        columns: SHARE_COLUMNS,
        bar: None,
        references: &[],
    },
];

const SHARE_COLUMNS: &[(&str, Column)] = &[
    ("% lines", |report, row| of(report, row, "share_lines")),
    ("% membarriers", |report, row| {
        of(report, row, "share_barriers")
    }),
    ("% wake-ups", |report, row| of(report, row, "share_wakes")),
    ("% locks", |report, row| of(report, row, "share_locks")),
    ("% pauses", |report, row| of(report, row, "share_pauses")),
    ("% asleep", |report, row| of(report, row, "share_asleep")),
    ("% other", |report, row| of(report, row, "share_other")),
];

/// Another metric of the same case.
fn of(report: &Report, row: &Row, metric: &str) -> Option<String> {
    Some(number(report.beside(row, row.case, metric)?.median))
}

pub(crate) fn about() -> About {
    About {
        name: "scale",
        title: "The default scheduler on many servers",
        ours: OURS,
        metrics: METRICS.iter().collect(),
        params: &["workload", "servers", "sockets"],
        sections: SECTIONS,
        graphs: &[],
        usual: &["sockets=1"],
        share: 3,
        arguments: &[],
        run: |plan, options| run(plan, options, false).map(|(report, _)| report),
    }
}

/// Runs the bench. Returns the report, and a text on where the servers wait.
pub fn run(plan: Plan, options: &Options, measures_costs: bool) -> Result<(Report, String)> {
    let costs = if measures_costs {
        let costs = costs::measure()?;
        tell(format_args!("scale: {costs:?}"));
        costs
    } else {
        Costs::default()
    };
    let places = Arc::new(Places::default());
    let mut groups = Vec::new();
    for workload in Workload::ALL {
        let mut cases = measured::cases(workload)?;
        for sockets in SOCKETS {
            let case = |servers| simulated(workload, servers, sockets, &costs, &places);
            cases.extend(SERVERS.map(case));
        }
        groups.push(cases);
    }
    let report = harness::run_groups("scale", groups, plan, options)?;
    Ok((report, places.text()))
}

fn params(workload: Workload, servers: usize, sockets: usize) -> Params {
    [
        ("workload".to_owned(), workload.name().into()),
        ("servers".to_owned(), servers.into()),
        ("sockets".to_owned(), sockets.into()),
    ]
    .into_iter()
    .collect()
}

fn simulated(
    workload: Workload,
    servers: usize,
    sockets: usize,
    costs: &Costs,
    places: &Arc<Places>,
) -> Case {
    let experiment = Experiment {
        costs: costs.clone(),
        ..Experiment::new(workload, servers, sockets)
    };
    let places = Arc::clone(places);
    let mut values: Option<Vec<f64>> = None;
    Case {
        name: SIMULATED,
        params: params(workload, servers, sockets),
        metrics: match workload {
            Workload::Echo => METRICS,
            _ => WITHOUT_P99,
        },
        cpu: harness::cpu::allowed().map_or(0, |cpus| cpus[0]),
        length: 0,
        turn: Box::new(move |_| {
            if let Some(values) = &values {
                return Ok(values.clone());
            }
            let findings = simulate(&experiment);
            if let Some(lost) = findings.lost {
                bail!("{} pieces of work were lost: {:?}", lost.pieces, lost.stop);
            }
            places.note(&experiment, &findings);
            Ok(values.insert(figures(&experiment, &findings)).clone())
        }),
    }
}

/// The values of [`METRICS`].
fn figures(experiment: &Experiment, findings: &Findings) -> Vec<f64> {
    let time = findings.time as f64;
    let all: u64 = findings.causes.iter().map(|(_, time)| time).sum();
    let share = |causes: &[Cause]| {
        let their = |(cause, _): &&(Cause, u64)| causes.contains(cause);
        let spent: u64 = findings
            .causes
            .iter()
            .filter(their)
            .map(|(_, time)| time)
            .sum();
        100.0 * spent as f64 / all as f64
    };
    let mut values = vec![
        findings.bound(experiment.servers) as f64 / time,
        time / 1e6,
        findings.wakes as f64 / findings.rises.max(1) as f64,
        findings.thefts as f64 / (time / 1e6),
    ];
    values.extend(SHARES.iter().map(|(_, causes)| share(causes)));
    values.extend(findings.p99.map(|p99| p99 as f64 / 1e3));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_in_the_order_of_the_metrics() {
        let names: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        let shares: Vec<&str> = SHARES.iter().map(|(name, _)| *name).collect();
        assert_eq!(&names[4..12], shares);
        let counted: usize = SHARES.iter().map(|(_, causes)| causes.len()).sum();
        assert_eq!(counted, Cause::ALL.len(), "each cause belongs to one share");
        let experiment = Experiment {
            size: 5,
            ..Experiment::new(Workload::Echo, 2, 1)
        };
        let values = figures(&experiment, &simulate(&experiment));
        assert_eq!(values.len(), METRICS.len());
        assert!((99.9..100.1).contains(&values[4..12].iter().sum::<f64>()));
    }
}
