//! `umcg bench all`: every bench of the [catalogue](crate::catalogue) in a given time, and one page
//! of the results.
//!
//! A bench gets the part of the time left that its `share` is of the shares left, so time that a
//! bench does not need is the others'. Within its part the harness makes turns as short as they
//! have to be for all rounds. A bench that fails is on the page with its reason, and the others go
//! on.
//!
//! | module | its part |
//! |---|---|
//! | this | gives the benches their turns |
//! | `facts` | the machine |
//! | `tally` | counts verdicts |
//! | `text` | the summary on standard output, and JSON |
//! | `page` | the page |

mod facts;
mod page;
mod tally;
mod text;

use crate::About;
use crate::harness::tell;
use crate::harness::{Machine, NoSuchRow, Options, Plan, Report, judge};
use anyhow::{Result, ensure};
use facts::Facts;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How long, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// For all benches.
    pub total: Duration,
    /// Rounds that count, if there is time for them.
    pub rounds: usize,
}

impl Time {
    /// For verdicts.
    pub const USUAL: Self = Self {
        total: Duration::from_secs(600),
        rounds: judge::ROUNDS,
    };

    /// For a first look. Rounds are too few for verdicts: there is no time for more.
    pub const QUICK: Self = Self {
        total: Duration::from_secs(120),
        rounds: 5,
    };

    /// Something always comes later than planned.
    const SPARE: f64 = 0.06;
}

/// The findings of all benches.
#[derive(Debug)]
pub struct All {
    facts: Facts,
    machine: Machine,
    rounds: usize,
    took: Duration,
    /// How many benches there will be.
    wanted: usize,
    done: Vec<Done>,
}

/// A bench that has had its turn.
#[derive(Debug)]
struct Done {
    about: About,
    report: Result<Report, String>,
    took: Duration,
}

/// Runs these benches. `options` gives those of each, and `None` for one that is not asked for.
/// `show` is called after each of them.
pub fn all(
    benches: Vec<About>,
    time: Time,
    options: impl Fn(&About) -> Result<Option<Options>>,
    mut show: impl FnMut(&All),
) -> Result<All> {
    let start = Instant::now();
    let end = start + time.total.mul_f64(1.0 - Time::SPARE);
    let mut benches: Vec<(About, Options)> = asked(benches, options)?;
    let mut all = All {
        facts: Facts::here(),
        machine: Machine::this(),
        rounds: time.rounds,
        took: Duration::ZERO,
        wanted: benches.len(),
        done: Vec::new(),
    };
    while !benches.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        let shares: u32 = benches.iter().map(|(about, _)| about.share).sum();
        let (about, options) = benches.remove(0);
        tell(format_args!(
            "{}: bench {} of {} (about {} left in all)",
            about.name,
            all.done.len() + 1,
            all.wanted,
            text::time(left)
        ));
        let began = Instant::now();
        let plan = Plan {
            rounds: time.rounds,
            end: Some(began + left * about.share / shares),
            ..Plan::default()
        };
        let report = match attempt(&about, plan, &options) {
            // Rows that are asked for may be those that cannot be measured here.
            Err(error) if error.is::<NoSuchRow>() => match &options.notes.take()[..] {
                [] => {
                    all.wanted -= 1;
                    continue;
                }
                notes => Err(notes.join("; ")),
            },
            result => result.map_err(|error| format!("{error:#}")),
        };
        all.add(about, report, began.elapsed());
        all.took = start.elapsed();
        show(&all);
    }
    ensure!(!all.done.is_empty(), "no bench has such a row");
    Ok(all)
}

fn asked(
    benches: Vec<About>,
    options: impl Fn(&About) -> Result<Option<Options>>,
) -> Result<Vec<(About, Options)>> {
    let with_options = |about: About| {
        let options = options(&about).transpose()?;
        Some(options.map(|options| (about, options)))
    };
    benches.into_iter().filter_map(with_options).collect()
}

/// A panic is an error of this bench alone.
fn attempt(about: &About, plan: Plan, options: &Options) -> Result<Report> {
    catch_unwind(AssertUnwindSafe(|| (about.run)(plan, options)))
        .unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked")))
}

impl All {
    fn add(&mut self, about: About, report: Result<Report, String>, took: Duration) {
        // A bench whose rows are all missing has told why.
        let report = report.and_then(|report| match &report.notes[..] {
            [] if report.rows.is_empty() => Err("it has no row".to_owned()),
            notes if report.rows.is_empty() => Err(notes.join("; ")),
            _ => Ok(report),
        });
        if let Err(reason) = &report {
            tell(format_args!("{}: failed: {reason}", about.name));
        }
        self.done.push(Done {
            about,
            report,
            took,
        });
    }

    /// Whether a bench, or a row of ours, has failed.
    pub fn has_failed(&self) -> bool {
        self.done.iter().any(|done| {
            let is_ours = |case: &&'static str| done.about.ours.contains(case);
            done.report
                .as_ref()
                .map_or(true, |report| report.failed.iter().any(is_ours))
        })
    }
}

#[cfg(test)]
pub(in crate::all) mod tests {
    use super::*;
    use crate::harness::{Finding, Outcome, Params, Row, Section, higher, lower};
    use anyhow::bail;

    const SECTIONS: &[Section] = &[
        Section {
            title: "Costs of <this> & \"that\"",
            metric: "cost",
            heading: "ns",
            columns: &[],
            bar: Some(|_, row| {
                let demand = "at most 10".to_owned();
                let outcome = Outcome::of(row.median <= 10.0, row.runs);
                let is_ours = row.case == "umcg";
                is_ours
                    .then_some(Finding { demand, outcome })
                    .into_iter()
                    .collect()
            }),
            references: &["peer"],
        },
        Section {
            title: "Rates",
            metric: "rate",
            heading: "1/s",
            columns: &[],
            bar: None,
            references: &["peer"],
        },
    ];

    fn about(name: &'static str, run: fn(Plan, &Options) -> Result<Report>) -> About {
        About {
            name,
            title: "A bench of tests",
            ours: &["umcg"],
            metrics: Vec::new(),
            params: &["cpus"],
            sections: SECTIONS,
            graphs: &[],
            usual: &[],
            share: 1,
            arguments: &[],
            run,
        }
    }

    fn good(plan: Plan, _: &Options) -> Result<Report> {
        let params =
            |cpus: u64| -> Params { [("cpus".to_owned(), cpus.into())].into_iter().collect() };
        let row = |case, cpus, median: f64, metric| {
            let values = (0..plan.rounds).map(|round| median * (1.0 + 0.001 * round as f64));
            Row::new(case, params(cpus), metric, values.collect()).unwrap()
        };
        let (cost, rate) = (&lower("cost", "ns"), &higher("rate", "1/s"));
        let rows = vec![
            row("umcg", 1, 9.0, cost),
            row("peer", 1, 18.0, cost),
            row("umcg", 2, 11.0, cost),
            row("peer", 2, 11.0, cost),
            row("umcg", 1, 1e6, rate),
            row("peer", 1, 2e7, rate),
        ];
        Ok(Report {
            bench: "good",
            machine: Machine::this(),
            rows,
            notes: vec!["<peer>: no row for more".to_owned()],
            failed: vec!["peer"],
        })
    }

    pub(in crate::all) fn run(names: &[&str], rounds: usize) -> All {
        let benches = names.iter().map(|name| match *name {
            "bad" => about("bad", |_, _| bail!("it cannot be & will not be")),
            "panics" => about("panics", |_, _| panic!("on purpose")),
            "other" => about("other", |_, _| Err(nothing())),
            "lacks" => about("lacks", |_, options| {
                options.notes.say("there is no compiler");
                Err(nothing())
            }),
            "ours" => about("ours", |plan, options| {
                let failed = vec!["umcg"];
                Ok(Report {
                    failed,
                    ..good(plan, options)?
                })
            }),
            _ => about("good", good),
        });
        let time = Time {
            total: Duration::from_secs(3600),
            rounds,
        };
        let options = |_: &About| Ok(Some(Options::default()));
        all(benches.collect(), time, options, |_| ()).unwrap()
    }

    fn nothing() -> anyhow::Error {
        let only = vec!["nothing".parse().unwrap()];
        let choice = crate::harness::Choice {
            only,
            ..Default::default()
        };
        let options = Options {
            choice,
            ..Options::default()
        };
        crate::harness::run("other", Vec::new(), Plan::default(), &options).unwrap_err()
    }

    #[test]
    fn a_bench_that_fails_stops_no_other() {
        let all = run(&["bad", "good", "panics"], 15);
        let names: Vec<&str> = all.done.iter().map(|done| done.about.name).collect();
        assert_eq!(names, ["bad", "good", "panics"]);
        let errors: Vec<Option<&String>> = all
            .done
            .iter()
            .map(|done| done.report.as_ref().err())
            .collect();
        assert_eq!(errors[0].unwrap(), "it cannot be & will not be");
        assert!(errors[1].is_none() && errors[2].unwrap() == "it panicked");
        assert!(all.has_failed());
    }

    #[test]
    fn a_peer_that_is_missing_is_no_failure_and_ours_is() {
        assert!(!run(&["good"], 15).has_failed());
        assert!(run(&["good", "ours"], 15).has_failed());
    }

    #[test]
    fn rows_that_cannot_be_measured_here_are_not_passed_over() {
        let all = run(&["lacks", "good"], 15);
        assert_eq!((all.done.len(), all.wanted), (2, 2));
        assert_eq!(
            all.done[0].report.as_ref().unwrap_err(),
            "there is no compiler"
        );
        assert!(all.has_failed());
    }

    #[test]
    fn benches_without_the_rows_that_are_asked_for_are_left_out() {
        let all = run(&["other", "good"], 15);
        assert_eq!((all.done.len(), all.wanted), (1, 1));
        assert!(!all.has_failed());
    }
}
