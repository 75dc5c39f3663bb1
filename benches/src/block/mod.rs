//! `umcg bench block`: blocking that is noticed. Workers of ours that call the C library as threads
//! do (`umcg::intercept::notice_blocking`), beside kernel threads, tokio and our own network.
//!
//! Each turn of each side is a child process. Noticing is a matter of the whole process and has no
//! end, so a side that does without it needs a process of its own anyway. Every child has one CPU
//! and one server, or one thread of tokio; the load of an echo server, and a database that is
//! asked, have the CPUs that are left.
//!
//! | module | holds |
//! |---|---|
//! | this | which cases there are |
//! | `request` | the request to a child, and its answer |
//! | `flows` | workers, threads and tasks |
//! | `window` | counts what many flows do in a time |
//! | `blocking` | sleeps, a mutex, a client of a database |
//! | `passing` | calls that pass, and a program that never blocks |
//! | `database` | the database |
//! | `bars` | what is asked of ours |

mod bars;
mod blocking;
mod database;
mod flows;
mod passing;
mod request;
mod window;

use crate::harness::{
    self, Case, Child, Column, Demand, Metric, Notes, Options, Params, Plan, Program, Report, Row,
    Section, higher, lower, number,
};
use crate::{About, rt};
use anyhow::{Result, ensure};
use database::Database;
pub use request::child;
pub(crate) use request::notice;
use request::{Figures, Request, Work};
use std::path::PathBuf;
use std::time::Duration;

const UMCG: &str = "umcg";
/// By `umcg::net` in place of noticed calls.
const UMCG_NET: &str = "umcg-net";
/// In a process that does not notice.
const UMCG_OFF: &str = "umcg-off";
const THREADS: &str = "threads";
const TOKIO: &str = "tokio";

/// The cases that are ours.
const OURS: &[&str] = &[UMCG, UMCG_NET, UMCG_OFF];

/// Of every row; a part of the cases has the last.
const METRICS: &[Metric] = &[
    higher("ops", "1/s"),
    lower("cpu", "us"),
    lower("kernel_threads", "threads"),
];

/// How many of [`METRICS`] a case has that does not count its threads.
const PLAIN: usize = 2;

const OPS_COLUMNS: &[(&str, Column)] =
    &[("ns an op", |_, row: &Row| Some(number(1e9 / row.median)))];

const fn section(
    title: &'static str,
    metric: &'static str,
    heading: &'static str,
    columns: &'static [(&'static str, Column)],
    bar: Option<Demand>,
) -> Section {
    Section {
        title,
        metric,
        heading,
        columns,
        bar,
        references: &[THREADS, TOKIO, UMCG_NET, UMCG_OFF],
    }
}

const SECTIONS: &[Section] = &[
    section("Operations a second", "ops", "ops/s", OPS_COLUMNS, None),
    section(
        "CPU time of the whole process for an operation",
        "cpu",
        "us",
        &[],
        Some(bars::findings),
    ),
    section(
        "Kernel threads of the process, at the most",
        "kernel_threads",
        "threads",
        &[],
        Some(bars::findings),
    ),
];

/// A child whose answer is late by this much is given up.
const PATIENCE: Duration = Duration::from_secs(90);
/// Of the mutex.
const RIVALS: usize = 8;
/// Workers that never block.
const BUSY: usize = 16;
const DATABASE: &str = "redis-server";

/// The sides of a comparison, and what they do.
struct Group {
    cases: &'static [&'static str],
    params: Params,
    turns: Turns,
}

#[derive(Clone)]
enum Turns {
    /// A child does it by itself.
    Alone { work: Work, flows: usize },
    /// Beside a database.
    Asking { file: PathBuf, flows: usize },
    /// A server, and the load against it.
    Echo { connections: usize },
}

/// For the catalogue.
pub(crate) fn about() -> About {
    About {
        name: "block",
        title: "Workers that block as threads do, and are noticed",
        ours: OURS,
        metrics: METRICS.iter().collect(),
        params: &["what", "workers", "connections", "kind"],
        sections: SECTIONS,
        graphs: &[],
        usual: &[],
        share: 8,
        arguments: &["bench"],
        run,
    }
}

/// Runs the bench. The options' own program is given `block-child TASK`, or `rt-child TASK`, after
/// its own arguments, and runs [`child`] or [`rt::child`].
fn run(plan: Plan, options: &Options) -> Result<Report> {
    let cpus = harness::cpu::allowed()?;
    ensure!(!cpus.is_empty(), "no CPU to run on");
    let groups = groups(options)
        .into_iter()
        .map(|group| cases(group, options, &cpus))
        .collect();
    harness::run_groups("block", groups, plan, options)
}

fn groups(options: &Options) -> Vec<Group> {
    let pick = |full: usize, small: usize| if options.small { small } else { full };
    const ALL: &[&str] = &[UMCG, THREADS, TOKIO];
    let mut groups = vec![alone(ALL, "sleep", None, pick(10_000, 100), Work::Sleep)];
    let connections = if options.small {
        &[1, 20][..]
    } else {
        &[1, 100, 1000]
    };
    groups.extend(connections.iter().map(|&connections| Group {
        cases: &[UMCG, UMCG_NET, THREADS, TOKIO],
        params: params("echo", "connections", connections, None),
        turns: Turns::Echo { connections },
    }));
    for (kind, work) in [("yields", Work::MutexYield), ("sleeps", Work::MutexSleep)] {
        groups.push(alone(&[UMCG, THREADS], "mutex", Some(kind), RIVALS, work));
    }
    groups.extend(asking(options, pick(1000, 20)));
    for on_worker in [true, false] {
        for closes in [false, true] {
            let flow = if on_worker { "worker" } else { "thread" };
            let call = if closes { "close" } else { "getppid" };
            let kind = format!("{flow}-{call}");
            let work = Work::Call { on_worker, closes };
            groups.push(alone(&[UMCG, UMCG_OFF], "hook", Some(&kind), 1, work));
        }
    }
    for (kind, work) in [("computes", Work::Compute), ("switches", Work::Switch)] {
        groups.push(alone(&[UMCG, UMCG_OFF], "none", Some(kind), BUSY, work));
    }
    groups
}

/// Sides that need nobody else.
fn alone(
    cases: &'static [&'static str],
    what: &str,
    kind: Option<&str>,
    flows: usize,
    work: Work,
) -> Group {
    Group {
        cases,
        params: params(what, "workers", flows, kind),
        turns: Turns::Alone { work, flows },
    }
}

/// The rows with a database, if it is installed. One that is missing is named where its rows are
/// asked for.
fn asking(options: &Options, flows: usize) -> Option<Group> {
    const CASES: &[&str] = &[UMCG, THREADS, TOKIO];
    let params = params("client", "workers", flows, None);
    let file = crate::run::installed(DATABASE);
    let is_asked = || {
        let mut cases = CASES.iter();
        cases.any(|case| options.choice.takes_any(case, &params, METRICS))
    };
    if file.is_none() && is_asked() {
        let line = format!("client: no rows: {DATABASE} is not installed (benches/setup-run.sh)");
        options.notes.say(line);
    }
    file.map(|file| Group {
        cases: CASES,
        params,
        turns: Turns::Asking { file, flows },
    })
}

/// `kind` tells rows apart that differ in nothing else.
fn params(what: &str, of: &str, count: usize, kind: Option<&str>) -> Params {
    let kind = kind.map(|kind| ("kind".to_owned(), kind.into()));
    [
        ("what".to_owned(), what.into()),
        (of.to_owned(), count.into()),
    ]
    .into_iter()
    .chain(kind)
    .collect()
}

fn cases(group: Group, options: &Options, cpus: &[usize]) -> Vec<Case> {
    let metrics = match group.turns {
        Turns::Echo { .. } => &METRICS[..PLAIN],
        Turns::Alone { work, .. } if !work.has_flows() => &METRICS[..PLAIN],
        _ => METRICS,
    };
    let make = |&case: &&'static str| {
        let mut side = Side {
            case,
            own: options.own.clone(),
            cpus: cpus.to_vec(),
            notes: options.notes.clone(),
            least_echo: if options.small {
                Duration::ZERO
            } else {
                rt::LEAST_ECHO
            },
            is_told: false,
        };
        let turns = group.turns.clone();
        Case {
            name: case,
            params: group.params.clone(),
            metrics,
            cpu: cpus[0],
            length: 1,
            turn: Box::new(move |budget| {
                let mut values = side.turn(&turns, budget)?;
                values.truncate(metrics.len());
                Ok(values)
            }),
        }
    };
    group.cases.iter().map(make).collect()
}

struct Side {
    case: &'static str,
    own: Program,
    cpus: Vec<usize>,
    notes: Notes,
    least_echo: Duration,
    /// That there are fewer flows than there should be.
    is_told: bool,
}

impl Side {
    fn turn(&mut self, turns: &Turns, budget: Duration) -> Result<Vec<f64>> {
        match turns {
            Turns::Alone { work, flows } => self.alone(*work, *flows, budget),
            Turns::Asking { file, flows } => {
                let database = Database::start(file, self.others())?;
                self.alone(
                    Work::Ask {
                        port: database.port,
                    },
                    *flows,
                    budget,
                )
            }
            Turns::Echo { connections } => self.echo(*connections, budget),
        }
    }

    /// The CPUs that a child leaves, if there are some.
    fn others(&self) -> &[usize] {
        match &self.cpus[1..] {
            [] => &self.cpus,
            others => others,
        }
    }

    fn program(&self, command: &str) -> Program {
        let mut program = self.own.clone();
        program.arguments.push(command.into());
        program
    }

    fn alone(&mut self, work: Work, flows: usize, budget: Duration) -> Result<Vec<f64>> {
        let request = Request {
            case: self.case.to_owned(),
            work,
            flows,
            nanos: budget.as_nanos().try_into()?,
        };
        let program = self.program("block-child");
        let mut child = Child::start(&program, &request, &self.cpus[..1])?;
        let figures: Figures = child.answer(PATIENCE + 4 * budget)?;
        child.finish(PATIENCE)?;
        if figures.flows < flows && !self.is_told {
            self.is_told = true;
            let (case, had) = (self.case, figures.flows);
            self.notes.say(format!(
                "{case}: {had} in place of {flows}: the machine has refused more"
            ));
        }
        Ok(figures.values())
    }

    fn echo(&self, connections: usize, budget: Duration) -> Result<Vec<f64>> {
        let (case, kind) = match self.case {
            UMCG => (UMCG, "noticed"),
            UMCG_NET => (UMCG, "full"),
            case => (case, ""),
        };
        let cpus = [&self.cpus[..1], self.others()];
        rt::echo(
            &self.program("rt-child"),
            case,
            kind,
            connections,
            budget.max(self.least_echo),
            cpus,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::Choice;

    fn options(small: bool) -> Options {
        Options {
            own: Program {
                file: "/bin/false".into(),
                arguments: Vec::new(),
            },
            choice: Choice::default(),
            small,
            notes: Notes::default(),
        }
    }

    #[test]
    fn every_metric_has_a_section() {
        let shown: Vec<&str> = SECTIONS.iter().map(|section| section.metric).collect();
        let metrics: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(metrics, shown);
    }

    #[test]
    fn every_row_says_how_many_workers_or_connections_it_has() {
        for small in [true, false] {
            let all = groups(&options(small));
            for (place, group) in all.iter().enumerate() {
                let has = |key: &str| group.params.contains_key(key);
                assert!(has("what") && (has("workers") != has("connections")));
                let is_other = |other: &Group| other.params != group.params;
                assert!(all[..place].iter().all(is_other), "{:?}", group.params);
            }
        }
    }
}
