//! What is asked of ours: the figure that a row is to reach, and whether it has.
//!
//! Times are CPU time, which others on the machine disturb little.

use super::{UMCG, UMCG_NET, UMCG_OFF};
use crate::harness::{Finding, Outcome, Report, Row, number};
use serde_json::Value;

struct Bar {
    what: &'static str,
    metric: &'static str,
    limit: Limit,
}

enum Limit {
    /// At most so many times that of the case.
    Times(f64, &'static str),
    /// So many nanoseconds an operation more than without noticing.
    More(f64),
    AtMost(f64),
}

const BARS: &[Bar] = &[
    Bar {
        what: "echo",
        metric: "cpu",
        limit: Limit::Times(1.15, UMCG_NET),
    },
    Bar {
        what: "hook",
        metric: "cpu",
        limit: Limit::More(15.0),
    },
    Bar {
        what: "none",
        metric: "cpu",
        limit: Limit::Times(1.01, UMCG_OFF),
    },
    // Whatever the number of workers.
    Bar {
        what: "sleep",
        metric: "kernel_threads",
        limit: Limit::AtMost(12.0),
    },
];

impl Bar {
    /// None without the other case.
    fn finding(&self, report: &Report, row: &Row) -> Option<Finding> {
        let of = |case| report.beside(row, case, row.metric);
        let (demand, outcome) = match self.limit {
            Limit::Times(most, case) => (
                format!("at most {} x {case}", number(most)),
                Outcome::beside(row, of(case)?, most),
            ),
            Limit::More(most) => {
                let more = 1e3 * (row.median - of(UMCG_OFF)?.median);
                (
                    format!("{} ns more, at most {}", number(more), number(most)),
                    Outcome::of(more <= most, row.runs),
                )
            }
            Limit::AtMost(most) => (
                format!("at most {}", number(most)),
                Outcome::of(row.median <= most, row.runs),
            ),
        };
        Some(Finding { demand, outcome })
    }
}

/// For the rows that something is asked of.
pub(super) fn findings(report: &Report, row: &Row) -> Vec<Finding> {
    let what = row.params.get("what").and_then(Value::as_str);
    let is_its = |bar: &&Bar| Some(bar.what) == what && bar.metric == row.metric;
    let bar = BARS.iter().find(is_its).filter(|_| row.case == UMCG);
    bar.and_then(|bar| bar.finding(report, row))
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{METRICS, params};
    use super::*;
    use crate::harness::judge::listed;
    use crate::harness::{Machine, lower};

    fn row(case: &'static str, what: &str, metric: &'static str, median: f64) -> Row {
        let params = params(what, "workers", 1, None);
        Row::new(case, params, &lower(metric, "x"), vec![median; 15]).unwrap()
    }

    fn said(what: &str, metric: &'static str, ours: f64, theirs: (&'static str, f64)) -> String {
        let report = Report {
            bench: "block",
            machine: Machine::this(),
            rows: vec![
                row(UMCG, what, metric, ours),
                row(theirs.0, what, metric, theirs.1),
            ],
            notes: Vec::new(),
            failed: Vec::new(),
        };
        assert_eq!(findings(&report, &report.rows[1]), Vec::new());
        listed(&findings(&report, &report.rows[0]))
    }

    #[test]
    fn bars_are_met_or_missed() {
        let echo = |ours| said("echo", "cpu", ours, (UMCG_NET, 2.0));
        assert_eq!(echo(2.3), "at most 1.15 x umcg-net: met");
        assert_eq!(echo(2.31), "at most 1.15 x umcg-net: missed");
        assert_eq!(said("echo", "cpu", 1.0, ("threads", 2.0)), "");
        assert_eq!(said("echo", "ops", 1.0, (UMCG_NET, 2.0)), "");
        let hook = |ours| said("hook", "cpu", ours / 1e3, (UMCG_OFF, 0.05));
        assert_eq!(hook(64.0), "14.0 ns more, at most 15.0: met");
        assert_eq!(hook(66.0), "16.0 ns more, at most 15.0: missed");
        let none = |ours| said("none", "cpu", ours, (UMCG_OFF, 100.0));
        assert!(none(100.5).ends_with("met") && none(101.5).ends_with("missed"));
        let threads = |ours| said("sleep", "kernel_threads", ours, ("threads", 9.0));
        assert!(threads(12.0).ends_with("met") && threads(13.0).ends_with("missed"));
    }

    #[test]
    fn every_bar_is_for_a_metric_of_the_bench() {
        for bar in BARS {
            assert!(METRICS.iter().any(|metric| metric.name == bar.metric));
        }
    }
}
