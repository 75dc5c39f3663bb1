//! Gives the sides their turns.

use super::progress::Progress;
use super::report::describe;
use super::{Case, Choice, Machine, Report, Row, Summary, cpu};
use anyhow::{Result, anyhow, ensure};
use std::thread;
use std::time::Duration;

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The time a case gets altogether, warm-up included.
    pub seconds: f64,
    /// Rounds that count.
    pub rounds: usize,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seconds: 1.0,
            rounds: 7,
        }
    }
}

impl Plan {
    fn turn(&self) -> Result<Duration> {
        ensure!(self.rounds > 0, "a bench needs at least one round");
        let seconds = self.seconds / (self.rounds + 1) as f64;
        Duration::try_from_secs_f64(seconds)
            .map_err(|_| anyhow!("{} seconds is no duration", self.seconds))
    }
}

/// A case and its reports so far: for each metric, a value a round.
struct Side {
    case: Case,
    values: Vec<Vec<f64>>,
    failed: bool,
}

/// Runs those of the cases that are chosen in alternating rounds. A case that fails gives no row,
/// and one line on standard error.
pub fn run(bench: &'static str, cases: Vec<Case>, plan: Plan, choice: &Choice) -> Result<Report> {
    run_groups(bench, vec![cases], plan, choice)
}

/// As [`run`], a group after the other: only the cases of a group alternate.
pub fn run_groups(
    bench: &'static str,
    groups: Vec<Vec<Case>>,
    plan: Plan,
    choice: &Choice,
) -> Result<Report> {
    let budget = plan.turn()?;
    let groups = choice.of(groups)?;
    let mut progress = Progress::new(
        bench,
        groups.iter().map(Vec::len).sum::<usize>() * (plan.rounds + 1),
        "turns",
    );
    let mut rows = Vec::new();
    for cases in groups {
        rows.extend(run_group(cases, plan.rounds, budget, &mut progress));
    }
    progress.finish();
    // A case may have metrics that were not asked for.
    rows.retain(|row| choice.takes_row(row));
    Ok(Report {
        bench,
        machine: Machine::this(),
        rows,
    })
}

fn run_group(
    cases: Vec<Case>,
    rounds: usize,
    budget: Duration,
    progress: &mut Progress,
) -> Vec<Row> {
    let mut sides: Vec<Side> = cases
        .into_iter()
        .map(|case| Side {
            values: vec![Vec::new(); case.metrics.len()],
            case,
            failed: false,
        })
        .collect();
    for round in 0..=rounds {
        let mut order: Vec<&mut Side> = sides.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for side in order {
            if !side.failed {
                progress.begin(side.case.name);
                side.take_turn(budget, round > 0, progress);
            }
            progress.end();
        }
    }
    sides.into_iter().flat_map(Side::rows).collect()
}

impl Side {
    /// The round that warms up does not count.
    fn take_turn(&mut self, budget: Duration, counts: bool, progress: &Progress) {
        match on_own_thread(&mut self.case, budget) {
            Ok(values) if values.len() == self.values.len() => {
                if counts {
                    self.values
                        .iter_mut()
                        .zip(values)
                        .for_each(|(all, value)| all.push(value));
                }
            }
            Ok(values) => self.give_up(
                &anyhow!("{} values for {} metrics", values.len(), self.values.len()),
                progress,
            ),
            Err(error) => self.give_up(&error, progress),
        }
    }

    fn give_up(&mut self, error: &anyhow::Error, progress: &Progress) {
        self.failed = true;
        let Case {
            name,
            params,
            metrics,
            ..
        } = &self.case;
        let metrics: Vec<&str> = metrics.iter().map(|metric| metric.name).collect();
        progress.say(&format!(
            "{name}: no row for {} ({}): {error:#}",
            metrics.join(", "),
            describe(params)
        ));
    }

    fn rows(self) -> Vec<Row> {
        if self.failed {
            return Vec::new();
        }
        let Case {
            name,
            params,
            metrics,
            ..
        } = self.case;
        let summaries = self.values.iter().map(|values| Summary::of(values));
        metrics
            .iter()
            .zip(summaries)
            .filter_map(|(metric, all)| Some(Row::new(name, params.clone(), metric, all?)))
            .collect()
    }
}

/// A turn has a thread of its own, pinned: affinity, thread-locals and registrations end with it.
fn on_own_thread(case: &mut Case, budget: Duration) -> Result<Vec<f64>> {
    let Case {
        turn, cpu, name, ..
    } = case;
    let cpu = *cpu;
    thread::scope(|scope| {
        let body = move || cpu::pin(cpu).and_then(|()| turn(budget));
        let thread = thread::Builder::new()
            .name((*name).to_owned())
            .spawn_scoped(scope, body)?;
        thread.join().map_err(|_| anyhow!("panicked"))?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Better, Metric, Params};
    use std::sync::{Arc, Mutex};

    const METRICS: &[Metric] = &[Metric {
        name: "m",
        unit: "ns",
        better: Better::Lower,
    }];

    fn case(
        name: &'static str,
        turn: impl FnMut(Duration) -> Result<Vec<f64>> + Send + 'static,
    ) -> Case {
        let cpu = cpu::allowed().unwrap()[0];
        Case {
            name,
            params: Params::new(),
            metrics: METRICS,
            cpu,
            turn: Box::new(turn),
        }
    }

    #[test]
    fn sides_alternate_and_the_first_round_does_not_count() {
        let log = Arc::new(Mutex::new(Vec::new()));
        let side = |name: &'static str| {
            let log = Arc::clone(&log);
            case(name, move |_| {
                let mut log = log.lock().unwrap();
                log.push(name);
                Ok(vec![log.len() as f64])
            })
        };
        let report = run(
            "test",
            vec![side("a"), side("b")],
            Plan {
                seconds: 0.0,
                rounds: 2,
            },
            &Choice::default(),
        )
        .unwrap();
        assert_eq!(*log.lock().unwrap(), ["a", "b", "b", "a", "a", "b"]);
        assert_eq!(report.rows.len(), 2);
        assert_eq!(
            (
                report.rows[0].min,
                report.rows[0].median,
                report.rows[0].max
            ),
            (4.0, 4.5, 5.0)
        );
        assert_eq!(report.rows[1].runs, 2);
    }

    #[test]
    fn a_side_that_fails_has_no_row_and_stops_nobody() {
        let sides = vec![
            case("good", |_| Ok(vec![1.0])),
            case("bad", |_| Err(anyhow!("not today"))),
            case("wrong", |_| Ok(Vec::new())),
            case("infinite", |_| Ok(vec![f64::INFINITY])),
        ];
        let report = run(
            "test",
            sides,
            Plan {
                seconds: 0.0,
                rounds: 3,
            },
            &Choice::default(),
        )
        .unwrap();
        assert_eq!(
            report.rows.iter().map(|row| row.case).collect::<Vec<_>>(),
            ["good"]
        );
    }

    #[test]
    fn groups_come_one_after_the_other() {
        let log = Arc::new(Mutex::new(String::new()));
        let side = |name: &'static str| {
            let log = Arc::clone(&log);
            case(name, move |_| {
                log.lock().unwrap().push_str(name);
                Ok(vec![1.0])
            })
        };
        let groups = vec![
            vec![side("a"), side("b")],
            Vec::new(),
            vec![side("c"), side("d")],
        ];
        let report = run_groups(
            "test",
            groups,
            Plan {
                seconds: 0.0,
                rounds: 1,
            },
            &Choice::default(),
        )
        .unwrap();
        assert_eq!(*log.lock().unwrap(), "abbacddc");
        assert_eq!(
            report.rows.iter().map(|row| row.case).collect::<Vec<_>>(),
            ["a", "b", "c", "d"]
        );
    }

    #[test]
    fn impossible_plans_are_refused() {
        for (seconds, rounds) in [(-1.0, 7), (f64::NAN, 7), (1.0, 0)] {
            let plan = Plan { seconds, rounds };
            assert!(run("test", Vec::new(), plan, &Choice::default()).is_err());
        }
    }
}
