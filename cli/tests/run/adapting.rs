//! Programs under `umcg run` that may use more or fewer processors while they run, by a change from
//! outside.

use crate::processors::Processors;
use crate::seeing::{UMCG, command_of, dump, programs};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Far longer than it takes on any machine that is only slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// All threads of the process may use these processors only, as by `taskset -ap`.
fn confine(process: u32, to: &Processors) {
    let mut done = BTreeSet::new();
    loop {
        let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let number = |task: fs::DirEntry| task.file_name().to_str()?.parse::<i32>().ok();
        let tasks: BTreeSet<i32> = tasks
            .filter_map(|task| task.ok().and_then(number))
            .collect();
        let new: Vec<i32> = tasks.difference(&done).copied().collect();
        if new.is_empty() {
            return;
        }
        for task in new {
            // A thread that has ended needs none.
            let _ = to.give(task);
            done.insert(task);
        }
    }
}

/// Waits until the first line of a dump ends so.
fn wait_for_line(process: u32, end: &str) {
    let start = Instant::now();
    loop {
        let list = dump(process);
        let line = list.lines().next().unwrap_or_default();
        if line.ends_with(end) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "never {end:?}, but {line:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The end of the first line of a dump, when so many servers are active. Those that are not yet are
/// there for all processors of the machine, within limits.
fn line_with(active: usize) -> String {
    // SAFETY: asks for a number.
    let online = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) } as usize;
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let servers = cpus.max(online.min(16));
    if active == servers {
        format!(": 13 threads, {servers} servers")
    } else {
        format!(": 13 threads, {servers} servers, {active} active")
    }
}

/// Ended when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "ci/run.sh runs it, with the release build"]
fn servers_follow_the_processors() {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    if cpus == 1 {
        return println!("SKIPPED: servers that follow the processors: there is one");
    }
    let Some(programs) = programs() else { return };
    let all = Processors::allowed();
    for (options, is_confined) in [
        (&[][..], false),
        (&["--scheduler", "fifo"], false),
        (&["--scheduler", "priority"], false),
        (&[], true),
        (&["--scheduler", "fifo"], true),
    ] {
        let begins_with = if is_confined { 1 } else { cpus };
        if is_confined {
            all.first().give(0).unwrap(); // the program inherits it
        }
        let mut running = Running(
            Command::new(UMCG)
                .arg("run")
                .args(options)
                .arg("--")
                .arg(command_of(&programs, "crowd"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap(),
        );
        all.give(0).unwrap();
        let process = running.0.id();
        let mut output = BufReader::new(running.0.stdout.take().unwrap());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        wait_for_line(process, &line_with(begins_with));
        for _ in 0..2 {
            confine(process, &all.first());
            wait_for_line(process, &line_with(1));
            confine(process, &all);
            wait_for_line(process, &line_with(cpus));
        }
        confine(process, &all.first());
        wait_for_line(process, &line_with(1));
        let mut input = running.0.stdin.take().unwrap();
        input.write_all(b"x").unwrap();
        let mut rest = String::new();
        output.read_to_string(&mut rest).unwrap();
        let status = running.0.wait().unwrap();
        assert_eq!((rest.as_str(), status.code()), ("ended\n", Some(0)));
    }
}
