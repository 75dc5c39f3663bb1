//! Looking inside programs under `umcg run`: `umcg dump`, SIGQUIT, `--trace`, gdb.

use crate::process::{self, Outcome};
use crate::program::{self, Program};
use crate::settings::Settings;
use crate::{compile, scratch, sources};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

pub(crate) const UMCG: &str = env!("CARGO_BIN_EXE_umcg");

/// The programs of `seeing/`, by name. None if they cannot run here.
pub(crate) fn programs() -> Option<Vec<Program>> {
    let settings = Settings::from_environment();
    match settings.ways() {
        Ok(ways) if ways.len() > 1 => {}
        Ok(_) => return None,
        Err(reason) => {
            println!("SKIPPED: {reason}");
            return None;
        }
    }
    let all = program::all(&sources("seeing"), |_| true);
    let (programs, skipped) = compile::all(all, &scratch("seeing"), 1);
    for reason in &skipped {
        println!("SKIPPED: {reason}");
    }
    skipped.is_empty().then_some(programs)
}

pub(crate) fn command_of<'a>(programs: &'a [Program], name: &str) -> &'a Path {
    let program = programs.iter().find(|program| program.name.contains(name));
    &program.expect("a program of `seeing`").command[0]
}

/// `parked.c`, with its threads in place. It is ended when this is dropped.
struct Parked {
    child: Child,
    output: BufReader<ChildStdout>,
    errors: PathBuf,
    /// Its child, if it has one.
    forked: i32,
}

impl Parked {
    fn start(program: &Path, way: &str) -> Parked {
        let errors = scratch("seeing").join(format!("parked-{way}.err"));
        let mut child = Command::new(UMCG)
            .args(["run", "--servers", "2", "--"])
            .arg(program)
            .args((!way.is_empty()).then_some(way))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(&errors).unwrap())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut parked = Parked {
            child,
            output,
            errors,
            forked: -1,
        };
        let line = parked.line();
        let ready = line.strip_prefix("ready ").expect("the first line");
        parked.forked = ready.parse().unwrap();
        parked
    }

    fn id(&self) -> u32 {
        self.child.id()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn send(&self, signal: i32) {
        // SAFETY: the process is a child that was not waited for.
        let result = unsafe { libc::kill(self.id().try_into().unwrap(), signal) };
        assert_eq!(result, 0);
    }

    fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    /// Lets it end by itself, and returns the rest of its output.
    fn end(mut self) -> (String, ExitStatus) {
        let _ = self.child.stdin.take().unwrap().write_all(b"x");
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        (rest, self.child.wait().unwrap())
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn umcg(words: &[&str]) -> Output {
    Command::new(UMCG).args(words).output().unwrap()
}

pub(crate) fn dump(process: u32) -> String {
    let output = umcg(&["dump", &process.to_string()]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The paragraphs of a list whose first line names a thread so.
fn threads<'a>(list: &'a str, name: &str) -> Vec<&'a str> {
    let paragraphs = list.split("\nthread ").skip(1);
    let named = |paragraph: &&str| paragraph.split(' ').nth(1) == Some(&format!("{name}:"));
    paragraphs.filter(named).collect()
}

/// Whether a list has the threads of `parked.c`, each where it waits.
fn check_list(list: &str) {
    let places = [
        (
            20,
            "conditional",
            "away, parked for",
            "in futex(0x",
            "waits_for_condition+",
        ),
        (
            10,
            "locker",
            "away, parked for",
            "in futex(0x",
            "wants_lock+",
        ),
        (
            10,
            "semaphore",
            "away, parked for",
            "in futex(0x",
            "wants_semaphore+",
        ),
        (5, "sleeper", "", "nanosleep(0", "sleeps+"),
        (5, "reader", "at home", "in read(3, 0x", "reads+"),
    ];
    for (count, name, place, call, function) in places {
        let found = threads(list, name);
        assert_eq!(found.len(), count, "{name}:\n{list}");
        for paragraph in found {
            for part in [place, call, &format!("from {function}")] {
                assert!(paragraph.contains(part), "{part}:\n{paragraph}");
            }
        }
    }
    assert!(list.contains(": 51 threads, 2 servers\n"), "{list}");
    assert_eq!(threads(list, "parked.c").len(), 1, "{list}");
    assert!(threads(list, "parked.c")[0].contains("poll("), "{list}");
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn a_dump_lists_all_threads_and_disturbs_none() {
    let Some(programs) = programs() else { return };
    let parked = Parked::start(command_of(&programs, "parked"), "");
    let process = parked.id();
    check_list(&dump(process));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..10).for_each(|_| check_list(&dump(process))));
        }
    });
    assert_eq!(parked.errors(), "");
    let (output, status) = parked.end();
    assert_eq!((output.as_str(), status.code()), ("ended\n", Some(0)));
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn a_dump_says_why_there_is_no_list() {
    let Some(programs) = programs() else { return };
    let refused = |process: u32, why: &str| {
        let output = umcg(&["dump", &process.to_string()]);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.stdout.is_empty() && output.status.code() == Some(2),
            "{errors}"
        );
        assert!(errors.contains(why), "{errors}");
    };
    refused(std::process::id(), "is not under `umcg run`");
    refused(0, "there is no process 0");
    let mut alone = Command::new(UMCG)
        .args(["run", "--", "sleep", "100"])
        .spawn()
        .unwrap();
    // The command has become the program by then.
    std::thread::sleep(Duration::from_millis(300));
    refused(alone.id(), "has made no thread yet");
    alone.kill().unwrap();
    alone.wait().unwrap();
    let parked = Parked::start(command_of(&programs, "parked"), "fork");
    refused(parked.forked as u32, "was forked");
    check_list(&dump(parked.id()));
    parked.send(libc::SIGSTOP);
    refused(parked.id(), "is it stopped?");
    parked.send(libc::SIGCONT);
    let (output, status) = parked.end();
    assert_eq!((output.as_str(), status.code()), ("ended\n", Some(0)));
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn sigquit_prints_the_list_and_does_what_it_did() {
    let Some(programs) = programs() else { return };
    let program = command_of(&programs, "parked");

    let mut by_default = Parked::start(program, "");
    by_default.send(libc::SIGQUIT);
    let status = by_default.child.wait().unwrap();
    assert_eq!(status.signal(), Some(libc::SIGQUIT), "{status}");
    let list = by_default.errors();
    assert!(list.starts_with("umcg: process "), "{list}");
    assert!(list.contains(": 51 threads"), "{list}");
    assert_eq!(threads(&list, "conditional").len(), 20, "{list}");

    let mut handled = Parked::start(program, "handler");
    for round in 1..=3 {
        handled.send(libc::SIGQUIT);
        // poll is not begun anew after a handler, if it had begun.
        let lines = std::iter::repeat_with(|| handled.line());
        let first = lines.take(2).find(|line| line != "cut");
        assert_eq!(first.as_deref(), Some("handled"));
        assert_eq!(handled.errors().matches(": 51 threads").count(), round);
        assert_eq!(handled.errors().matches("got SIGQUIT").count(), round);
    }
    let (_, status) = handled.end();
    assert_eq!(status.code(), Some(0));

    let ignoring = Parked::start(program, "ignore");
    ignoring.send(libc::SIGQUIT);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(ignoring.errors(), "");
    let (output, status) = ignoring.end();
    assert_eq!((output.as_str(), status.code()), ("ended\n", Some(0)));
}

fn run_traced(program: &Path, servers: &str, trace: &Path, words: &[&str]) -> Outcome {
    let mut command: Vec<OsString> = [UMCG, "run", "--servers", servers, "--trace"]
        .map(OsString::from)
        .into();
    command.extend([trace.into(), "--".into(), program.into()]);
    command.extend(words.iter().map(OsString::from));
    let files = scratch("seeing").join("traced");
    process::run(&command, &[], None, &files, Duration::from_secs(20))
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn a_trace_has_each_thread_and_why_it_stopped() {
    let Some(programs) = programs() else { return };
    let program = command_of(&programs, "turns");
    let folder = scratch("seeing");
    let (trace, svg) = (folder.join("turns.trace"), folder.join("turns.svg"));
    for (servers, words, processes) in [("1", &[][..], 1), ("2", &[][..], 1), ("1", &["again"], 2)]
    {
        let outcome = run_traced(program, servers, &trace, words);
        assert!(outcome.end.is_ok() && outcome.errors.is_empty());
        assert_eq!(outcome.output, b"played\n".repeat(processes));
        let output = umcg(&["trace", trace.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{text}"
        );
        for name in ["first ", "second "] {
            let lines = text.lines().filter(|line| line.starts_with(name));
            let lines: Vec<&str> = lines.collect();
            assert_eq!(lines.len(), processes, "{text}");
            for line in lines {
                check_player(line);
            }
        }
        let output = umcg(&[
            "trace",
            trace.to_str().unwrap(),
            "--svg",
            svg.to_str().unwrap(),
        ]);
        assert!(output.status.success() && output.stdout.is_empty());
        let drawing = fs::read_to_string(&svg).unwrap();
        assert!(drawing.starts_with("<svg ") && drawing.ends_with("</svg>\n"));
        // Each thread is in the legend, and each server has a row.
        for name in ["first ", "second "] {
            let named =
                |line: &&str| line.contains(&format!(">{name}")) && line.ends_with("</text>");
            assert_eq!(
                drawing.lines().filter(named).count(),
                processes,
                "{drawing}"
            );
        }
        let rows = drawing.matches(" server ").count();
        assert!((processes..=2 * processes).contains(&rows), "{drawing}");
    }
    check_errors(&trace, &folder);
}

/// A line of `umcg trace`: `first 123: 2000 runs, 0.1 ms; 5 x sleeps; …`.
fn check_player(line: &str) {
    let count = |what: &str| -> u32 {
        let part = line.split("; ").find_map(|part| part.strip_suffix(what));
        part.and_then(|part| part.strip_suffix(" x "))
            .map_or(0, |count| count.parse().unwrap())
    };
    // It waits for each turn of the other one, but where that one was still on its way.
    let waits = count("waits for a word");
    assert!((100..5000).contains(&waits), "{line}");
    assert!(count("sleeps") <= 5 && count("ended") <= 1, "{line}");
    assert!(count("unknown") == 0 && !line.contains("call "), "{line}");
}

fn check_errors(trace: &Path, folder: &Path) {
    let broken = folder.join("broken.trace");
    let bytes = fs::read(trace).unwrap();
    for (content, why) in [
        (&bytes[..bytes.len() - 3], "cut off"),
        (&b"#!/bin/sh"[..], "no trace of `umcg run`"),
        (&b""[..], "no thread has run"),
    ] {
        fs::write(&broken, content).unwrap();
        let output = umcg(&["trace", broken.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(why), "{errors}");
    }
    let output = umcg(&["run", "--trace", "/nowhere/at/all", "--", "true"]);
    assert_eq!(output.status.code(), Some(2));
}

/// What gdb prints for these commands, with the script. None without gdb.
fn gdb(target: &[&str], commands: &[&str]) -> Option<String> {
    let script = scratch("seeing").join("umcg.py");
    fs::write(&script, umcg(&["run", "--gdb-script"]).stdout).unwrap();
    let mut command = Command::new("gdb");
    // Its wide output goes on one line.
    command.args(["-q", "-batch", "-nx", "-iex", "set debuginfod enabled off"]);
    command.args(["-iex", "set width 0"]).arg("-x").arg(&script);
    command.args(target);
    for text in commands {
        command.args(["-ex", text]);
    }
    let Ok(output) = command.output() else {
        println!("SKIPPED: no gdb");
        return None;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some(text + &String::from_utf8_lossy(&output.stderr))
}

/// Whether gdb has shown the threads of `parked.c`, each with its own function.
fn check_backtraces(text: &str) {
    for (count, function) in [
        (20, "waits_for_condition"),
        (10, "wants_lock"),
        (10, "wants_semaphore"),
        (5, "sleeps"),
        (5, "reads"),
        (1, "main"),
    ] {
        let frame = format!(" in {function} (");
        assert_eq!(text.matches(&frame).count(), count, "{function}:\n{text}");
    }
    assert!(
        text.matches("away, off servers; last: waits for a word")
            .count()
            >= 80,
        "{text}"
    );
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn gdb_shows_threads_that_no_kernel_thread_runs() {
    let Some(programs) = programs() else { return };
    let program = command_of(&programs, "parked");
    let parked = Parked::start(program, "");
    let process = parked.id().to_string();
    let core = scratch("seeing").join("core");
    let generate = format!("generate-core-file {}", core.display());
    let look = ["info workers", "worker apply all bt", &generate];
    let Some(live) = gdb(&["-p", &process], &look) else {
        return;
    };
    check_backtraces(&live);
    // Nothing was changed in the process.
    check_list(&dump(parked.id()));
    let (output, status) = parked.end();
    assert_eq!((output.as_str(), status.code()), ("ended\n", Some(0)));

    let target = [program.to_str().unwrap(), "-c", core.to_str().unwrap()];
    let dead = gdb(&target, &look[..2]).unwrap();
    fs::remove_file(&core).unwrap();
    check_backtraces(&dead);
    let none = gdb(&["sh"], &["info workers"]).unwrap();
    assert!(none.contains("No library of `umcg run`"), "{none}");
}
