//! A program of the corpus: its source, and what the first comment of the source tells the runner.
//!
//! A line of that comment that begins with `run:` is a directive:
//!
//! | directive | meaning |
//! |---|---|
//! | `run: ends SIGABRT`, `run: ends 3` | how the program ends; with status 0 where not given |
//! | `run: flags -fopenmp` | more options for the compiler |
//! | `run: needs make sort` | commands without which the program is skipped |
//! | `run: library part.c` | a source in `libraries/`, compiled to a shared library |
//! | `run: known TEXT` | it is not right under `umcg run`, for this reason: it runs natively only |
//! | `run: again NAME=VALUE` | the program runs once more, with this variable in the environment |
//!
//! The program finds its shared libraries in the folder that `UMCG_RUN_LIBRARIES` names.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

/// How a process ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    /// By itself, with a status.
    Status(i32),
    /// By a signal.
    Signal(i32),
}

/// The signals that programs of the corpus end by, and those of likely faults.
const SIGNALS: [(i32, &str); 9] = [
    (libc::SIGABRT, "SIGABRT"),
    (libc::SIGALRM, "SIGALRM"),
    (libc::SIGBUS, "SIGBUS"),
    (libc::SIGILL, "SIGILL"),
    (libc::SIGKILL, "SIGKILL"),
    (libc::SIGSEGV, "SIGSEGV"),
    (libc::SIGSYS, "SIGSYS"),
    (libc::SIGTERM, "SIGTERM"),
    (libc::SIGTRAP, "SIGTRAP"),
];

impl End {
    fn parse(text: &str) -> Self {
        match SIGNALS.iter().find(|(_, name)| *name == text) {
            Some((signal, _)) => Self::Signal(*signal),
            None => Self::Status(text.parse().expect("a status or a known signal")),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        match *self {
            Self::Status(status) => write!(to, "ended with status {status}"),
            Self::Signal(signal) => match SIGNALS.iter().find(|(number, _)| *number == signal) {
                Some((_, name)) => write!(to, "ended by {name}"),
                None => write!(to, "ended by signal {signal}"),
            },
        }
    }
}

/// The language of a source, by the ending of its name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Language {
    C,
    Cxx,
    Rust,
    Python,
    Shell,
}

/// A program to run.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) source: PathBuf,
    pub(crate) language: Language,
    pub(crate) ends: End,
    pub(crate) flags: Vec<String>,
    pub(crate) needs: Vec<String>,
    pub(crate) libraries: Vec<String>,
    /// Why it is known not to be right under `umcg run`; empty if it is to be right.
    pub(crate) known: String,
    /// Variables of the environment, and their values.
    pub(crate) environment: Vec<(String, String)>,
    /// How to start it: set once it is compiled.
    pub(crate) command: Vec<PathBuf>,
}

/// The programs in a folder with chosen names, in the order of their names.
pub(crate) fn all(folder: &Path, chooses: impl Fn(&str) -> bool) -> Vec<Program> {
    let mut sources: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    sources.sort();
    sources
        .iter()
        .filter_map(|source| read(source))
        .flatten()
        .filter(|program| chooses(&program.name))
        .collect()
}

/// The program with this source, once for each environment; `None` for a file of another kind.
fn read(source: &Path) -> Option<Vec<Program>> {
    let language = match source.extension()?.to_str()? {
        "c" => Language::C,
        "cc" => Language::Cxx,
        "rs" => Language::Rust,
        "py" => Language::Python,
        "sh" => Language::Shell,
        _ => return None,
    };
    let mut program = Program {
        name: source.file_name()?.to_str()?.to_owned(),
        source: source.to_owned(),
        language,
        ends: End::Status(0),
        flags: Vec::new(),
        needs: Vec::new(),
        libraries: Vec::new(),
        known: String::new(),
        environment: Vec::new(),
        command: Vec::new(),
    };
    let mut again = Vec::new();
    let text = fs::read_to_string(source).unwrap();
    for line in text.lines().take(30) {
        let Some((_, directive)) = line.split_once("run: ") else {
            continue;
        };
        let mut words = directive.trim_end_matches("*/").split_whitespace();
        let kind = words.next().unwrap_or_default();
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        match kind {
            "ends" => program.ends = End::parse(&words[0]),
            "flags" => program.flags.append(&mut words),
            "needs" => program.needs.append(&mut words),
            "library" => program.libraries.append(&mut words),
            "known" => program.known = words.join(" "),
            "again" => again.append(&mut words),
            _ => panic!("{}: no such directive: {kind}", source.display()),
        }
    }
    Some(variants(program, &again))
}

/// The program as it is, and with each of these settings of the environment.
fn variants(program: Program, again: &[String]) -> Vec<Program> {
    let mut all = vec![program.clone()];
    for setting in again {
        let (variable, value) = setting.split_once('=').expect("NAME=VALUE");
        let mut other = program.clone();
        other.name = format!("{}, {setting}", program.name);
        other
            .environment
            .push((variable.to_owned(), value.to_owned()));
        all.push(other);
    }
    all
}
