//! Scenarios run in a process of their own, which they may spoil, under a time limit.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Set for the process that runs a scenario: its name and its arguments.
const SCENARIO: &str = "UMCG_TEST_SCENARIO";

/// Generous: a machine may be busy with other things.
const LIMIT: Duration = Duration::from_secs(300);

/// How it went.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: Option<ExitStatus>,
    pub(crate) output: String,
}

impl Ran {
    /// It came to its end.
    pub(crate) fn is_ok(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    /// It ended itself.
    pub(crate) fn is_aborted(&self) -> bool {
        self.status
            .is_some_and(|status| status.signal() == Some(libc::SIGABRT))
    }

    /// It ended itself, and said why in one line.
    pub(crate) fn has_aborted(&self) -> bool {
        // The test's own beginning of a line may stand before it.
        let says_why = |line: &str| line.contains("umcg: ") && line.ends_with("; aborting");
        self.is_aborted() && self.output.lines().filter(|line| says_why(line)).count() == 1
    }
}

impl Ran {
    /// The standard library had no memory, or a new thread got no signal stack or could not protect
    /// it, which ends a process of Rust's.
    pub(crate) fn was_ended_by_std(&self) -> bool {
        let why = [
            "memory allocation of",
            "failed to allocate an alternative stack",
            "failed to set up alternative stack guard page",
        ];
        self.is_aborted() && why.iter().any(|why| self.output.contains(why))
    }

    /// The parts of the workload that have failed.
    pub(crate) fn failed(&self) -> impl Iterator<Item = &str> {
        let parts = self
            .output
            .lines()
            .filter_map(|line| line.split_once("@ ")?.1.split_once(": "));
        parts
            .filter(|(_, outcome)| outcome.starts_with("error"))
            .map(|(part, _)| part)
    }
}

/// The scenario that this process is to run.
pub(crate) fn asked() -> Option<Vec<String>> {
    Some(
        std::env::var(SCENARIO)
            .ok()?
            .split(' ')
            .map(str::to_owned)
            .collect(),
    )
}

/// Runs a scenario. Where there are no filters it is fine.
pub(crate) fn run(scenario: &str) -> Ran {
    if !crate::filter::are_possible() {
        eprintln!("no filters of system calls here");
        return Ran {
            status: Some(ExitStatus::from_raw(0)),
            output: "@ refused: fine".into(),
        };
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["scenario", "--exact", "--nocapture", "--test-threads=1"])
        .env(SCENARIO, scenario)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let reading = [
        std::thread::spawn(move || read(out)),
        std::thread::spawn(move || read(err)),
    ];
    let (status, threads) = wait(&mut child);
    let output = reading.map(|thread| thread.join().unwrap()).concat();
    Ran {
        status,
        output: output + &threads,
    }
}

fn read(mut from: impl Read) -> String {
    let mut bytes = Vec::new();
    from.read_to_end(&mut bytes).unwrap();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// None if it had to be killed, and where its threads were then.
fn wait(child: &mut Child) -> (Option<ExitStatus>, String) {
    let began = Instant::now();
    while began.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().unwrap() {
            return (Some(status), String::new());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let threads = threads(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    (None, threads)
}

/// For each thread of the process: its name, its state and signals, and the system call that it is
/// in, with the address that it was made from; and where the program lies in memory.
fn threads(process: u32) -> String {
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let mut text: String = maps
        .lines()
        .filter(|line| line.contains(" r-xp "))
        .flat_map(|line| [line, "\n"])
        .collect();
    let Ok(tasks) = std::fs::read_dir(format!("/proc/{process}/task")) else {
        return text;
    };
    for task in tasks.flatten() {
        let file = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let status = file("status");
        let told = ["Name", "Pid", "State", "SigPnd", "SigBlk"];
        for line in status.lines() {
            if told.iter().any(|name| line.starts_with(name)) {
                text += line;
                text += "; ";
            }
        }
        text += &format!("call {}", file("syscall"));
    }
    text
}
