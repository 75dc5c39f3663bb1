//! Runs a program in several ways, and compares each with the first.

use crate::process::{self, Outcome};
use crate::program::{End, Program};
use crate::refuse::Refusal;
use crate::settings::Settings;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

/// A program that cannot do its checks here ends with this status.
const SKIPPED: End = End::Status(77);

/// A way to run a program.
#[derive(Clone)]
pub(crate) struct Way {
    title: String,
    /// The words before its command.
    prefix: Vec<OsString>,
    /// The system calls that it has to do without.
    refused: Option<Refusal>,
}

impl Way {
    pub(crate) fn native() -> Self {
        Self {
            title: "native".to_owned(),
            prefix: Vec::new(),
            refused: None,
        }
    }

    /// Under `umcg run` with this many servers and more options.
    pub(crate) fn umcg(servers: &str, options: &[String]) -> Self {
        let words = [env!("CARGO_BIN_EXE_umcg"), "run", "--servers", servers];
        let options = options.iter().map(String::as_str);
        Self {
            title: format!("servers {servers}"),
            prefix: words
                .into_iter()
                .chain(options)
                .chain(["--"])
                .map(OsString::from)
                .collect(),
            refused: None,
        }
    }

    /// As the planted program, with one of its faults.
    pub(crate) fn planted(fault: &str) -> Self {
        Self {
            title: format!("planted {fault}"),
            prefix: vec!["env".into(), format!("UMCG_PLANTED={fault}").into()],
            refused: None,
        }
    }

    /// The same, without these system calls.
    pub(crate) fn without(mut self, refused: &Refusal) -> Self {
        self.title = format!("{}, without {}", self.title, refused.title);
        self.refused = Some(refused.clone());
        self
    }

    /// The words that start the program in this way.
    pub(crate) fn command(&self, program: &Program) -> Vec<OsString> {
        self.prefix
            .iter()
            .cloned()
            .chain(program.command.iter().map(|word| word.into()))
            .collect()
    }
}

/// What came of a program that has not failed, in a line.
#[derive(Debug)]
pub(crate) enum Compared {
    /// It does the same in each way; with the times.
    Same(String),
    /// Why there was nothing to compare.
    Skipped(String),
}

/// Runs the program in each way, as many rounds as the settings say. Returns a description of the
/// first failure in each way, if there is one. A native failure ends it; it is a reason to skip the
/// program if system calls are refused.
pub(crate) fn program(
    program: &Program,
    ways: &[Way],
    folder: &Path,
    settings: &Settings,
) -> Result<Compared, String> {
    let mut line = format!("{}:", program.name);
    let mut failures = String::new();
    let mut first: Option<Outcome> = None;
    for (number, way) in ways.iter().enumerate() {
        let files = folder.join(format!("{}_{number}", file_name(&program.name)));
        let mut longest = 0.0_f64;
        for round in 0..settings.rounds {
            let command = way.command(program);
            let refused = way.refused.as_ref();
            let environment = &program.environment;
            let outcome = process::run(&command, environment, refused, &files, settings.limit);
            if number == 0 && outcome.end == Ok(SKIPPED) {
                let reason = String::from_utf8_lossy(&outcome.output).into_owned();
                let line = format!("{}: {}", program.name, reason.trim());
                return Ok(Compared::Skipped(line));
            }
            longest = longest.max(outcome.took.as_secs_f64());
            if let Err(reason) = judge(program, first.as_ref(), &outcome, settings) {
                if number == 0 && way.refused.is_some() {
                    let line = needs(&program.name, &way.title, &reason, &outcome);
                    return Ok(Compared::Skipped(line));
                }
                let way = &way.title;
                failures += &describe(program, way, round, &command, &reason, &outcome);
                break;
            }
            first.get_or_insert(outcome);
        }
        if first.is_none() {
            return Err(failures);
        }
        let _ = write!(line, " {} {longest:.2} s,", way.title);
    }
    line.pop();
    if failures.is_empty() {
        Ok(Compared::Same(line))
    } else {
        Err(failures)
    }
}

/// A line about a program that needs what is refused: how it ended, and what it said last.
fn needs(program: &str, way: &str, reason: &str, outcome: &Outcome) -> String {
    let reason = reason.lines().next().unwrap_or_default();
    let errors = String::from_utf8_lossy(&outcome.errors);
    let last = errors.lines().last().unwrap_or_default();
    format!("{program}, {way}: {reason}; {last}")
}

/// A name that is good for a file.
fn file_name(name: &str) -> String {
    name.replace(|letter: char| !letter.is_alphanumeric(), "_")
}

/// Whether a run is as it should be: as the program says, and as the first one was.
fn judge(
    program: &Program,
    first: Option<&Outcome>,
    outcome: &Outcome,
    settings: &Settings,
) -> Result<(), String> {
    match &outcome.end {
        Err(state) => {
            let seconds = settings.limit.as_secs();
            return Err(format!("took more than {seconds} s\n{state}"));
        }
        Ok(end) if *end != program.ends => return Err(end.to_string()),
        Ok(_) => {}
    }
    if let Some(obstacle) = obstacle(&outcome.errors) {
        return Err(obstacle);
    }
    if let Some(first) = first {
        if let Some(difference) = difference(&first.output, &outcome.output) {
            return Err(difference);
        }
    }
    if !outcome.left.is_empty() {
        return Err(format!("left behind: {}", outcome.left.join(", ")));
    }
    Ok(())
}

/// What keeps `umcg run` from scheduling the program's threads, by its own account or the loader's.
fn obstacle(errors: &[u8]) -> Option<String> {
    let errors = String::from_utf8_lossy(errors);
    errors
        .lines()
        .find(|line| line.starts_with("umcg") || line.starts_with("ERROR: ld.so: "))
        .map(str::to_owned)
}

/// The first line that differs.
fn difference(expected: &[u8], found: &[u8]) -> Option<String> {
    if expected == found {
        return None;
    }
    let expected = String::from_utf8_lossy(expected).into_owned();
    let found = String::from_utf8_lossy(found).into_owned();
    let mut expected = expected.split('\n');
    let mut found = found.split('\n');
    (1..).find_map(|number| {
        let pair = (expected.next(), found.next());
        (pair.0 != pair.1).then(|| {
            format!(
                "standard output differs in line {number}\n  natively: {}\n  here:     {}",
                pair.0.unwrap_or_default(),
                pair.1.unwrap_or_default()
            )
        })
    })
}

fn describe(
    program: &Program,
    way: &str,
    round: u32,
    command: &[OsString],
    reason: &str,
    outcome: &Outcome,
) -> String {
    let mut text = format!("FAILED: {}, {way}, round {round}: {reason}\n", program.name);
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    let _ = writeln!(text, "  command: {}", words.join(" "));
    for (name, bytes) in [("output", &outcome.output), ("errors", &outcome.errors)] {
        let all = String::from_utf8_lossy(bytes);
        let lines: Vec<&str> = all.lines().collect();
        for line in &lines[lines.len().saturating_sub(15)..] {
            let _ = writeln!(text, "  {name}: {line}");
        }
    }
    text
}
