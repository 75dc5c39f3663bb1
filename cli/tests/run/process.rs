//! One run of a program: in a process group of its own, with a limit of time.

use crate::group;
use crate::program::End;
use crate::refuse::Refusal;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What came of a run.
pub(crate) struct Outcome {
    /// How it ended; the state of its threads if it took too long.
    pub(crate) end: Result<End, String>,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: Vec<u8>,
    pub(crate) took: Duration,
    /// Processes that were still alive when the first one had ended.
    pub(crate) left: Vec<String>,
}

/// How long processes of an ended run may take to end.
const GRACE: Duration = Duration::from_secs(1);

/// Runs a command with these variables, and without the calls that are refused. Output goes to
/// files whose names begin with `files`.
pub(crate) fn run(
    command: &[OsString],
    environment: &[(String, String)],
    refused: Option<&Refusal>,
    files: &Path,
    limit: Duration,
) -> Outcome {
    let output = files.with_extension("out");
    let errors = files.with_extension("err");
    let began = Instant::now();
    let mut words = Command::new(&command[0]);
    if let Some(refused) = refused {
        refused.hold_for(&mut words);
    }
    let mut child = words
        .args(&command[1..])
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .env("UMCG_RUN_LIBRARIES", files.parent().unwrap())
        .current_dir(files.parent().unwrap())
        .stdin(Stdio::null())
        .stdout(File::create(&output).unwrap())
        .stderr(File::create(&errors).unwrap())
        .process_group(0)
        .spawn()
        .unwrap_or_else(|error| panic!("{:?}: {error}", command[0]));
    let end = wait(&mut child, began, limit);
    let took = began.elapsed();
    let left = if end.is_ok() {
        left_behind(child.id())
    } else {
        Vec::new()
    };
    group::kill(child.id());
    if end.is_err() {
        child.wait().unwrap();
    }
    Outcome {
        end,
        output: fs::read(output).unwrap(),
        errors: fs::read(errors).unwrap(),
        took,
        left,
    }
}

/// Waits for the end of the child, or returns the state of its process group at the limit.
fn wait(child: &mut Child, began: Instant, limit: Duration) -> Result<End, String> {
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return Ok(match status.code() {
                Some(code) => End::Status(code),
                None => End::Signal(status.signal().unwrap()),
            });
        }
        if began.elapsed() > limit {
            return Err(group::describe(child.id()));
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// The processes of the group that do not end within the time of grace.
fn left_behind(group: u32) -> Vec<String> {
    let began = Instant::now();
    loop {
        let left = group::processes(group);
        if left.is_empty() || began.elapsed() > GRACE {
            return left
                .into_iter()
                .map(|process| format!("{} ({})", process.id, process.name))
                .collect();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
