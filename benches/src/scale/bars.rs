//! What is asked of the scheduler, however many servers there are.

use super::{P99, SERVERS, SIMULATED};
use crate::harness::{Finding, Outcome, Report, Row, number};

/// With work for all servers, its time is at most that of the work divided by this.
const EFFICIENCY: f64 = 0.9;
/// Work for which that holds: there is some for each server, all the time.
const ENOUGH: [&str; 2] = ["fork-join", "bursts"];
/// Wake-ups for each time that the work rises.
const WAKES: f64 = 2.0;
/// How much the 99th percentile may grow from the fewest servers.
const GROWTH: f64 = 2.0;

/// A simulation is the same each time: one round is enough for a verdict.
fn finding(demand: String, is_met: bool) -> Vec<Finding> {
    let outcome = if is_met {
        Outcome::Met
    } else {
        Outcome::Missed
    };
    vec![Finding { demand, outcome }]
}

fn is_of(row: &Row, workloads: &[&str]) -> bool {
    let workload = row.params.get("workload").and_then(|value| value.as_str());
    row.case == SIMULATED && workload.is_some_and(|name| workloads.contains(&name))
}

pub(super) fn efficiency(_: &Report, row: &Row) -> Vec<Finding> {
    if !is_of(row, &ENOUGH) {
        return Vec::new();
    }
    let demand = format!("at least {}", number(EFFICIENCY));
    finding(demand, row.median >= EFFICIENCY)
}

pub(super) fn wakes(_: &Report, row: &Row) -> Vec<Finding> {
    let demand = format!("at most {}", number(WAKES));
    finding(demand, row.median <= WAKES)
}

pub(super) fn p99(report: &Report, row: &Row) -> Vec<Finding> {
    let is_fewest = |other: &&Row| {
        other.case == row.case
            && other.metric == P99.name
            && other.params.get("sockets") == row.params.get("sockets")
            && other.params.get("servers") == Some(&SERVERS[0].into())
    };
    let fewest = report.rows.iter().find(is_fewest);
    let Some(fewest) = fewest.filter(|_| is_of(row, &["echo"])) else {
        return Vec::new();
    };
    let growth = row.median / fewest.median;
    let demand = format!("{} x, less than {}", number(growth), number(GROWTH));
    finding(demand, growth < GROWTH)
}
