//! Our targets: a column that gives the figure that a row is to reach, and whether it has.

use crate::harness::{Better, Report, Row, number};

/// One demand on rows of ours.
pub(super) struct Bar {
    pub(super) metric: &'static str,
    /// The parameters that the rows must have: values alone of those that are words, else with
    /// their names.
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

    /// None if there is no peer to compare with.
    fn verdict(&self, report: &Report, row: &Row) -> Option<String> {
        let better = |one: f64, other: f64| {
            if row.better == Better::Lower {
                one < other
            } else {
                one > other
            }
        };
        let best = |times: f64, cases: &[&str]| {
            let rows = cases
                .iter()
                .filter_map(|case| report.beside(row, case, row.metric));
            let best = rows.reduce(|best, row| {
                if better(row.median, best.median) {
                    row
                } else {
                    best
                }
            })?;
            Some((
                times * best.median,
                format!(" ({} x {})", number(times), best.case),
            ))
        };
        let (limit, whose) = match self.limit {
            Limit::AtMost(limit) | Limit::AtLeast(limit) => (limit, String::new()),
            Limit::Times(times, cases) => best(times, cases)?,
            Limit::AtMostOrTimes(limit, times, cases) => best(times, cases)
                .filter(|(theirs, _)| *theirs > limit)
                .unwrap_or((limit, String::new())),
        };
        let is_least = match self.limit {
            Limit::AtLeast(_) => true,
            Limit::Times(..) => row.better == Better::Higher,
            Limit::AtMost(_) | Limit::AtMostOrTimes(..) => false,
        };
        Some(if is_least {
            said("at least", limit, &whose, row.median >= limit)
        } else {
            said("at most", limit, &whose, row.median <= limit)
        })
    }
}

fn said(word: &str, limit: f64, whose: &str, is_met: bool) -> String {
    format!(
        "{word} {}{whose}: {}",
        number(limit),
        if is_met { "met" } else { "missed" }
    )
}

/// For a figure that was computed of several rows.
pub(super) fn at_most(limit: f64, figure: f64) -> String {
    said("at most", limit, "", figure <= limit)
}

/// For the rows that something is asked of.
pub(super) fn verdict(bars: &[Bar], report: &Report, row: &Row) -> Option<String> {
    let of_row = bars.iter().filter(|bar| bar.is_for(row));
    let all: Vec<String> = of_row.filter_map(|bar| bar.verdict(report, row)).collect();
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
        Row {
            case,
            params,
            metric: "m",
            unit: "ns",
            median,
            min: median,
            max: median,
            runs: 1,
            better,
            tukey: None,
        }
    }

    fn report() -> Report {
        let ours = |kind: &str| params([("cpus", 2.into()), ("kind", kind.into())]);
        let theirs = || params([("cpus", 2.into())]);
        let rows = vec![
            row("umcg", ours("worker"), 50.0),
            row("umcg", ours("thread"), 30.0),
            row("std", theirs(), 40.0),
        ];
        Report {
            bench: "test",
            machine: Machine::this(),
            rows,
        }
    }

    fn said(rows: &'static [&'static str], limit: Limit) -> Option<String> {
        let report = report();
        verdict(
            &[Bar {
                metric: "m",
                rows,
                limit,
            }],
            &report,
            &report.rows[0],
        )
    }

    #[test]
    fn rows_are_chosen_by_their_parameters() {
        assert_eq!(
            said(&["worker", "cpus 2"], AtMost(50.0)).unwrap(),
            "at most 50.0: met"
        );
        assert_eq!(said(&["worker", "cpus 1"], AtMost(50.0)), None);
        assert_eq!(said(&["thread"], AtMost(50.0)), None);
        let report = report();
        assert_eq!(
            verdict(
                &[Bar {
                    metric: "m",
                    rows: &[],
                    limit: AtMost(1.0)
                }],
                &report,
                &report.rows[2]
            ),
            None,
            "a peer"
        );
    }

    #[test]
    fn limits_are_figures_or_those_of_others() {
        assert_eq!(said(&[], AtMost(49.0)).unwrap(), "at most 49.0: missed");
        assert_eq!(said(&[], AtLeast(49.0)).unwrap(), "at least 49.0: met");
        assert_eq!(
            said(&[], Times(1.5, &["std"])).unwrap(),
            "at most 60.0 (1.50 x std): met"
        );
        assert_eq!(
            said(&[], Times(1.0, &["std", "nobody"])).unwrap(),
            "at most 40.0 (1.00 x std): missed"
        );
        assert_eq!(said(&[], Times(1.0, &["nobody"])), None);
        assert_eq!(
            said(&[], AtMostOrTimes(45.0, 1.2, &["std"])).unwrap(),
            "at most 48.0 (1.20 x std): missed"
        );
        assert_eq!(
            said(&[], AtMostOrTimes(51.0, 1.2, &["std"])).unwrap(),
            "at most 51.0: met"
        );
        assert_eq!(
            said(&[], AtMostOrTimes(45.0, 1.2, &["nobody"])).unwrap(),
            "at most 45.0: missed"
        );
        let mut more = report();
        more.rows
            .iter_mut()
            .for_each(|row| row.better = Better::Higher);
        let bar = Bar {
            metric: "m",
            rows: &[],
            limit: Times(1.5, &["std"]),
        };
        assert_eq!(
            verdict(&[bar], &more, &more.rows[0]).unwrap(),
            "at least 60.0 (1.50 x std): missed"
        );
        more.rows.push(Row {
            case: "other",
            median: 41.0,
            ..more.rows[2].clone()
        });
        let bar = Bar {
            metric: "m",
            rows: &[],
            limit: Times(1.0, &["std", "other"]),
        };
        assert_eq!(
            verdict(&[bar], &more, &more.rows[0]).unwrap(),
            "at least 41.0 (1.00 x other): met",
            "the best of them"
        );
    }
}
