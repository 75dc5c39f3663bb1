//! What is asked of us: a column that says for a row what it is to reach, and whether it has.

use crate::harness::{Better, Report, Row, number};

/// One demand on rows of ours.
pub(super) struct Bar {
    pub(super) metric: &'static str,
    /// What their parameters must have: values alone of those that are words, else with their names.
    pub(super) rows: &'static [&'static str],
    pub(super) limit: Limit,
}

/// Times are those of the best of some cases, in this report.
pub(super) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    Times(f64, &'static [&'static str]),
    AtMostOrTimes(f64, f64, &'static [&'static str]),
}

impl Bar {
    fn is_for(&self, row: &Row) -> bool {
        let has = |word: &&str| -> bool {
            row.params.iter().any(|(key, value)| match value.as_str() {
                Some(text) => text == *word,
                None => format!("{key} {value}") == **word,
            })
        };
        row.case == "umcg" && row.metric == self.metric && self.rows.iter().all(has)
    }

    /// The limit in figures; none if nobody is there to compare with.
    fn limit(&self, report: &Report, row: &Row) -> Option<(&'static str, f64)> {
        let (word, better): (_, fn(f64, f64) -> f64) = match row.better {
            Better::Lower => ("at most", f64::min),
            Better::Higher => ("at least", f64::max),
        };
        let best = |cases: &[&str]| {
            let medians = cases.iter().filter_map(|case| report.beside(row, case, row.metric)).map(|row| row.median);
            medians.reduce(better)
        };
        Some(match self.limit {
            Limit::AtMost(limit) => ("at most", limit),
            Limit::AtLeast(limit) => ("at least", limit),
            Limit::Times(times, cases) => (word, times * best(cases)?),
            Limit::AtMostOrTimes(limit, times, cases) => {
                ("at most", best(cases).map_or(limit, |median| limit.max(times * median)))
            }
        })
    }
}

/// For the rows that something is asked of.
pub(super) fn verdict(bars: &[Bar], report: &Report, row: &Row) -> Option<String> {
    let one = |bar: &Bar| {
        let (word, limit) = bar.limit(report, row)?;
        let is_met = if word == "at most" { row.median <= limit } else { row.median >= limit };
        Some(format!("{word} {}: {}", number(limit), if is_met { "met" } else { "missed" }))
    };
    let all: Vec<String> = bars.iter().filter(|bar| bar.is_for(row)).filter_map(one).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::super::experiment::params;
    use super::Limit::*;
    use super::*;
    use crate::harness::{Machine, Params};

    fn row(case: &'static str, params: Params, median: f64) -> Row {
        let better = Better::Lower;
        Row { case, params, metric: "m", unit: "ns", median, min: median, max: median, runs: 1, better, tukey: None }
    }

    fn report() -> Report {
        let ours = |kind: &str| params([("cpus", 2.into()), ("kind", kind.into())]);
        let theirs = || params([("cpus", 2.into())]);
        let rows = vec![row("umcg", ours("worker"), 50.0), row("umcg", ours("thread"), 30.0), row("std", theirs(), 40.0)];
        Report { bench: "test", machine: Machine::this(), rows }
    }

    fn said(rows: &'static [&'static str], limit: Limit) -> Option<String> {
        let report = report();
        verdict(&[Bar { metric: "m", rows, limit }], &report, &report.rows[0])
    }

    #[test]
    fn rows_are_chosen_by_their_parameters() {
        assert_eq!(said(&["worker", "cpus 2"], AtMost(50.0)).unwrap(), "at most 50.0: met");
        assert_eq!(said(&["worker", "cpus 1"], AtMost(50.0)), None);
        assert_eq!(said(&["thread"], AtMost(50.0)), None);
        let report = report();
        assert_eq!(verdict(&[Bar { metric: "m", rows: &[], limit: AtMost(1.0) }], &report, &report.rows[2]), None, "a peer");
    }

    #[test]
    fn limits_are_figures_or_those_of_others() {
        assert_eq!(said(&[], AtMost(49.0)).unwrap(), "at most 49.0: missed");
        assert_eq!(said(&[], AtLeast(49.0)).unwrap(), "at least 49.0: met");
        assert_eq!(said(&[], Times(1.5, &["std"])).unwrap(), "at most 60.0: met");
        assert_eq!(said(&[], Times(1.0, &["std", "nobody"])).unwrap(), "at most 40.0: missed");
        assert_eq!(said(&[], Times(1.0, &["nobody"])), None);
        assert_eq!(said(&[], AtMostOrTimes(45.0, 1.2, &["std"])).unwrap(), "at most 48.0: missed");
        assert_eq!(said(&[], AtMostOrTimes(45.0, 1.2, &["nobody"])).unwrap(), "at most 45.0: missed");
        let mut more = report();
        more.rows.iter_mut().for_each(|row| row.better = Better::Higher);
        let bar = Bar { metric: "m", rows: &[], limit: Times(1.5, &["std"]) };
        assert_eq!(verdict(&[bar], &more, &more.rows[0]).unwrap(), "at least 60.0: missed");
    }
}
