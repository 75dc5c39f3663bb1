//! What is asked of the scheduler, however many servers there are.

use super::{P99, SERVERS, SIMULATED};
use crate::harness::{Report, Row, number};

/// With work for all servers, its time is at most that of the work divided by this.
const EFFICIENCY: f64 = 0.9;
/// Work for which that holds: there is some for each server, all the time.
const ENOUGH: [&str; 2] = ["fork-join", "bursts"];
/// Wake-ups for each time that the work rises.
const WAKES: f64 = 2.0;
/// How much the 99th percentile may grow from the fewest servers.
const GROWTH: f64 = 2.0;

fn verdict(text: &str, is_met: bool) -> Option<String> {
    let met = if is_met { "met" } else { "missed" };
    Some(format!("{text}: {met}"))
}

fn is_of(row: &Row, workloads: &[&str]) -> bool {
    let workload = row.params.get("workload").and_then(|value| value.as_str());
    row.case == SIMULATED && workload.is_some_and(|name| workloads.contains(&name))
}

pub(super) fn verdict_of_efficiency(row: &Row) -> Option<String> {
    is_of(row, &ENOUGH).then_some(())?;
    let text = format!("at least {}", number(EFFICIENCY));
    verdict(&text, row.median >= EFFICIENCY)
}

pub(super) fn verdict_of_wakes(row: &Row) -> Option<String> {
    verdict(&format!("at most {}", number(WAKES)), row.median <= WAKES)
}

pub(super) fn verdict_of_p99(report: &Report, row: &Row) -> Option<String> {
    is_of(row, &["echo"]).then_some(())?;
    let is_fewest = |other: &&Row| {
        other.case == row.case
            && other.metric == P99.name
            && other.params.get("sockets") == row.params.get("sockets")
            && other.params.get("servers") == Some(&SERVERS[0].into())
    };
    let fewest = report.rows.iter().find(is_fewest)?;
    let growth = row.median / fewest.median;
    let text = format!("{} x, less than {}", number(growth), number(GROWTH));
    verdict(&text, growth < GROWTH)
}
