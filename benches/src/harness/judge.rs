//! The rule by which figures are judged. It stands here once, for tables, pages and bars.
//!
//! - A verdict needs [`ROUNDS`] rounds on each side. With fewer there is none, and the row says so.
//! - Beside a peer a row is *equal* if the quartiles of the two overlap and the medians differ by
//!   at most [`EQUAL`]. Else the better median decides. Both conditions are needed: rounds that
//!   scatter widely overlap whatever the medians are, and medians of rounds that hardly scatter
//!   may differ truly by little.
//! - A demand on a row of ours is a figure, or some times the figure of a peer. It is *met* if the
//!   median reaches it. Where the demand is the peer's own figure, a row that misses it and is
//!   equal to the peer says so.
//!
//! Rejected: a test of significance between the rounds of two sides. The rounds of one run share
//! the state of the machine, so the test would find differences that another run has not.

use super::{Better, Row};
use serde::Serialize;
use std::fmt::{self, Display};

/// A side with fewer rounds is not judged.
pub const ROUNDS: usize = 15;

/// Medians that differ by a larger part of the smaller one are not equal.
pub const EQUAL: f64 = 0.05;

/// The rule in a sentence, for pages and helps.
pub const RULE: &str = "Two are equal if their quartiles overlap and their medians differ by at \
                        most 5 %; a verdict needs 15 rounds.";

/// How a row stands beside another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The row is the better one.
    Better,
    /// There is no difference worth the name.
    Equal,
    /// The other is the better one.
    Worse,
}

impl Relation {
    /// Of a row beside another with the same metric; `None` if one has too few rounds.
    pub fn of(row: &Row, other: &Row) -> Option<Self> {
        (row.runs.min(other.runs) >= ROUNDS).then(|| Self::by_rule(row, other))
    }

    fn by_rule(row: &Row, other: &Row) -> Self {
        let is_better = match row.better {
            Better::Lower => row.median < other.median,
            Better::Higher => row.median > other.median,
        };
        let overlap = row.q1 <= other.q3 && other.q1 <= row.q3;
        match () {
            () if overlap && is_near(row.median, other.median) => Self::Equal,
            () if is_better => Self::Better,
            () => Self::Worse,
        }
    }
}

fn is_near(one: f64, other: f64) -> bool {
    // The last digits of a product are not the reader's.
    (one - other).abs() <= EQUAL * one.abs().min(other.abs()) * (1.0 + 1e-9)
}

/// Whether a demand is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It is.
    Met,
    /// It asks for a peer's own figure. The row misses that, and is equal to the peer.
    Equal,
    /// It is not.
    Missed,
    /// The row has so many rounds, which are too few.
    TooFew(usize),
}

impl Outcome {
    /// Of a demand that was looked at, from so many rounds.
    pub fn of(is_met: bool, rounds: usize) -> Self {
        match () {
            () if rounds < ROUNDS => Self::TooFew(rounds),
            () if is_met => Self::Met,
            () => Self::Missed,
        }
    }

    /// Of the demand that a row reaches `times` the figure of a peer.
    pub fn beside(row: &Row, peer: &Row, times: f64) -> Self {
        let limit = times * peer.median;
        let is_met = match row.better {
            Better::Lower => row.median <= limit,
            Better::Higher => row.median >= limit,
        };
        let is_equal = times == 1.0 && Relation::by_rule(row, peer) == Relation::Equal;
        match Self::of(is_met, row.runs.min(peer.runs)) {
            Self::Missed if is_equal => Self::Equal,
            outcome => outcome,
        }
    }
}

impl Display for Outcome {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Met => to.write_str("met"),
            Self::Equal => to.write_str("equal"),
            Self::Missed => to.write_str("missed"),
            Self::TooFew(rounds) => write!(to, "no verdict of {rounds} rounds"),
        }
    }
}

/// A demand on a row, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// In words, as in `at most 100`.
    pub demand: String,
    /// Whether it is met.
    pub outcome: Outcome,
}

impl Display for Finding {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{}: {}", self.demand, self.outcome)
    }
}

/// Several of a row, for the cell of a table.
pub fn listed(findings: &[Finding]) -> String {
    let all: Vec<String> = findings.iter().map(Finding::to_string).collect();
    all.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Params, higher, lower};

    /// A row of 15 rounds, of which quarters are this far from the median.
    fn row(median: f64, quarter: f64) -> Row {
        rows(median, quarter, ROUNDS)
    }

    fn rows(median: f64, quarter: f64, count: usize) -> Row {
        let place = |round: usize| round as f64 / (count - 1) as f64 - 0.5;
        let values = (0..count).map(|round| median + 4.0 * quarter * place(round));
        Row::new("x", Params::new(), &lower("m", "ns"), values.collect()).unwrap()
    }

    #[test]
    fn equal_needs_both_conditions() {
        let beside = |one: (f64, f64), other: (f64, f64)| {
            Relation::of(&row(one.0, one.1), &row(other.0, other.1)).unwrap()
        };
        assert_eq!(beside((100.0, 3.0), (104.0, 3.0)), Relation::Equal);
        assert_eq!(
            beside((100.0, 1.0), (104.0, 1.0)),
            Relation::Better,
            "the quartiles are apart"
        );
        assert_eq!(
            beside((106.0, 30.0), (100.0, 30.0)),
            Relation::Worse,
            "more than 5 %, however noisy"
        );
        assert_eq!(beside((105.0, 3.0), (100.0, 3.0)), Relation::Equal);
        assert_eq!(beside((100.0, 3.0), (105.0, 3.0)), Relation::Equal);
        assert_eq!(beside((100.0, 0.0), (100.0, 0.0)), Relation::Equal);
    }

    #[test]
    fn more_is_better_where_the_metric_says_so() {
        let mut rows = [row(100.0, 1.0), row(200.0, 1.0)];
        assert_eq!(Relation::of(&rows[0], &rows[1]), Some(Relation::Better));
        rows.iter_mut()
            .for_each(|row| row.better = higher("m", "1/s").better);
        assert_eq!(Relation::of(&rows[0], &rows[1]), Some(Relation::Worse));
        assert_eq!(Outcome::beside(&rows[0], &rows[1], 0.5), Outcome::Met);
        assert_eq!(Outcome::beside(&rows[0], &rows[1], 0.6), Outcome::Missed);
    }

    #[test]
    fn fifteen_rounds_make_a_verdict() {
        let (few, many) = (rows(100.0, 1.0, ROUNDS - 1), row(200.0, 1.0));
        assert_eq!(Relation::of(&few, &many), None);
        assert_eq!(Relation::of(&many, &few), None);
        assert_eq!(Outcome::beside(&many, &few, 1.0), Outcome::TooFew(14));
        assert_eq!(Outcome::of(true, 14), Outcome::TooFew(14));
        assert_eq!(Outcome::of(true, 15), Outcome::Met);
        assert_eq!(Outcome::of(false, 15), Outcome::Missed);
        assert_eq!(Outcome::TooFew(3).to_string(), "no verdict of 3 rounds");
    }

    #[test]
    fn equal_is_said_of_the_peers_own_figure_alone() {
        let peer = row(100.0, 3.0);
        let beside = |median, times| Outcome::beside(&row(median, 3.0), &peer, times);
        assert_eq!(beside(99.0, 1.0), Outcome::Met);
        assert_eq!(beside(103.0, 1.0), Outcome::Equal);
        assert_eq!(beside(108.0, 1.0), Outcome::Missed);
        assert_eq!(beside(106.0, 1.05), Outcome::Missed, "that is a margin");
        assert_eq!(beside(105.0, 1.05), Outcome::Met);
    }

    #[test]
    fn findings_are_read() {
        let finding = |demand: &str, outcome| Finding {
            demand: demand.to_owned(),
            outcome,
        };
        let all = [
            finding("at most 5", Outcome::Met),
            finding("at most 1 x std", Outcome::Equal),
        ];
        assert_eq!(listed(&all), "at most 5: met; at most 1 x std: equal");
    }
}
