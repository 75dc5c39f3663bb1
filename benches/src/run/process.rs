//! The processes of a side: where they run, how they end, and what they used.
//!
//! - A process is the leader of a group of its own, so that a program that hangs ends with all
//!   that it has started.
//! - Its output goes to files: the bench sleeps until the process ends, and takes no CPU from it.
//! - CPU time and context switches are those of the process and of all its descendants that it
//!   waited for, over its whole life.
//!
//! The bench's own thread moves onto the CPUs of a process before it starts it; threads and
//! processes inherit the set. So nothing has to be done between fork and exec but to ask for a
//! signal in case that the bench dies.

use crate::harness::Program;
use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::mem;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Lines of standard error that a message shows.
const TAIL: usize = 5;

/// A program to start, as its user would.
#[derive(Clone, Debug)]
pub(super) struct Job {
    pub(super) file: PathBuf,
    pub(super) arguments: Vec<OsString>,
    /// Of the environment.
    pub(super) variables: &'static [(&'static str, &'static str)],
}

/// Where and how the programs of a side run.
#[derive(Clone, Debug)]
pub(super) struct Place {
    /// The program that starts others under `umcg run`; native without one.
    pub(super) launcher: Option<Program>,
    /// Servers of ours, or CPUs of the native side.
    pub(super) servers: usize,
    /// All CPUs. The first ones are the program's.
    pub(super) cpus: Vec<usize>,
    /// Files of the run.
    pub(super) folder: PathBuf,
}

impl Place {
    /// The CPUs of the program, the same on both sides.
    pub(super) fn of_program(&self) -> &[usize] {
        &self.cpus[..self.servers]
    }

    /// The CPUs of a client: those that the program leaves, or all if it leaves none.
    pub(super) fn of_client(&self) -> &[usize] {
        match &self.cpus[self.servers..] {
            [] => &self.cpus,
            others => others,
        }
    }

    fn command(&self, job: &Job) -> Command {
        let mut command = match &self.launcher {
            None => Command::new(&job.file),
            Some(launcher) => {
                let mut command = Command::new(&launcher.file);
                let servers = self.servers.to_string();
                command.args(&launcher.arguments);
                command.args(["--servers", &servers, "--"]).arg(&job.file);
                command
            }
        };
        command
            .args(&job.arguments)
            .envs(job.variables.iter().copied());
        command
    }
}

/// A new folder that goes with all that is in it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(format!("umcg-bench-run-{process}-{number}"));
        // Of this user alone, and new: nobody else can have put a program there.
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The CPU time and switches of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    pub(super) cpu: Duration,
    /// Context switches, of either kind.
    pub(super) switches: u64,
}

impl Usage {
    pub(super) fn add(&mut self, other: Self) {
        self.cpu += other.cpu;
        self.switches += other.switches;
    }
}

/// The end of a process.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) output: Vec<u8>,
    pub(super) errors: String,
    /// From its start to its end.
    pub(super) took: Duration,
    pub(super) usage: Usage,
}

/// A process that runs. The calling thread has to stay until it has ended.
pub(super) struct Process {
    id: libc::pid_t,
    began: Instant,
    folder: PathBuf,
    is_over: bool,
}

impl Process {
    /// Starts a program on its side's CPUs.
    pub(super) fn start(place: &Place, job: &Job) -> Result<Self> {
        confine(place.of_program())?;
        let mut command = place.command(job);
        command
            .current_dir(&place.folder)
            .stdin(Stdio::null())
            .stdout(File::create(place.folder.join("stdout"))?)
            .stderr(File::create(place.folder.join("stderr"))?)
            .process_group(0);
        let prepare = || {
            // Programs that have started others end these on this signal.
            // SAFETY: plain system call.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) };
            Ok(())
        };
        // SAFETY: a system call only, nothing that a fork of a program with threads must not do.
        unsafe { command.pre_exec(prepare) };
        let began = Instant::now();
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {}", command.get_program().to_string_lossy()))?;
        Ok(Self {
            id: child.id().try_into()?,
            began,
            folder: place.folder.clone(),
            is_over: false,
        })
    }

    /// Waits for its end, which must be a good one.
    pub(super) fn finish(mut self, patience: Duration) -> Result<Finished> {
        let (status, finished) = self.end(patience)?;
        ensure!(status.success(), "{status}{}", tail(&finished.errors));
        Ok(finished)
    }

    /// Ends a server, which may end by the signal or after it, but well.
    pub(super) fn stop(mut self, patience: Duration) -> Result<Finished> {
        ensure!(
            !self.has_ended()?,
            "it ended by itself{}",
            self.last_words()
        );
        // SAFETY: plain system call. The process was not waited for yet, so the number is its own.
        unsafe { libc::kill(self.id, libc::SIGTERM) };
        let (status, finished) = self.end(patience)?;
        let is_good = status.success() || status.signal() == Some(libc::SIGTERM);
        ensure!(is_good, "at its end: {status}{}", tail(&finished.errors));
        Ok(finished)
    }

    /// Whether there is nothing left but its exit status.
    pub(super) fn has_ended(&self) -> Result<bool> {
        Ok(await_end(self.id, libc::WNOHANG)?)
    }

    /// The end of its standard error.
    pub(super) fn last_words(&self) -> String {
        tail(&self.errors())
    }

    fn errors(&self) -> String {
        let bytes = fs::read(self.folder.join("stderr")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn end(&mut self, patience: Duration) -> Result<(ExitStatus, Finished)> {
        let id = self.id;
        let (tell, told) = mpsc::channel::<()>();
        // The process is not reaped while the watch runs, so the group's number stays its own.
        let watch = move || {
            let is_late = told.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
            if is_late {
                end_group(id);
            }
            is_late
        };
        let (took, was_late) = thread::scope(|scope| {
            let watch = scope.spawn(watch);
            let ended = await_end(id, 0).map(|_| self.began.elapsed());
            drop(tell);
            let was_late = watch.join().unwrap_or(true);
            ended.map(|took| (took, was_late))
        })?;
        // Processes that it has started may be left.
        end_group(id);
        let (status, usage) = reap(id)?;
        self.is_over = true;
        let errors = self.errors();
        if was_late {
            bail!(
                "it had no end in {patience:?}, and was ended{}",
                tail(&errors)
            );
        }
        let finished = Finished {
            output: fs::read(self.folder.join("stdout"))?,
            errors,
            took,
            usage,
        };
        Ok((status, finished))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_over {
            end_group(self.id);
            let _ = reap(self.id);
        }
    }
}

/// The last lines, after a colon.
fn tail(errors: &str) -> String {
    let lines: Vec<String> = errors
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.chars().take(160).collect())
        .collect();
    let last = &lines[lines.len().saturating_sub(TAIL)..];
    if last.is_empty() {
        String::new()
    } else {
        format!(": {}", last.join(" | "))
    }
}

/// Kills all of a group whose leader was not reaped yet.
fn end_group(id: libc::pid_t) {
    // SAFETY: plain system call.
    unsafe { libc::kill(-id, libc::SIGKILL) };
}

/// True if the process has ended. It is not reaped.
fn await_end(id: libc::pid_t, flags: libc::c_int) -> io::Result<bool> {
    loop {
        // SAFETY: a structure for which all zeroes is a value.
        let mut info: libc::siginfo_t = unsafe { mem::zeroed() };
        let flags = libc::WEXITED | libc::WNOWAIT | flags;
        // SAFETY: the structure is writable.
        let rc = unsafe { libc::waitid(libc::P_PID, id as libc::id_t, &mut info, flags) };
        if rc == 0 {
            return Ok(info.si_signo != 0);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

fn reap(id: libc::pid_t) -> Result<(ExitStatus, Usage)> {
    let mut status = 0;
    // SAFETY: a structure for which all zeroes is a value.
    let mut used: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: status and usage are writable.
    while unsafe { libc::wait4(id, &mut status, 0, &mut used) } != id {
        let error = io::Error::last_os_error();
        ensure!(error.kind() == io::ErrorKind::Interrupted, "wait4: {error}");
    }
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    let usage = Usage {
        cpu: time(used.ru_utime) + time(used.ru_stime),
        switches: (used.ru_nvcsw + used.ru_nivcsw) as u64,
    };
    Ok((ExitStatus::from_raw(status), usage))
}

/// Moves the calling thread onto these CPUs. What it starts afterwards begins there.
pub(super) fn confine(cpus: &[usize]) -> Result<()> {
    // SAFETY: a set of bits, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: the numbers are those of CPUs that exist, so below the set's size.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    // SAFETY: the set is readable and its size is given.
    let rc = unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) };
    ensure!(rc == 0, "CPUs {cpus:?}: {}", io::Error::last_os_error());
    Ok(())
}

/// Lets this process, and so the programs it starts, open some thousands of descriptors, if it may.
pub(super) fn raise_limit() {
    const ENOUGH: libc::rlim_t = 16384;
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the limit is writable.
    let rc = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if rc == 0 && limit.rlim_cur < ENOUGH {
        limit.rlim_cur = limit.rlim_max.min(ENOUGH);
        // SAFETY: the limit is readable.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::cpu;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Job {
        Job {
            file: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
            variables: &[("COLOUR", "green")],
        }
    }

    /// On a thread of its own, which may move.
    fn with(
        script: &str,
        body: impl FnOnce(Process) -> Result<Finished> + Send,
    ) -> Result<Finished> {
        let scratch = Scratch::new()?;
        let place = Place {
            launcher: None,
            servers: 1,
            cpus: cpu::allowed()?,
            folder: scratch.path().to_owned(),
        };
        thread::scope(|scope| {
            let body = || body(Process::start(&place, &shell(script))?);
            scope.spawn(body).join().expect("it panicked")
        })
    }

    fn finished(script: &str) -> Result<Finished> {
        with(script, |process| process.finish(PATIENCE))
    }

    #[test]
    fn output_and_usage_are_those_of_the_whole_process() {
        let script = "echo $COLOUR; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; sleep 0.01";
        let finished = finished(script).unwrap();
        assert_eq!(finished.output, b"green\n");
        assert!(finished.usage.cpu > Duration::ZERO && finished.usage.switches > 0);
        assert!(finished.took >= Duration::from_millis(10));
    }

    #[test]
    fn failures_say_why() {
        let reason = |script| format!("{:#}", finished(script).unwrap_err());
        assert_eq!(
            reason("echo a >&2; echo b >&2; exit 3"),
            "exit status: 3: a | b"
        );
        assert!(reason("kill -9 $$").contains("signal: 9"));
        let late = with("echo here >&2; sleep 1000 & wait", |process| {
            while process.last_words().is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
            process.finish(Duration::from_millis(20))
        });
        let late = format!("{:#}", late.unwrap_err());
        assert!(
            late.contains("no end in 20ms") && late.ends_with(": here"),
            "{late}"
        );
    }

    #[test]
    fn servers_are_ended_and_must_not_end_by_themselves() {
        let ready = |process: &Process| {
            while process.errors().is_empty() {
                thread::sleep(Duration::from_millis(1));
            }
        };
        let stop = |process: Process| {
            ready(&process);
            process.stop(PATIENCE)
        };
        assert!(with("echo ready >&2; exec sleep 1000", stop).is_ok());
        let polite = "trap 'echo bye; exit 0' TERM; echo ready >&2; while :; do sleep 0.01; done";
        assert_eq!(with(polite, stop).unwrap().output, b"bye\n");
        let bad = "trap 'exit 5' TERM; echo ready >&2; while :; do sleep 0.01; done";
        assert!(
            with(bad, stop)
                .unwrap_err()
                .to_string()
                .contains("status: 5")
        );
        let gone = with("exit 0", |process| {
            while !process.has_ended()? {
                thread::sleep(Duration::from_millis(1));
            }
            process.stop(PATIENCE)
        });
        assert!(gone.unwrap_err().to_string().contains("by itself"));
    }

    #[test]
    fn the_launcher_stands_before_the_program() {
        let launcher = Program {
            file: "umcg".into(),
            arguments: vec!["run".into()],
        };
        let place = Place {
            launcher: Some(launcher),
            servers: 2,
            cpus: vec![0, 1, 2],
            folder: PathBuf::new(),
        };
        let command = place.command(&shell("x"));
        let words: Vec<_> = command.get_args().collect();
        assert_eq!(command.get_program(), "umcg");
        assert_eq!(words, ["run", "--servers", "2", "--", "/bin/sh", "-c", "x"]);
        assert_eq!(
            (place.of_program(), place.of_client()),
            (&[0, 1][..], &[2][..])
        );
    }
}
