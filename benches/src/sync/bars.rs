//! Our targets: the figure that a row is to reach, and whether it has.

use crate::harness::{Better, Finding, Outcome, Report, Row, number};

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
    fn finding(&self, report: &Report, row: &Row) -> Option<Finding> {
        let fixed = |word: &str, limit: f64, is_met: bool| Finding {
            demand: format!("{word} {}", number(limit)),
            outcome: Outcome::of(is_met, row.runs),
        };
        let at_most = |limit: f64| fixed("at most", limit, row.median <= limit);
        match self.limit {
            Limit::AtMost(limit) => Some(at_most(limit)),
            Limit::AtLeast(limit) => Some(fixed("at least", limit, row.median >= limit)),
            Limit::Times(times, cases) => Some(beside(row, best(report, row, cases)?, times)),
            Limit::AtMostOrTimes(limit, times, cases) => {
                let peer = best(report, row, cases).filter(|peer| times * peer.median > limit);
                Some(peer.map_or_else(|| at_most(limit), |peer| beside(row, peer, times)))
            }
        }
    }
}

/// The peer to beat.
fn best<'a>(report: &'a Report, row: &Row, cases: &[&str]) -> Option<&'a Row> {
    let is_better = |one: f64, other: f64| {
        if row.better == Better::Lower {
            one < other
        } else {
            one > other
        }
    };
    cases
        .iter()
        .filter_map(|case| report.beside(row, case, row.metric))
        .reduce(|best, row| {
            if is_better(row.median, best.median) {
                row
            } else {
                best
            }
        })
}

fn beside(row: &Row, peer: &Row, times: f64) -> Finding {
    let word = match row.better {
        Better::Lower => "at most",
        Better::Higher => "at least",
    };
    let limit = number(times * peer.median);
    Finding {
        demand: format!("{word} {limit} ({} x {})", number(times), peer.case),
        outcome: Outcome::beside(row, peer, times),
    }
}

/// For the rows that something is asked of.
pub(super) fn findings(bars: &[Bar], report: &Report, row: &Row) -> Vec<Finding> {
    let of_row = bars.iter().filter(|bar| bar.is_for(row));
    of_row.filter_map(|bar| bar.finding(report, row)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::experiment::params;
    use super::Limit::*;
    use super::*;
    use crate::harness::judge::listed;
    use crate::harness::{Machine, Params, lower};

    fn row(case: &'static str, params: Params, median: f64) -> Row {
        Row::new(case, params, &lower("m", "ns"), vec![median; 15]).unwrap()
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
            notes: Vec::new(),
            failed: Vec::new(),
        }
    }

    fn said(rows: &'static [&'static str], limit: Limit) -> Option<String> {
        let report = report();
        of(
            Bar {
                metric: "m",
                rows,
                limit,
            },
            &report,
            0,
        )
    }

    fn of(bar: Bar, report: &Report, row: usize) -> Option<String> {
        let all = findings(&[bar], report, &report.rows[row]);
        (!all.is_empty()).then(|| listed(&all))
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
            of(
                Bar {
                    metric: "m",
                    rows: &[],
                    limit: AtMost(1.0)
                },
                &report,
                2
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
            of(bar, &more, 0).unwrap(),
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
            of(bar, &more, 0).unwrap(),
            "at least 41.0 (1.00 x other): met",
            "the best of them"
        );
    }
}
