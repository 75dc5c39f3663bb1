//! `umcg bench run`: unmodified programs, native and under `umcg run`.
//!
//! Both sides start the same file with the same arguments and environment, on the same CPUs: as
//! many as `umcg run` is given servers. `native` starts it as it is, and `umcg-run` by the command
//! `umcg run --servers N -- PROGRAM ...` of this build. The programs of our own (`own`) are built
//! by the machine's compilers when the bench starts (`compile`); others are those that are
//! installed (`installed`). A server's load comes from a client of ours, which is native on both
//! sides.
//!
//! A side has no row if the program fails, hangs, or says something else than it does natively. A
//! program that `umcg run` leaves to run natively has none either: its figure would be that of the
//! other side.

mod bars;
mod client;
mod compile;
mod entry;
mod installed;
mod measure;
mod own;
mod process;

use crate::About;
use crate::harness::{
    self, Case, Column, Demand, Metric, Options, Params, Plan, Program, Report, Row, Section,
    higher, lower, number,
};
use anyhow::{Context, Result, ensure};
pub(crate) use client::{await_server, free_port};
use compile::Compiler;
pub(crate) use compile::installed;
use entry::{Entry, Figures, File, Measure};
use measure::Subject;
use process::{Place, Scratch};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const NATIVE: &str = "native";
const UMCG_RUN: &str = "umcg-run";

/// The cases that are ours.
const OURS: &[&str] = &[UMCG_RUN];

/// Of every row.
const METRICS: &[Metric] = &[
    higher("ops", "1/s"),
    lower("cpu", "us"),
    lower("switches", "1/op"),
];

/// More servers than this are not measured.
const MOST_SERVERS: usize = 2;

const OPS_COLUMNS: &[(&str, Column)] =
    &[("us an op", |_, row: &Row| Some(number(1e6 / row.median)))];

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
        references: &[NATIVE],
    }
}

const SECTIONS: &[Section] = &[
    section(
        "Operations a second",
        "ops",
        "ops/s",
        OPS_COLUMNS,
        Some(bars::findings),
    ),
    section(
        "CPU time of all the program's processes, an operation",
        "cpu",
        "us",
        &[],
        None,
    ),
    section(
        "Context switches of the kernel, an operation",
        "switches",
        "switches",
        &[],
        None,
    ),
];

/// For the catalogue.
pub(crate) fn about() -> About {
    About {
        name: "run",
        title: "Unmodified programs, native and under umcg run",
        ours: OURS,
        metrics: METRICS.iter().collect(),
        params: &["servers", "program", "connections"],
        sections: SECTIONS,
        graphs: &[],
        usual: bars::USUAL,
        share: 18,
        arguments: &["run"],
        run,
    }
}

/// Runs the bench. The options' own program is the one that starts others under `umcg run`: it is
/// given `--servers N -- PROGRAM ARGUMENTS` after its own arguments.
fn run(plan: Plan, options: &Options) -> Result<Report> {
    let cpus = harness::cpu::allowed()?;
    ensure!(!cpus.is_empty(), "no CPU to run on");
    if cpus.len() < MOST_SERVERS {
        let line = "run: only one CPU to run on: no rows for 2 servers";
        options.notes.say(line);
    }
    process::raise_limit();
    let scratch = Scratch::new()?;
    let compiler = Compiler::new(scratch.path())?;
    let mut plans = Plans {
        options,
        cpus,
        scratch: &scratch,
        compiler,
    };
    let mut groups = Vec::new();
    for entry in entries() {
        groups.extend(plans.groups(entry));
    }
    harness::run_groups("run", groups, plan, options)
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    own::ENTRIES.iter().chain(installed::ENTRIES)
}

/// Makes cases.
struct Plans<'a> {
    options: &'a Options,
    cpus: Vec<usize>,
    scratch: &'a Scratch,
    compiler: Compiler,
}

impl Plans<'_> {
    /// Sides take turns with each other, and with nobody else.
    fn groups(&mut self, entry: &'static Entry) -> Vec<Vec<Case>> {
        let sizes = self.sizes(entry);
        // A program of which nothing is asked is not built. Its cases tell the harness which names
        // there are, and are never run.
        let found = if sizes.iter().any(|&size| self.is_asked(entry, size)) {
            self.find(entry)
        } else {
            Ok((PathBuf::new(), Vec::new()))
        };
        match found {
            Ok(found) => sizes
                .into_iter()
                .map(|size| self.group(entry, &found, size))
                .collect(),
            Err(error) => {
                let line = format!("{}: no rows: {error:#}", entry.program);
                self.options.notes.say(line);
                Vec::new()
            }
        }
    }

    /// Servers, and connections where there are some.
    fn sizes(&self, entry: &Entry) -> Vec<(usize, Option<usize>)> {
        let connections: Vec<Option<usize>> = match entry.measure {
            Measure::Served { connections, .. } => {
                let of = connections[usize::from(self.options.small)];
                of.iter().copied().map(Some).collect()
            }
            _ => vec![None],
        };
        let servers = 1..=self.cpus.len().min(MOST_SERVERS);
        servers
            .flat_map(|servers| connections.iter().map(move |&count| (servers, count)))
            .collect()
    }

    fn is_asked(&self, entry: &Entry, size: (usize, Option<usize>)) -> bool {
        let params = params(entry, size);
        let choice = &self.options.choice;
        [NATIVE, UMCG_RUN]
            .iter()
            .any(|case| choice.takes_any(case, &params, METRICS))
    }

    /// The file to start, and the arguments before those of the entry.
    fn find(&mut self, entry: &Entry) -> Result<(PathBuf, Vec<OsString>)> {
        match entry.file {
            File::Own(source) => self.compiler.program(source),
            File::Installed(name) => {
                let file = compile::installed(name);
                let file = file.with_context(|| format!("{name} is not installed"))?;
                Ok((file, Vec::new()))
            }
        }
    }

    fn group(
        &self,
        entry: &'static Entry,
        found: &(PathBuf, Vec<OsString>),
        size: (usize, Option<usize>),
    ) -> Vec<Case> {
        let subject = Subject {
            entry,
            file: found.0.clone(),
            arguments: found.1.clone(),
            connections: size.1.unwrap_or(0),
            small: self.options.small,
            said: Arc::new(Mutex::new(None)),
        };
        let launcher = self.options.own.clone();
        [(NATIVE, None), (UMCG_RUN, Some(launcher))]
            .into_iter()
            .map(|(name, launcher)| self.case(name, launcher, &subject, size))
            .collect()
    }

    fn case(
        &self,
        name: &'static str,
        launcher: Option<Program>,
        subject: &Subject,
        size: (usize, Option<usize>),
    ) -> Case {
        let place = Place {
            launcher,
            servers: size.0,
            cpus: self.cpus.clone(),
            folder: self.scratch.path().to_owned(),
        };
        let (subject, mut count) = (subject.clone(), 0);
        let params = params(subject.entry, size);
        let turn = move |budget: Duration| {
            let figures = subject.turn(&place, budget, &mut count)?;
            if place.launcher.is_some() {
                check_that_it_was_run(&figures)?;
            }
            Ok(figures.values())
        };
        Case {
            name,
            params,
            metrics: METRICS,
            cpu: self.cpus[0],
            length: 1,
            turn: Box::new(turn),
        }
    }
}

fn params(entry: &Entry, (servers, connections): (usize, Option<usize>)) -> Params {
    let connections = connections.map(|count| ("connections".to_owned(), count.into()));
    [
        ("program".to_owned(), entry.program.into()),
        ("servers".to_owned(), servers.into()),
    ]
    .into_iter()
    .chain(connections)
    .collect()
}

/// `umcg run` says in one line on standard error that it leaves a program alone.
fn check_that_it_was_run(figures: &Figures) -> Result<()> {
    let is_note = |line: &&str| line.starts_with("umcg") && line.contains("native");
    match figures.errors.lines().find(is_note) {
        Some(line) => Err(anyhow::anyhow!("it ran natively: {line}")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Choice, Notes};

    pub(super) fn programs() -> Vec<&'static str> {
        entries().map(|entry| entry.program).collect()
    }

    /// Runs programs with a shell script in place of `umcg run`: `$0` is "umcg", and the arguments
    /// are those that `umcg run` would get.
    fn report(script: &str, only: &[&str]) -> Report {
        let own = Program {
            file: "/bin/sh".into(),
            arguments: ["-c", script, "umcg"].map(OsString::from).to_vec(),
        };
        let only = only.iter().map(|text| text.parse().unwrap()).collect();
        let options = Options {
            own,
            choice: Choice {
                only,
                ..Choice::default()
            },
            small: true,
            notes: Notes::default(),
        };
        let plan = Plan {
            seconds: 0.02,
            rounds: 1,
            end: None,
        };
        run(plan, &options).unwrap()
    }

    const EXEC: &str = "shift 3; exec \"$@\"";

    fn cases(report: &Report) -> Vec<&str> {
        let rows = report.rows.iter().filter(|row| row.metric == "ops");
        rows.map(|row| row.case).collect()
    }

    #[test]
    fn names_are_unique_and_every_metric_has_a_section() {
        let all = programs();
        for (place, name) in all.iter().enumerate() {
            assert!(!all[..place].contains(name), "{name}");
        }
        let shown: Vec<&str> = SECTIONS.iter().map(|section| section.metric).collect();
        let metrics: Vec<&str> = METRICS.iter().map(|metric| metric.name).collect();
        assert_eq!(metrics, shown);
    }

    #[test]
    fn every_program_of_our_own_in_c_has_rows() {
        let c = own::ENTRIES.iter().filter(|entry| match entry.file {
            // A library that may not be there.
            File::Own(source) => {
                source.language == compile::Language::C && source.options.len() < 2
            }
            File::Installed(_) => false,
        });
        let only: Vec<&str> = c.map(|entry| entry.program).collect();
        let report = report(EXEC, &only);
        for program in only {
            for case in [NATIVE, UMCG_RUN] {
                let of = |row: &&Row| row.case == case && row.params["program"] == program;
                let rows: Vec<&Row> = report.rows.iter().filter(of).collect();
                assert!(rows.len() >= 3, "{case} {program}");
                for row in rows {
                    let is_good = row.median > 0.0 || row.metric == "switches";
                    assert!(is_good && row.median.is_finite(), "{row:?}");
                }
            }
        }
    }

    /// Those of a language that may be missing, and those that others have made.
    #[test]
    fn other_programs_have_rows_where_they_are_installed() {
        let mut compiler_folder = None;
        let is_there = |entry: &&Entry| match entry.file {
            File::Own(source) if source.language == compile::Language::C => false,
            File::Own(source) => {
                let scratch = compiler_folder.get_or_insert_with(|| Scratch::new().unwrap());
                let compiler = Compiler::new(scratch.path());
                compiler.and_then(|mut it| it.program(source)).is_ok()
            }
            File::Installed(name) => compile::installed(name).is_some(),
        };
        let there: Vec<&str> = entries()
            .filter(is_there)
            .map(|entry| entry.program)
            .collect();
        if there.is_empty() {
            return;
        }
        let only: Vec<String> = there
            .iter()
            .map(|name| format!("{name} servers=1"))
            .collect();
        let only: Vec<&str> = only.iter().map(String::as_str).collect();
        let json: serde_json::Value =
            serde_json::from_str(&report(EXEC, &only).to_json().unwrap()).unwrap();
        assert_eq!(json["bench"], "run");
        let rows = json["rows"].as_array().unwrap();
        for (program, case) in there.iter().flat_map(|it| [(it, NATIVE), (it, UMCG_RUN)]) {
            let of = |row: &&serde_json::Value| {
                row["params"]["program"] == **program && row["case"] == case
            };
            let metrics: Vec<&str> = rows
                .iter()
                .filter(of)
                .map(|row| row["metric"].as_str().unwrap())
                .collect();
            assert_eq!(metrics, ["ops", "cpu", "switches"], "{case} {program}");
        }
    }

    #[test]
    fn names_of_programs_that_are_not_asked_for_are_known() {
        let own = Program {
            file: "/bin/false".into(),
            arguments: Vec::new(),
        };
        let options = |only: &str| Options {
            own: own.clone(),
            choice: Choice {
                only: vec![only.parse().unwrap()],
                ..Choice::default()
            },
            small: true,
            notes: Notes::default(),
        };
        let error = run(Plan::default(), &options("fast")).unwrap_err();
        let said = error.to_string();
        assert_eq!(
            said,
            "no row has \"fast\"; the metrics are ops, cpu, switches"
        );
        let error = run(Plan::default(), &options("futex connections=1")).unwrap_err();
        assert!(error.to_string().contains("no row has all of"), "{error}");
    }

    #[test]
    fn failures_and_other_output_are_no_figures() {
        let only = &["single servers=1"];
        assert_eq!(cases(&report(EXEC, only)), [NATIVE, UMCG_RUN]);
        let rows = |script| report(script, only).rows;
        for wrong in [
            "exit 1",
            "shift 3; echo more; exec \"$@\"",
            "shift 3; \"$@\"; kill -9 $$",
            "echo 'umcg: no such kernel: it runs natively' >&2; shift 3; exec \"$@\"",
            "[ $2 = 2 ] && shift 3 && exec \"$@\"",
        ] {
            let rows = rows(wrong);
            let has_native_alone = rows.iter().all(|row| row.case == NATIVE);
            assert!(has_native_alone && rows.len() == 3, "{wrong}");
        }
    }
}
