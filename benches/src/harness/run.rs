//! Gives the sides their turns.

use super::progress::Progress;
use super::report::describe;
use super::schedule::{Schedule, Share, weight};
use super::{Case, Machine, Notes, Options, Report, Row, cpu, judge};
use anyhow::{Result, anyhow, ensure};
use std::thread;
use std::time::{Duration, Instant};

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The time a case gets altogether, warm-up included.
    pub seconds: f64,
    /// Rounds that count.
    pub rounds: usize,
    /// All cases together are to be done by then, with shorter turns where they have to be.
    pub end: Option<Instant>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            seconds: 1.0,
            rounds: judge::ROUNDS,
            end: None,
        }
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
pub fn run(bench: &'static str, cases: Vec<Case>, plan: Plan, options: &Options) -> Result<Report> {
    run_groups(bench, vec![cases], plan, options)
}

/// As [`run`], a group after the other: only the cases of a group alternate.
pub fn run_groups(
    bench: &'static str,
    groups: Vec<Vec<Case>>,
    plan: Plan,
    options: &Options,
) -> Result<Report> {
    let (choice, notes) = (&options.choice, &options.notes);
    let mut groups = choice.of(groups)?;
    if plan.end.is_some() {
        // Nobody knows how long they take, and the others are not to pay for it.
        groups.sort_by_key(|cases| cases.iter().any(|case| case.length == 0));
    }
    let count = groups.iter().map(Vec::len).sum::<usize>();
    let mut schedule = Schedule::new(&plan, groups.iter().map(|it| weight(it)).sum())?;
    let mut progress = Progress::new(bench, count * (plan.rounds + 1), "turns");
    let (mut rows, mut failed) = (Vec::new(), Vec::new());
    for cases in groups {
        let Some(share) = schedule.share(&cases) else {
            let named = cases.iter().map(|case| notes.keep(missed(case)));
            progress.skip(named.count() * (plan.rounds + 1));
            continue;
        };
        let mut group = Group {
            share,
            notes,
            sides: cases.into_iter().map(Side::new).collect(),
        };
        group.run(plan.rounds, &mut progress);
        let is_failed = |side: &&Side| side.failed;
        failed.extend(
            group
                .sides
                .iter()
                .filter(is_failed)
                .map(|side| side.case.name),
        );
        rows.extend(group.sides.into_iter().flat_map(Side::rows));
    }
    progress.finish();
    // A case may have metrics that were not asked for.
    rows.retain(|row| choice.takes_row(row));
    Ok(Report {
        bench,
        machine: Machine::this(),
        rows,
        notes: notes.take(),
        failed,
    })
}

fn missed(case: &Case) -> String {
    format!("{}: the time was over", heading(case))
}

/// The rows of a case that are missing.
fn heading(case: &Case) -> String {
    let metrics: Vec<&str> = case.metrics.iter().map(|metric| metric.name).collect();
    let params = describe(&case.params);
    format!(
        "{}: no row for {} ({params})",
        case.name,
        metrics.join(", ")
    )
}

/// Cases that alternate.
struct Group<'a> {
    share: Share,
    notes: &'a Notes,
    sides: Vec<Side>,
}

impl Group<'_> {
    fn run(&mut self, rounds: usize, progress: &mut Progress) {
        for round in 0..=rounds {
            if round > 0 && !self.share.has_time(round - 1) {
                progress.skip(self.sides.len());
                continue;
            }
            let start = Instant::now();
            self.round(round, self.share.turn(), progress);
            self.share.note(start.elapsed(), round + 1);
        }
    }

    /// The round that warms up, 0, does not count.
    fn round(&mut self, round: usize, budget: Duration, progress: &mut Progress) {
        let mut order: Vec<&mut Side> = self.sides.iter_mut().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for side in order {
            if !side.failed {
                progress.begin(side.case.name);
                side.take_turn(budget, round > 0, progress, self.notes);
            }
            progress.end();
        }
    }
}

impl Side {
    fn new(case: Case) -> Self {
        Self {
            values: vec![Vec::new(); case.metrics.len()],
            case,
            failed: false,
        }
    }

    fn take_turn(&mut self, budget: Duration, counts: bool, progress: &Progress, notes: &Notes) {
        let result = on_own_thread(&mut self.case, budget).and_then(|values| {
            let (given, wanted) = (values.len(), self.values.len());
            ensure!(given == wanted, "{given} values for {wanted} metrics");
            Ok(values)
        });
        match result {
            Ok(values) if counts => self
                .values
                .iter_mut()
                .zip(values)
                .for_each(|(all, value)| all.push(value)),
            Ok(_) => {}
            Err(error) => {
                self.failed = true;
                let line = format!("{}: {error:#}", heading(&self.case));
                progress.say(&line);
                notes.keep(line);
            }
        }
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
        metrics
            .iter()
            .zip(self.values)
            .filter_map(|(metric, values)| Row::new(name, params.clone(), metric, values))
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
            length: 1,
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
                end: None,
            },
            &Options::default(),
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
                end: None,
            },
            &Options::default(),
        )
        .unwrap();
        assert_eq!(
            report.rows.iter().map(|row| row.case).collect::<Vec<_>>(),
            ["good"]
        );
        assert_eq!(
            report.notes,
            [
                "bad: no row for m (): not today",
                "wrong: no row for m (): 0 values for 1 metrics"
            ]
        );
        assert_eq!(report.failed, ["bad", "wrong"]);
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
                end: None,
            },
            &Options::default(),
        )
        .unwrap();
        assert_eq!(*log.lock().unwrap(), "abbacddc");
        assert_eq!(
            report.rows.iter().map(|row| row.case).collect::<Vec<_>>(),
            ["a", "b", "c", "d"]
        );
    }

    #[test]
    fn a_limit_is_kept_and_the_report_says_what_is_missing() {
        let slow = |name: &'static str| {
            case(name, move |_| {
                thread::sleep(Duration::from_millis(20));
                Ok(vec![1.0])
            })
        };
        let plan = Plan {
            end: Some(Instant::now() + Duration::from_millis(100)),
            ..Plan::default()
        };
        let groups = ["a", "b", "c", "d", "e", "f", "g", "h"].map(|name| vec![slow(name)]);
        let start = Instant::now();
        let report = run_groups("test", groups.into(), plan, &Options::default()).unwrap();
        let all = Duration::from_millis(20) * 8 * 16;
        assert!(start.elapsed() < all, "{:?}", start.elapsed());
        let rows = report.rows.len();
        assert!(rows > 0 && report.rows.iter().all(|row| row.runs < 15));
        assert_eq!(report.notes.len(), 8 - rows);
        let is_said = |line: &String| line.ends_with("no row for m (): the time was over");
        assert!(report.notes.iter().all(is_said), "{:?}", report.notes);
    }

    #[test]
    fn impossible_plans_are_refused() {
        for (seconds, rounds) in [(-1.0, 7), (f64::NAN, 7), (1.0, 0)] {
            let plan = Plan {
                seconds,
                rounds,
                end: None,
            };
            assert!(run("test", Vec::new(), plan, &Options::default()).is_err());
        }
    }
}
