//! Which rows of a bench to measure.

use super::table::text;
use super::{Case, Metric, Notes, Params, Program, Row};
use anyhow::Result;
use serde_json::Value;
use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The parts of a bench to measure: all by default, without child processes.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How this program is told to be a child of the bench, where its turns are child processes.
    pub own: Program,
    /// Which rows.
    pub choice: Choice,
    /// Sizes for tests: the figures say nothing.
    pub small: bool,
    /// Of rows that are missing.
    pub notes: Notes,
}

/// The error where rows are asked for that a bench has not.
#[derive(Debug)]
pub struct NoSuchRow(String);

impl Display for NoSuchRow {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl std::error::Error for NoSuchRow {}

/// Words that a row must have, each of them: its case, its metric, a parameter as `key=value`, or
/// the value alone where it is a word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(Vec<String>);

impl FromStr for Pattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<String> = text
            .split([' ', ','])
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        if words.is_empty() {
            Err("a row's words, as in \"umcg cpus=2\"".to_owned())
        } else {
            Ok(Self(words))
        }
    }
}

impl Pattern {
    /// Its words.
    pub fn words(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// What it asks of this bench, where its first word may be the name of one.
    pub fn of_bench(&self, bench: &str, is_bench: impl Fn(&str) -> bool) -> Asked {
        match self.0.split_first() {
            Some((first, [])) if first == bench => Asked::All,
            Some((first, rest)) if first == bench => Asked::Rows(Self(rest.to_vec())),
            Some((first, _)) if is_bench(first) => Asked::Nothing,
            _ => Asked::Rows(self.clone()),
        }
    }

    fn fits(&self, case: &str, params: &Params, metric: &str) -> bool {
        self.words().all(|word| has(word, case, params, metric))
    }
}

/// What is asked of a bench.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Nothing: it is for another one.
    Nothing,
    /// All of it.
    All,
    /// Rows that fit.
    Rows(Pattern),
}

impl Asked {
    /// What several patterns ask of a bench: the rows, or all where there are none. `None` where
    /// nothing is asked for.
    pub fn of(
        only: &[Pattern],
        bench: &str,
        is_bench: impl Fn(&str) -> bool,
    ) -> Option<Vec<Pattern>> {
        let (mut rows, mut is_whole) = (Vec::new(), only.is_empty());
        for pattern in only {
            match pattern.of_bench(bench, &is_bench) {
                Self::Nothing => {}
                Self::All => is_whole = true,
                Self::Rows(pattern) => rows.push(pattern),
            }
        }
        match (is_whole, rows.is_empty()) {
            (true, _) => Some(Vec::new()),
            (false, true) => None,
            (false, false) => Some(rows),
        }
    }
}

fn has(word: &str, case: &str, params: &Params, metric: &str) -> bool {
    let mut values = params.iter();
    word == case || word == metric || values.any(|(key, value)| is_value(word, key, value))
}

fn is_value(word: &str, key: &str, value: &Value) -> bool {
    let named = word.split_once('=');
    value.as_str() == Some(word)
        || named.is_some_and(|(name, written)| name == key && written == text(value))
}

/// A row's name, which is a [`Pattern`] that fits it.
pub fn name(case: &str, params: &Params, metric: &str) -> String {
    let params = params
        .iter()
        .map(|(key, value)| format!("{key}={}", text(value)));
    [case.to_owned()]
        .into_iter()
        .chain(params)
        .chain([metric.to_owned()])
        .collect::<Vec<_>>()
        .join(" ")
}

/// Which rows to measure: all by default.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only rows that fit one of these, if there are any.
    pub only: Vec<Pattern>,
    /// Where none is asked for, only rows that have all words of one of these, if there are any.
    pub usual: &'static [&'static str],
    /// Only rows of these cases.
    pub cases: Option<&'static [&'static str]>,
    /// Where the patterns are for several benches: a pattern has to fit a row of one of them.
    pub fitting: Option<Fitting>,
}

/// The patterns that have fitted a row of some bench. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Fitting(Arc<Mutex<Vec<Pattern>>>);

impl Fitting {
    fn patterns(&self) -> MutexGuard<'_, Vec<Pattern>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this one has.
    pub fn has(&self, pattern: &Pattern) -> bool {
        self.patterns().contains(pattern)
    }
}

impl Choice {
    /// Whether this row is asked for.
    pub fn takes(&self, case: &str, params: &Params, metric: &str) -> bool {
        let fits = |pattern: &Pattern| pattern.fits(case, params, metric);
        let is_asked = if self.only.is_empty() {
            self.is_usual(case, params, metric)
        } else {
            self.only.iter().any(fits)
        };
        is_asked && self.takes_case(case)
    }

    fn is_usual(&self, case: &str, params: &Params, metric: &str) -> bool {
        let fits = |row: &&str| row.split(' ').all(|word| has(word, case, params, metric));
        self.usual.is_empty() || self.usual.iter().any(fits)
    }

    /// Whether there may be rows of this case.
    pub fn takes_case(&self, case: &str) -> bool {
        self.cases.is_none_or(|cases| cases.contains(&case))
    }

    /// Whether one of these metrics is wanted.
    pub fn takes_any(&self, case: &str, params: &Params, metrics: &[Metric]) -> bool {
        metrics
            .iter()
            .any(|metric| self.takes(case, params, metric.name))
    }

    pub(super) fn takes_row(&self, row: &Row) -> bool {
        self.takes(row.case, &row.params, row.metric)
    }

    /// Leaves out the cases of which nothing is asked for. Refuses a pattern that fits no row; of
    /// patterns for several benches, only if none fits one.
    pub(super) fn of(&self, mut groups: Vec<Vec<Case>>) -> Result<Vec<Vec<Case>>> {
        let mut checked = self
            .only
            .iter()
            .map(|pattern| (pattern, check(pattern, groups.iter().flatten())));
        match &self.fitting {
            None => checked.try_for_each(|(_, result)| result)?,
            Some(fitting) => {
                let (fit, unfit): (Vec<_>, Vec<_>) = checked.partition(|(_, it)| it.is_ok());
                fitting
                    .patterns()
                    .extend(fit.iter().map(|(pattern, _)| (*pattern).clone()));
                if fit.is_empty() {
                    unfit.into_iter().try_for_each(|(_, result)| result)?;
                }
            }
        }
        for group in &mut groups {
            group.retain(|case| self.takes_any(case.name, &case.params, case.metrics));
        }
        groups.retain(|group| !group.is_empty());
        Ok(groups)
    }
}

fn check<'a>(pattern: &Pattern, cases: impl Iterator<Item = &'a Case> + Clone) -> Result<()> {
    let fits = |fit: &dyn Fn(&Case, &str) -> bool| {
        cases
            .clone()
            .any(|case| case.metrics.iter().any(|metric| fit(case, metric.name)))
    };
    if fits(&|case, metric| pattern.fits(case.name, &case.params, metric)) {
        return Ok(());
    }
    let unknown = pattern
        .words()
        .find(|word| !fits(&|case, metric| has(word, case.name, &case.params, metric)));
    let Some(unknown) = unknown else {
        let words = pattern.0.join(" ");
        return Err(NoSuchRow(format!("no row has all of \"{words}\"")).into());
    };
    let mut metrics: Vec<&str> = Vec::new();
    for metric in cases.flat_map(|case| case.metrics) {
        if !metrics.contains(&metric.name) {
            metrics.push(metric.name);
        }
    }
    let metrics = metrics.join(", ");
    Err(NoSuchRow(format!(
        "no row has \"{unknown}\"; the metrics are {metrics}"
    ))
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::lower;

    const METRICS: &[Metric] = &[lower("slow", "ns"), lower("slower", "ns")];

    fn case(name: &'static str, cpus: u64, kind: &str) -> Case {
        let params = [
            ("cpus".to_owned(), cpus.into()),
            ("kind".to_owned(), kind.into()),
        ]
        .into_iter()
        .collect();
        Case {
            name,
            params,
            metrics: METRICS,
            cpu: 0,
            length: 1,
            turn: Box::new(|_| Ok(Vec::new())),
        }
    }

    fn groups() -> Vec<Vec<Case>> {
        vec![
            vec![case("ours", 1, "light"), case("theirs", 1, "full")],
            vec![case("ours", 2, "full")],
        ]
    }

    fn choice(only: &[&str]) -> Choice {
        Choice {
            only: only.iter().map(|text| text.parse().unwrap()).collect(),
            ..Choice::default()
        }
    }

    fn left(choice: &Choice) -> Vec<String> {
        let left = choice.of(groups()).unwrap();
        left.iter()
            .flatten()
            .map(|case| format!("{} {}", case.name, case.params["cpus"]))
            .collect()
    }

    #[test]
    fn rows_are_chosen_by_their_words() {
        assert_eq!(left(&Choice::default()), ["ours 1", "theirs 1", "ours 2"]);
        assert_eq!(left(&choice(&["slow"])), ["ours 1", "theirs 1", "ours 2"]);
        assert_eq!(left(&choice(&["ours"])), ["ours 1", "ours 2"]);
        assert_eq!(left(&choice(&["ours cpus=2"])), ["ours 2"]);
        assert_eq!(
            left(&choice(&["ours,light", "theirs"])),
            ["ours 1", "theirs 1"]
        );
        assert_eq!(left(&choice(&["kind=full"])), ["theirs 1", "ours 2"]);
        assert_eq!(
            left(&Choice {
                cases: Some(&["ours"]),
                ..choice(&["full"])
            }),
            ["ours 2"]
        );
        let choice = choice(&["slower"]);
        assert!(
            choice.takes("x", &Params::new(), "slower")
                && !choice.takes("x", &Params::new(), "slow")
        );
    }

    #[test]
    fn few_rows_are_usual_and_any_can_be_asked_for() {
        let usual = |only: &[&str]| Choice {
            usual: &["ours cpus=1", "full slow"],
            ..choice(only)
        };
        assert_eq!(left(&usual(&[])), ["ours 1", "theirs 1", "ours 2"]);
        let params = &groups()[1][0].params;
        assert!(usual(&[]).takes("ours", params, "slow"));
        assert!(!usual(&[]).takes("ours", params, "slower"));
        assert!(usual(&["slower"]).takes("ours", params, "slower"));
        let none = Choice {
            usual: &["nobody"],
            ..Choice::default()
        };
        assert!(left(&none).is_empty());
    }

    #[test]
    fn a_row_is_found_by_its_name() {
        let case = case("ours", 2, "full");
        let name = name(case.name, &case.params, "slow");
        assert_eq!(name, "ours cpus=2 kind=full slow");
        assert_eq!(left(&choice(&[&name])), ["ours 2"]);
    }

    #[test]
    fn what_fits_no_row_is_refused() {
        let error = |only: &[&str]| choice(only).of(groups()).err().unwrap().to_string();
        assert_eq!(
            error(&["slow", "fast"]),
            "no row has \"fast\"; the metrics are slow, slower"
        );
        assert_eq!(
            error(&["theirs cpus=2"]),
            "no row has all of \"theirs cpus=2\""
        );
        assert_eq!(
            error(&["cpus=1x"]),
            "no row has \"cpus=1x\"; the metrics are slow, slower"
        );
        assert!(" , ".parse::<Pattern>().is_err());
    }

    /// What is for another bench is no error here, unless nothing is left.
    #[test]
    fn patterns_for_several_benches_fit_a_row_of_one() {
        let fitting = Fitting::default();
        let of = |only: &[&str]| {
            let choice = Choice {
                fitting: Some(fitting.clone()),
                ..choice(only)
            };
            choice.of(groups())
        };
        assert!(of(&["full", "elsewhere"]).is_ok());
        assert!(of(&["elsewhere"]).is_err_and(|error| error.is::<NoSuchRow>()));
        let has = |word: &str| fitting.has(&word.parse().unwrap());
        assert!(has("full") && !has("elsewhere"));
    }
}
