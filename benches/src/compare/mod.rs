//! `umcg bench compare`: whether one build of this command costs more than another.
//!
//! The two builds, A and B, are programs that run the same bench, in pairs of runs: A B, B A, A B
//! and so on. A pair gives, for each row, the cost of B relative to A: B's figure by A's for a
//! cost, A's by B's for a rate. The median of the pairs and its interval ([`interval`]) decide. A
//! row is *worse* if the whole interval is above the tolerance.
//!
//! Among many rows some intervals are beyond the tolerance by chance, at most one in forty where
//! nothing has changed. So the rows that look worse are measured again with fresh pairs, and the
//! verdict is that of the fresh ones alone: the first ones were chosen because they looked bad.
//!
//! | module | its part |
//! |---|---|
//! | `build` | what a build can do, and a run of it |
//! | `reading` | what a run printed |
//! | `pairs` | the runs in turn |
//! | [`interval`] | the statistics |
//! | `verdict` | what they say |
//! | `report`, `forest` | the table and the JSON, the picture |
//! | [`files`] | two files that `--json` printed, in place of two builds |
//!
//! Both builds get the same arguments: the options that both have. An old one knows neither
//! `--ours` nor rows. Then both run more than is wanted, and the rest is left out afterwards. Only
//! `--all-rows` is for one alone, if the other is too old to run fewer.

mod build;
pub mod files;
mod forest;
pub mod interval;
mod pairs;
mod reading;
mod report;
mod verdict;

use crate::About;
use crate::harness::tell;
use crate::harness::{Better, Choice, Machine, Pattern};
use anyhow::{Result, ensure};
use build::{Abilities, Build};
pub use forest::plot;
use interval::Interval;
use pairs::Runs;
pub use reading::{Figure, Key};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;
pub use verdict::Verdict;

/// The builds to compare, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The bench.
    pub bench: About,
    /// Pairs of runs; at least [`interval::FEWEST`].
    pub pairs: usize,
    /// A difference up to this fraction is none.
    pub tolerance: f64,
    /// The part of a run that counts.
    pub figure: Figure,
    /// The time that a row gets in a run.
    pub seconds: f64,
    /// Rounds in a run, where both builds can be told.
    pub rounds: usize,
    /// Only rows that fit one of these.
    pub only: Vec<Pattern>,
    /// All rows, in place of the usual ones.
    pub all_rows: bool,
    /// The rows of peers, too.
    pub peers: bool,
    /// Sizes for tests.
    pub small: bool,
    /// A run that writes nothing for so long hangs.
    pub patience: Duration,
}

/// The findings.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// The bench.
    pub bench: &'static str,
    /// Where it ran.
    pub machine: Machine,
    /// A and B.
    pub builds: [PathBuf; 2],
    /// Pairs of runs.
    pub pairs: usize,
    /// The part of a run that counted.
    pub figure: Figure,
    /// The fraction.
    pub tolerance: f64,
    /// The rows that both have.
    pub rows: Vec<Row>,
    /// The others, and rows that came to nothing.
    pub not_judged: Vec<Unjudged>,
    /// Runs that failed, and were made again.
    pub failures: Vec<Failure>,
}

/// A row that both builds have, or both files.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Of files with several benches: which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bench: Option<String>,
    /// Which.
    #[serde(flatten)]
    pub key: Key,
    /// Which direction of the metric is good.
    pub better: Better,
    /// The median of A's figures.
    pub a: f64,
    /// The median of B's.
    pub b: f64,
    /// The cost of B relative to A: above one B is worse.
    pub cost: Interval,
    /// The verdict on it.
    pub verdict: Verdict,
    /// If the row looked worse: its cost then. All other figures are of the pairs after that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<Interval>,
}

/// A row that there is no verdict for.
#[derive(Clone, Debug, Serialize)]
pub struct Unjudged {
    /// Of files with several benches: which.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bench: Option<String>,
    /// Which.
    #[serde(flatten)]
    pub key: Key,
    /// Why.
    pub reason: String,
}

/// A run that failed.
#[derive(Clone, Debug, Serialize)]
pub struct Failure {
    /// A or B.
    pub build: char,
    /// Its output.
    pub reason: String,
}

impl Comparison {
    /// The rows with this verdict.
    pub fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Row> {
        with(&self.rows, verdict)
    }
}

fn with(rows: &[Row], verdict: Verdict) -> impl Iterator<Item = &Row> {
    rows.iter().filter(move |row| row.verdict == verdict)
}

impl Row {
    fn name(&self) -> String {
        named(self.bench.as_deref(), &self.key)
    }
}

impl Unjudged {
    fn name(&self) -> String {
        named(self.bench.as_deref(), &self.key)
    }
}

/// The text in which `--only` looks for its pattern, behind the bench if there are several.
fn named(bench: Option<&str>, key: &Key) -> String {
    let name = key.name();
    bench.map_or(name.clone(), |bench| format!("{bench} {name}"))
}

/// Compares two builds of the command.
pub fn compare(files: [&Path; 2], plan: &Plan) -> Result<Comparison> {
    let builds = [
        Build::new('A', files[0], plan.patience)?,
        Build::new('B', files[1], plan.patience)?,
    ];
    let bench = plan.bench.name;
    let each = [builds[0].abilities(bench)?, builds[1].abilities(bench)?];
    let abilities = Abilities::both(each);
    // An old build knows no other rows than all.
    let is_all = plan.all_rows || !abilities.all_rows;
    let mut runs = Runs {
        builds: &builds,
        plan,
        abilities,
        all_rows: each.map(|build| is_all && build.all_rows),
        failures: Vec::new(),
    };
    let (keys, mut not_judged) = common(&runs.first()?, plan);
    ensure!(
        !keys.is_empty(),
        "there is no row to compare{}",
        list(&not_judged)
    );
    let patterns = runs.patterns();
    let rows = judged(&mut runs, keys, &patterns, &mut not_judged)?;
    let rows = confirmed(&mut runs, rows, &mut not_judged)?;
    let failures = runs.failures;
    let files = builds.map(|build| build.file);
    let Plan {
        pairs,
        tolerance,
        figure,
        ..
    } = *plan;
    Ok(Comparison {
        bench,
        machine: Machine::this(),
        builds: files,
        pairs,
        figure,
        tolerance,
        rows,
        not_judged,
        failures,
    })
}

fn list(not_judged: &[Unjudged]) -> String {
    not_judged
        .iter()
        .map(|row| format!("\n    {}: {}", row.name(), row.reason))
        .collect()
}

/// The rows that both have, with the direction of their metric, and those that one has.
fn common([a, b]: &[reading::Reading; 2], plan: &Plan) -> (Vec<(Key, Better)>, Vec<Unjudged>) {
    let choice = Choice {
        only: plan.only.clone(),
        cases: (!plan.peers).then_some(plan.bench.ours),
        ..Choice::default()
    };
    let wanted = |key: &&Key| choice.takes(&key.case, &key.params, &key.metric);
    let (mut both, mut others) = (Vec::new(), Vec::new());
    let mut leave = |key: &Key, reason: &str| {
        others.push(Unjudged {
            bench: None,
            key: key.clone(),
            reason: reason.to_owned(),
        })
    };
    for key in a.keys().filter(wanted) {
        match better(plan, key) {
            _ if !b.has(key) => leave(key, "only A has it"),
            Some(better) => both.push((key.clone(), better)),
            None => leave(key, "a metric that this program does not know"),
        }
    }
    b.keys()
        .filter(wanted)
        .filter(|key| !a.has(key))
        .for_each(|key| leave(key, "only B has it"));
    (both, others)
}

fn better(plan: &Plan, key: &Key) -> Option<Better> {
    plan.bench
        .metrics
        .iter()
        .find(|metric| metric.name == key.metric)
        .map(|metric| metric.better)
}

/// Measures rows, and reports the results.
fn judged(
    runs: &mut Runs<'_>,
    keys: Vec<(Key, Better)>,
    patterns: &[String],
    others: &mut Vec<Unjudged>,
) -> Result<Vec<Row>> {
    let figures = runs.pairs(&keys, patterns)?;
    let mut rows = Vec::new();
    for ((key, better), pairs) in keys.into_iter().zip(figures) {
        match row(&key, better, &pairs, runs.plan.tolerance) {
            Some(row) => rows.push(row),
            None => {
                let reason = format!(
                    "both have a figure above zero in too few of {} pairs",
                    runs.plan.pairs
                );
                others.push(Unjudged {
                    bench: None,
                    key,
                    reason,
                });
            }
        }
    }
    Ok(rows)
}

fn row(key: &Key, better: Better, pairs: &[[f64; 2]], tolerance: f64) -> Option<Row> {
    let good: Vec<([f64; 2], f64)> = pairs
        .iter()
        .filter_map(|pair| Some((*pair, verdict::cost(*pair, better)?)))
        .collect();
    let interval = |values: Vec<f64>| Interval::of(&values);
    let cost = interval(good.iter().map(|(_, cost)| *cost).collect())?;
    let [a, b] = [0, 1].map(|side| interval(good.iter().map(|(pair, _)| pair[side]).collect()));
    let verdict = Verdict::of(&cost, tolerance);
    Some(Row {
        bench: None,
        key: key.clone(),
        better,
        a: a?.median,
        b: b?.median,
        cost,
        verdict,
        first: None,
    })
}

/// Measures again the rows that look worse.
fn confirmed(runs: &mut Runs<'_>, rows: Vec<Row>, others: &mut Vec<Unjudged>) -> Result<Vec<Row>> {
    let is_worse = |row: &&Row| row.verdict == Verdict::Worse;
    let worse: Vec<(Key, Better)> = rows
        .iter()
        .filter(is_worse)
        .map(|row| (row.key.clone(), row.better))
        .collect();
    if worse.is_empty() {
        return Ok(rows);
    }
    tell(format_args!(
        "{} of {} rows look worse: they are measured again",
        worse.len(),
        rows.len()
    ));
    let patterns = runs.patterns_of(&worse);
    let again = judged(runs, worse, &patterns, others)?;
    let replaced = |row: Row| match row.verdict {
        Verdict::Worse => again.iter().find(|new| new.key == row.key).map(|new| Row {
            first: Some(row.cost),
            ..new.clone()
        }),
        _ => Some(row),
    };
    Ok(rows.into_iter().filter_map(replaced).collect())
}
