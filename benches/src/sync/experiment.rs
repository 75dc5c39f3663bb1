//! From a list of experiments to cases: each side takes part in each combination of parameters, in
//! children of its own.

use super::request::{Answer, Request};
use crate::harness::{
    Case, Child, Choice, Go, Metric, Options, Params, Program, Report, Spread, Tukey, clock_step,
};
use anyhow::{Result, ensure};
use serde_json::Value;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A child whose answer is late by this much is given up.
const PATIENCE: Duration = Duration::from_secs(60);
/// The papers' rounds of each process: in a turn each repeats this often the work that is measured
/// operation by operation, if a case gets a second.
const ROUNDS: f64 = 1000.0;
const FEWEST: u64 = 10;
/// A turn of the usual length, in seconds: one of 16 of a case that gets a second.
const USUAL: f64 = 1.0 / 16.0;

/// Sides that do the same, for some parameters.
#[derive(Debug)]
pub(super) struct Experiment {
    /// In the order of a child's values. A child is told the first; boxes are of the last.
    pub(super) metrics: &'static [Metric],
    pub(super) sides: &'static [Side],
    /// For each of these the sides alternate.
    pub(super) grid: fn(&Grid) -> Vec<Params>,
    /// How many times as long as the plan has it a turn is.
    pub(super) length: u32,
}

impl Experiment {
    /// One of the usual length.
    pub(super) const fn of(
        metrics: &'static [Metric],
        sides: &'static [Side],
        grid: fn(&Grid) -> Vec<Params>,
    ) -> Experiment {
        Experiment {
            metrics,
            sides,
            grid,
            length: 1,
        }
    }

    /// Whether a row of this side with some of these parameters is asked for.
    fn is_asked<'a>(
        &self,
        side: &Side,
        all: impl IntoIterator<Item = &'a Params>,
        choice: &Choice,
    ) -> bool {
        all.into_iter()
            .any(|shared| choice.takes_any(side.case, &side.params(shared), self.metrics))
    }
}

/// The values from which the parameters are chosen.
pub(super) struct Grid {
    pub(super) most_cpus: usize,
    pub(super) small: bool,
}

impl Grid {
    /// Small ones are for tests.
    pub(super) fn pick<T>(&self, full: T, small: T) -> T {
        if self.small { small } else { full }
    }

    pub(super) fn cpus(&self) -> impl Iterator<Item = u64> + Clone {
        1..=self.most_cpus as u64
    }
}

/// Parameters by name.
pub(super) fn params<const N: usize>(list: [(&str, Value); N]) -> Params {
    list.into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

/// Which parameters a side cannot do, and why.
pub(super) type Inability = (fn(&Params) -> bool, &'static str);

/// One that takes part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Side {
    pub(super) case: &'static str,
    /// The parameters that tell it from others of that name.
    pub(super) variant: &'static [(&'static str, &'static str)],
    pub(super) cannot: Option<Inability>,
}

impl Side {
    pub(super) const fn new(case: &'static str) -> Side {
        Side {
            case,
            variant: &[],
            cannot: None,
        }
    }

    pub(super) const fn of(
        case: &'static str,
        variant: &'static [(&'static str, &'static str)],
    ) -> Side {
        Side {
            case,
            variant,
            cannot: None,
        }
    }

    pub(super) const fn cannot(self, what: fn(&Params) -> bool, why: &'static str) -> Side {
        Side {
            cannot: Some((what, why)),
            ..self
        }
    }

    /// The case, and the parameters that tell it from others of that name.
    fn label(&self) -> String {
        let words = self.variant.iter().map(|(_, word)| *word);
        [self.case]
            .into_iter()
            .chain(words)
            .collect::<Vec<_>>()
            .join(" ")
    }

    pub(super) fn params(&self, shared: &Params) -> Params {
        let own = self
            .variant
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).into()));
        shared
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .chain(own)
            .collect()
    }
}

/// The figures that the turns of a case have measured operation by operation.
struct Measured {
    case: &'static str,
    params: Params,
    metric: &'static str,
    turns: Arc<Mutex<Turns>>,
}

#[derive(Default)]
struct Turns {
    /// The first only warmed up.
    has_warmed_up: bool,
    spreads: Vec<Spread>,
}

/// Makes cases.
pub(super) struct Maker<'a> {
    bench: &'static str,
    options: &'a Options,
    cpus: Vec<usize>,
    go: Option<Go>,
    measured: Vec<Measured>,
}

impl<'a> Maker<'a> {
    pub(super) fn new(
        bench: &'static str,
        options: &'a Options,
        cpus: Vec<usize>,
        experiments: &[Experiment],
        grid: &Grid,
    ) -> Self {
        let is_asked = experiments.iter().any(|experiment| {
            let all = (experiment.grid)(grid);
            experiment
                .sides
                .iter()
                .any(|side| side.case == "go" && experiment.is_asked(side, &all, &options.choice))
        });
        let built = is_asked.then(|| Go::build(include_str!("peers/main.go")));
        let go = built.and_then(|built| {
            built
                .map_err(|error| options.notes.say(format!("go: no rows: {error:#}")))
                .ok()
        });
        Self {
            bench,
            options,
            cpus,
            go,
            measured: Vec::new(),
        }
    }

    /// The cases that are compared with each other take turns; others come before or after.
    pub(super) fn groups(
        &mut self,
        experiment: &'static Experiment,
        grid: &Grid,
    ) -> Vec<Vec<Case>> {
        let all = (experiment.grid)(grid);
        for side in experiment.sides {
            let Some((what, why)) = side.cannot else {
                continue;
            };
            let missing = all.iter().filter(|params| what(params));
            if experiment.is_asked(side, missing, &self.options.choice) {
                self.options.notes.say(format!(
                    "{}: not all rows of {}: {why}",
                    side.label(),
                    experiment.metrics[0].name
                ));
            }
        }
        all.iter()
            .map(|params| self.group(experiment, params))
            .collect()
    }

    fn group(&mut self, experiment: &'static Experiment, params: &Params) -> Vec<Case> {
        let can = |side: &&Side| side.cannot.is_none_or(|(what, _)| !what(params));
        let sides: Vec<&Side> = experiment.sides.iter().filter(can).collect();
        sides
            .into_iter()
            .filter_map(|side| self.case(experiment, side, side.params(params)))
            .collect()
    }

    /// None if its program is missing.
    fn case(
        &mut self,
        experiment: &'static Experiment,
        side: &Side,
        params: Params,
    ) -> Option<Case> {
        let program = if side.case == "go" {
            self.go.as_ref()?.program()
        } else {
            self.options.own.clone()
        };
        let count = params.get("cpus").and_then(Value::as_u64).unwrap_or(1) as usize;
        let cpus = self.cpus[..count.min(self.cpus.len())].to_vec();
        let turns = Arc::<Mutex<Turns>>::default();
        let metric = experiment.metrics[experiment.metrics.len() - 1].name;
        self.measured.push(Measured {
            case: side.case,
            params: params.clone(),
            metric,
            turns: Arc::clone(&turns),
        });
        let (work, length) = (experiment.metrics[0].name, experiment.length);
        let request = Request::new(self.bench, work, side.case, params.clone());
        let turn = Box::new(move |budget: Duration| {
            let mut answer = ask(&program, &request.clone().sized(length, budget), &cpus)?;
            answer.smooth(clock_step());
            turns
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .add(answer.spread);
            Ok(answer.values)
        });
        Some(Case {
            name: side.case,
            params,
            metrics: experiment.metrics,
            cpu: self.cpus[0],
            length,
            turn,
        })
    }

    /// The figures that were measured operation by operation, to the rows that they belong to.
    pub(super) fn put_boxes(&self, report: &mut Report) {
        for row in &mut report.rows {
            let is_its = |other: &&Measured| {
                other.case == row.case && other.metric == row.metric && other.params == row.params
            };
            let Some(measured) = self.measured.iter().find(is_its) else {
                continue;
            };
            row.tukey = Tukey::of(
                &measured
                    .turns
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .spreads,
            );
            row.step = row.tukey.map(|_| clock_step());
        }
    }
}

impl Turns {
    fn add(&mut self, spread: Option<Spread>) {
        if self.has_warmed_up {
            self.spreads.extend(spread);
        }
        self.has_warmed_up = true;
    }
}

impl Request {
    fn sized(mut self, length: u32, budget: Duration) -> Request {
        self.nanos = (budget * length).as_nanos() as u64;
        self.times = ((ROUNDS * budget.as_secs_f64() / USUAL) as u64).max(FEWEST);
        self
    }
}

fn ask(program: &Program, request: &Request, cpus: &[usize]) -> Result<Answer> {
    let mut child = Child::start(program, request, cpus)?;
    let answer: Answer = child.answer(PATIENCE + 4 * Duration::from_nanos(request.nanos))?;
    child.finish(PATIENCE)?;
    ensure!(!answer.values.is_empty(), "no figure");
    Ok(answer)
}
