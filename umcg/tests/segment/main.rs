//! Segments, by their public interface: workers of both kinds over numbers of servers, plain
//! threads, and other processes, which are this binary again; some of them are killed.

mod corrupt;
mod deaths;
mod meaning;
mod openings;
#[allow(dead_code, reason = "shared with the tests of futexes")]
#[path = "../futex/parties.rs"]
mod parties;
mod processes;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;

use rustix::process::{Pid, Signal, kill_process};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use umcg::segment::Segment;

/// Longer than anything here should take, and shorter than the watchdog.
const LONG: Duration = Duration::from_secs(30);

const SEGMENT: &str = "UMCG_TEST_SEGMENT";
const ROLE: &str = "UMCG_TEST_ROLE";

/// Another opening, by the same process: at another address, and another party.
fn again(segment: &Segment) -> Segment {
    Segment::open(segment.as_fd().try_clone_to_owned().unwrap()).unwrap()
}

/// The segment and the role of a process that was started by [`start`] for this test.
fn role_in(test: &str) -> Option<(Segment, String)> {
    support::is_child(test).then(|| {
        (
            Segment::open_file(std::env::var(SEGMENT).unwrap()).unwrap(),
            std::env::var(ROLE).unwrap(),
        )
    })
}

/// A process that runs the test's child, in this role.
fn start(test: &str, segment: &Segment, role: &str) -> Process {
    let path = format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        segment.as_fd().as_raw_fd()
    );
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(support::child_arguments(test))
        .envs([support::child_variable(test)])
        .env(SEGMENT, path)
        .env(ROLE, role);
    Process(command.stdout(Stdio::null()).spawn().unwrap())
}

/// Killed when it is dropped.
struct Process(Child);

impl Process {
    /// Returns when all of its threads stand still: until then they may go on for a while.
    fn stop(&self) {
        kill_process(Pid::from_child(&self.0), Signal::STOP).unwrap();
        let stands = |task: std::io::Result<std::fs::DirEntry>| {
            let status = std::fs::read_to_string(task.unwrap().path().join("status"));
            status.is_ok_and(|status| status.contains("(stopped)"))
        };
        let tasks = format!("/proc/{}/task", self.0.id());
        support::eventually("it stands still", || {
            std::fs::read_dir(&tasks).unwrap().all(stands)
        });
    }

    fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    fn ends_well(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        support::say(&format!("seed {seed}"));
        Random(seed | 1)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 8) % end
    }
}
