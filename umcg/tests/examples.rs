//! Runs the examples, briefly, and looks at their output. How fast they are is not tested.
//!
//! `cargo test` builds them along with the tests, unless it is told which targets to build; then
//! they are built here.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(120);

/// The example's binary: cargo puts those beside the directory of the tests.
fn binary(name: &str) -> PathBuf {
    static BUILD: Once = Once::new();
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(Path::parent).unwrap();
    let path = profile.join("examples").join(name);
    if !path.exists() {
        BUILD.call_once(|| build(profile));
    }
    assert!(
        path.exists(),
        "no {}: `cargo build -p umcg --examples` builds it",
        path.display()
    );
    path
}

fn build(directory: &Path) {
    let profile = match directory.file_name().and_then(OsStr::to_str).unwrap() {
        "debug" => "dev",
        name => name,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args([
            "build",
            "--quiet",
            "--examples",
            "--profile",
            profile,
            "--target-dir",
        ])
        .arg(directory.parent().unwrap());
    assert!(
        command
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap()
            .success(),
        "the examples do not build"
    );
}

/// The lines that the example prints.
fn run(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    let mut command = Command::new(binary(name));
    command
        .args(arguments)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        output.read_to_string(&mut text).map(|_| text)
    });
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if begin.elapsed() > TIMEOUT => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!(
                    "{name} did not end; it printed:\n{}",
                    reader.join().unwrap().unwrap()
                );
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let text = reader.join().unwrap().unwrap();
    assert!(status.success(), "{name}: {status}; it printed:\n{text}");
    text.lines().map(String::from).collect()
}

/// The number right before the word.
fn number_before(line: &str, word: &str) -> u64 {
    let words: Vec<&str> = line.split_whitespace().collect();
    let at = words
        .iter()
        .position(|&other| other == word)
        .unwrap_or_else(|| panic!("no {word:?} in {line:?}"));
    words[at - 1]
        .parse()
        .unwrap_or_else(|_| panic!("no number before {word:?} in {line:?}"))
}

fn check_round_robin(environment: &[(&str, &str)]) {
    let lines = run("round_robin", &[], environment);
    for index in 0..6 {
        let kind = ["thread", "light"][index % 2];
        let worker = format!("{kind} worker {index}: ");
        let said: Vec<&str> = lines
            .iter()
            .filter_map(|line| line.strip_prefix(&worker))
            .collect();
        let slept = if index < 2 { &["slept"][..] } else { &[] };
        assert_eq!(
            said,
            [&["turn 1", "turn 2"], slept, &["turn 3", "turn 4"]].concat(),
            "{worker}"
        );
    }
    assert_eq!(lines.len(), 27, "{lines:?}");
    // Each worker's four turns and its end, and two that came back from sleep.
    assert_eq!(lines[26], "6 workers, 4 turns each: 32 switches");
}

#[test]
fn round_robin() {
    check_round_robin(&[]);
}

#[test]
fn round_robin_with_workers_that_stay_on_their_threads() {
    check_round_robin(&[("UMCG_NO_FSGSBASE", "1")]);
}

#[test]
fn priorities() {
    let lines = run("priorities", &["100"], &[]);
    assert_eq!(lines.len(), 4, "{lines:?}");
    for (line, name) in lines.iter().zip(["umcg", "threads", "threads that yield"]) {
        assert!(line.starts_with(name), "{line}");
        for figure in ["p50", "p99", "max"] {
            let value = line
                .split_once(figure)
                .and_then(|(_, rest)| rest.split_whitespace().next());
            assert!(
                value.is_some_and(|value| value.ends_with('s')),
                "no time after {figure} in {line:?}"
            );
        }
        assert!(number_before(line, "chunks") > 0, "{line}");
    }
    assert!(
        lines[3].starts_with("p99 beside umcg's: threads "),
        "{}",
        lines[3]
    );
}

#[test]
fn edf() {
    let lines = run("edf", &["100"], &[]);
    assert_eq!(lines.len(), 4, "{lines:?}");
    for (line, (period, jobs)) in lines[1..].iter().zip([(2, 50), (5, 20), (20, 5)]) {
        let (task, results) = line
            .split_once(" ms   ")
            .unwrap_or_else(|| panic!("{line}"));
        assert!(task.ends_with(&format!("ms every {period:>2}")), "{line}");
        let results: Vec<u64> = results
            .split_whitespace()
            .filter_map(|word| word.parse().ok())
            .collect();
        let &[
            missed_first_come,
            all_first_come,
            missed_earliest,
            all_earliest,
        ] = results.as_slice()
        else {
            panic!("{line}")
        };
        assert_eq!((all_first_come, all_earliest), (jobs, jobs), "{line}");
        assert!(
            missed_first_come <= jobs && missed_earliest <= jobs,
            "{line}"
        );
    }
}

#[test]
fn work_stealing() {
    let servers = std::thread::available_parallelism().unwrap().get();
    let lines = run("work_stealing", &["10"], &[]);
    assert_eq!(lines.len(), 1 + servers + 1, "{lines:?}");
    assert!(
        lines[0].starts_with("server 1 of 1: ") && lines[0].ends_with(" 0 workers stolen"),
        "{}",
        lines[0]
    );
    // Ten workers: twenty slices each, and the end.
    let (alone, together) = lines[..1 + servers].split_at(1);
    for group in [alone, together] {
        assert_eq!(
            group
                .iter()
                .map(|line| number_before(line, "turns,"))
                .sum::<u64>(),
            210,
            "{lines:?}"
        );
    }
    assert!(lines[1 + servers].ends_with(" times as fast"), "{lines:?}");
}

#[test]
fn sieve() {
    for environment in [&[][..], &[("UMCG_NO_MEMBARRIER", "1")]] {
        let lines = run("sieve", &["1000"], environment);
        assert!(
            lines.len() == 1 && lines[0].starts_with("168 primes below 1000"),
            "{lines:?}"
        );
    }
}

#[test]
fn fork_join() {
    let lines = run("fork_join", &["15", "30000"], &[]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(
        lines[0].starts_with("fib(15) = 610 in ")
            && lines[1].starts_with("30000 numbers sorted in "),
        "{lines:?}"
    );
}

#[test]
fn own_scheduler() {
    let lines = run("own_scheduler", &["100"], &[]);
    assert_eq!(lines.len(), 1, "{lines:?}");
    let (few, many) = (
        number_before(&lines[0], "turns"),
        number_before(lines[0].split_once(',').unwrap().1, "turns"),
    );
    // Three times as many, except for the one that gives way, and luck.
    assert!(few > 0 && (2 * few..4 * few).contains(&many), "{lines:?}");
}

#[test]
fn echo() {
    for environment in [&[][..], &[("UMCG_DRIVER", "epoll")]] {
        let lines = run("echo", &["20", "20"], environment);
        assert!(
            lines.len() == 1 && lines[0].starts_with("20 connections, 20 requests each: "),
            "{lines:?}"
        );
    }
}

#[test]
fn tcp_proxy() {
    let lines = run("tcp_proxy", &[], &[]);
    // The proxy says something of each connection, as soon as it gets to it.
    assert!(
        lines
            .iter()
            .any(|line| line == "20 clients were answered after they had finished sending"),
        "{lines:?}"
    );
}

#[test]
fn urgent() {
    let lines = run("urgent", &["100", "--threads"], &[]);
    assert_eq!(lines.len(), 3, "{lines:?}");
    for (line, name) in lines.iter().zip(["umcg", "threads"]) {
        assert!(
            line.starts_with(name) && line.contains("p50") && line.contains("p99"),
            "{line}"
        );
        assert_eq!(number_before(line, "requests:"), 100, "{line}");
        assert!(number_before(line, "chunks") > 0, "{line}");
    }
    assert!(lines[2].starts_with("p99 with threads: "), "{}", lines[2]);
}
