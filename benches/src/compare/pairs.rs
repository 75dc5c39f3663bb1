//! Runs the two builds in turn.

use super::build::{Abilities, Build, Only};
use super::reading::{Key, Reading};
use super::{Failure, Plan};
use crate::harness::{Better, Pattern, Progress};
use anyhow::{Result, bail};
use std::ffi::OsString;

/// A build that fails this often is not measured further.
const MOST_FAILURES: usize = 3;

/// The two builds, and their arguments.
pub(super) struct Runs<'a> {
    pub(super) builds: &'a [Build; 2],
    pub(super) plan: &'a Plan,
    pub(super) abilities: Abilities,
    /// Which of them is told to run all rows.
    pub(super) all_rows: [bool; 2],
    /// The errors, in their order.
    pub(super) failures: Vec<Failure>,
}

/// Both figures of each pair of runs, A's first, for each row. A pair in which a side has no such
/// row is not there.
pub(super) type Figures = Vec<Vec<[f64; 2]>>;

impl Runs<'_> {
    /// A run of each that does not count: it warms up, and tells which rows there are.
    pub(super) fn first(&self) -> Result<[Reading; 2]> {
        let mut progress = Progress::new(&self.title(), 2, "first runs");
        let arguments = self.arguments(&self.patterns());
        let mut run = |build: &Build, arguments: &[OsString]| {
            progress.begin(&build.letter.to_string());
            let reading = build.run(self.plan.bench.name, arguments);
            progress.end();
            reading
        };
        let [a, b] = self.builds;
        let readings = [run(a, &arguments[0])?, run(b, &arguments[1])?];
        progress.finish();
        Ok(readings)
    }

    /// Pairs of runs: the order within a pair alternates, so that drift of the machine cancels out.
    pub(super) fn pairs(&mut self, keys: &[(Key, Better)], patterns: &[String]) -> Result<Figures> {
        let mut figures = vec![Vec::new(); keys.len()];
        let mut progress = Progress::new(&self.title(), 2 * self.plan.pairs, "runs");
        let arguments = self.arguments(patterns);
        let mut done = 0;
        while done < self.plan.pairs {
            let order = if done % 2 == 0 { [0, 1] } else { [1, 0] };
            let Some(readings) = self.pair(order, &arguments, &mut progress)? else {
                continue;
            };
            for ((key, better), figures) in keys.iter().zip(&mut figures) {
                let figure = |side: usize| readings[side].figure(key, self.plan.figure, *better);
                if let (Some(a), Some(b)) = (figure(0), figure(1)) {
                    figures.push([a, b]);
                }
            }
            done += 1;
        }
        progress.finish();
        Ok(figures)
    }

    /// None if one of the two failed: there has to be another pair.
    fn pair(
        &mut self,
        order: [usize; 2],
        arguments: &[Vec<OsString>; 2],
        progress: &mut Progress,
    ) -> Result<Option<[Reading; 2]>> {
        let mut readings = [None, None];
        for side in order {
            let build = &self.builds[side];
            build.check()?;
            progress.begin(&build.letter.to_string());
            match build.run(self.plan.bench.name, &arguments[side]) {
                Ok(reading) => readings[side] = Some(reading),
                Err(error) => return self.failed(side, &error, progress),
            }
        }
        progress.end();
        progress.end();
        let [a, b] = readings;
        Ok(a.zip(b).map(|(a, b)| [a, b]))
    }

    /// One run in many may fail and the others be worth having.
    fn failed(
        &mut self,
        side: usize,
        error: &anyhow::Error,
        progress: &Progress,
    ) -> Result<Option<[Reading; 2]>> {
        let build = self.builds[side].letter;
        self.failures.push(Failure {
            build,
            reason: format!("{error:#}"),
        });
        if self
            .failures
            .iter()
            .filter(|failure| failure.build == build)
            .count()
            >= MOST_FAILURES
        {
            bail!("{error:#}\n{build} has failed {MOST_FAILURES} times");
        }
        progress.say(&format!("{error:#}\nThis pair of runs is made again."));
        Ok(None)
    }

    fn title(&self) -> String {
        format!("compare {}", self.plan.bench.name)
    }

    /// The rows that are asked for, as far as both can be asked for them.
    pub(super) fn patterns(&self) -> Vec<String> {
        let only = &self.plan.only;
        match self.abilities.only {
            Only::Rows => only
                .iter()
                .map(|pattern| pattern.words().collect::<Vec<_>>().join(" "))
                .collect(),
            Only::Metrics => only
                .iter()
                .map(|pattern| self.metric_of(pattern))
                .collect::<Option<_>>()
                .unwrap_or_default(),
            Only::Nothing => Vec::new(),
        }
    }

    fn metric_of(&self, pattern: &Pattern) -> Option<String> {
        let is_metric = |word: &&str| {
            self.plan
                .bench
                .metrics
                .iter()
                .any(|metric| metric.name == *word)
        };
        pattern.words().find(is_metric).map(str::to_owned)
    }

    /// The same for these rows.
    pub(super) fn patterns_of(&self, keys: &[(Key, Better)]) -> Vec<String> {
        match self.abilities.only {
            Only::Rows => keys.iter().map(|(key, _)| key.name()).collect(),
            Only::Metrics => keys.iter().map(|(key, _)| key.metric.clone()).collect(),
            Only::Nothing => Vec::new(),
        }
    }

    /// The same for both builds, except for the option that makes one of them run all rows.
    fn arguments(&self, patterns: &[String]) -> [Vec<OsString>; 2] {
        self.all_rows.map(|is_all| {
            let more = is_all.then(|| OsString::from("--all-rows"));
            self.common(patterns).into_iter().chain(more).collect()
        })
    }

    fn common(&self, patterns: &[String]) -> Vec<OsString> {
        let plan = self.plan;
        let mut list = vec![
            "bench".to_owned(),
            plan.bench.name.to_owned(),
            "--json".to_owned(),
        ];
        list.extend(["--seconds".to_owned(), plan.seconds.to_string()]);
        if self.abilities.rounds {
            list.extend(["--rounds".to_owned(), plan.rounds.to_string()]);
        }
        if self.abilities.ours && !plan.peers {
            list.push("--ours".to_owned());
        }
        if plan.small {
            list.push("--small".to_owned());
        }
        let mut given: Vec<&String> = Vec::new();
        for pattern in patterns {
            if !given.contains(&pattern) {
                given.push(pattern);
                list.extend(["--only".to_owned(), pattern.clone()]);
            }
        }
        list.into_iter().map(OsString::from).collect()
    }
}
