//! Child processes: a turn that is one has its memory and CPU time to itself, and nothing of it is
//! left when others have their turns.
//!
//! A child is told its task by its last argument and answers with lines, both JSON.

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// This many bytes of a child's standard error are looked at, and this many lines shown.
const MOST: u64 = 65536;
const TAIL: usize = 10;

/// A program and the arguments before its task.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// The file.
    pub file: PathBuf,
    /// The first arguments.
    pub arguments: Vec<OsString>,
}

/// A child's answer: a line on standard output.
pub fn answer(line: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(line)? + "\n";
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    Ok(out.flush()?)
}

/// A child process, which does not outlive this.
#[derive(Debug)]
pub struct Child {
    child: process::Child,
    out: ChildStdout,
    /// Its standard error, for when it fails.
    errors: File,
}

impl Child {
    /// Starts one on these CPUs. The calling thread has to stay until the child is gone: they end
    /// together.
    pub fn start(program: &Program, task: &impl Serialize, cpus: &[usize]) -> Result<Self> {
        let mut program = program.clone();
        program.arguments.push(serde_json::to_string(task)?.into());
        Self::spawn(&program, cpus)
    }

    /// As [`start`](Self::start), for a program that needs to be told no more.
    pub fn spawn(program: &Program, cpus: &[usize]) -> Result<Self> {
        let errors = memory_file(c"stderr")?;
        let mut command = Command::new(&program.file);
        command.args(&program.arguments);
        command
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?);
        confine(&mut command, cpus);
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot start {}", program.file.display()))?;
        let out = child.stdout.take().context("no pipe")?;
        Ok(Self { child, out, errors })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether there is nothing left but its exit status.
    pub fn has_ended(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_some())
    }

    /// Waits for one line.
    pub fn answer<T: DeserializeOwned>(&mut self, patience: Duration) -> Result<T> {
        let line = self.line(patience)?;
        if line.is_empty() {
            let status = self.wait(patience)?;
            bail!("{}", self.failure(status));
        }
        serde_json::from_str(&line).with_context(|| format!("answered {line:?}"))
    }

    /// Waits for the end, which must be a good one, and returns all that it wrote to standard
    /// output. It may take its time, as long as it writes something, even to standard error.
    pub fn output(mut self, patience: Duration) -> Result<String> {
        let (mut text, mut seen, mut heard) = (Vec::new(), 0, Instant::now());
        loop {
            let is_over = self.read(&mut text, Duration::from_secs(1))?;
            let written = self.errors.metadata()?.len() + text.len() as u64;
            if written != seen {
                (seen, heard) = (written, Instant::now());
            }
            if is_over {
                break;
            }
            let is_alive = heard.elapsed() < patience;
            ensure!(
                is_alive,
                "it has said nothing for {patience:?}, so it was ended{}",
                self.tail()
            );
        }
        let status = self
            .wait(patience)
            .with_context(|| format!("its output has ended{}", self.tail()))?;
        ensure!(status.success(), "{status}{}", self.tail());
        String::from_utf8(text).context("its output is no text")
    }

    /// Up to a newline or the end.
    fn line(&mut self, patience: Duration) -> Result<String> {
        let deadline = Instant::now() + patience;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "no answer in {patience:?}");
            if self.read(&mut line, left)? {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&line).trim().to_owned())
    }

    /// Reads the bytes that are there, or that come within a second or the given time. True if that
    /// was all.
    fn read(&mut self, text: &mut Vec<u8>, patience: Duration) -> Result<bool> {
        let mut poll = libc::pollfd {
            fd: self.out.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry, writable.
        let ready = unsafe { libc::poll(&mut poll, 1, patience.as_millis().min(1000) as i32 + 1) };
        if ready <= 0 {
            return Ok(false);
        }
        let mut buffer = [0; 4096];
        let length = self.out.read(&mut buffer)?;
        text.extend_from_slice(&buffer[..length]);
        Ok(length == 0)
    }

    fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait()? {
                Some(status) => return Ok(status),
                None if Instant::now() > deadline => bail!("did not end in {patience:?}"),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// Waits for its end, which must be a good one.
    pub fn finish(mut self, patience: Duration) -> Result<()> {
        let status = self.wait(patience)?;
        ensure!(status.success(), self.failure(status));
        Ok(())
    }

    fn failure(&self, status: ExitStatus) -> String {
        format!("{status}{}", self.last_words())
    }

    /// The most telling line of its standard error, after a colon: the first that has some length.
    pub fn last_words(&self) -> String {
        let text = self.errors_from(0);
        let line = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !is_heading(line));
        line.map_or_else(String::new, |line| {
            format!(": {}", shortened(line.trim_start_matches("umcg: ")))
        })
    }

    /// The end of its standard error, a line each.
    fn tail(&self) -> String {
        let length = self.errors.metadata().map_or(0, |data| data.len());
        let text = self.errors_from(length.saturating_sub(MOST));
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim().is_empty())
            .collect();
        let last = lines[lines.len().saturating_sub(TAIL)..]
            .iter()
            .map(|line| format!("\n    {}", shortened(line)));
        if lines.is_empty() {
            String::new()
        } else {
            format!("; it said at last:{}", last.collect::<String>())
        }
    }

    /// Moves no offset: that is the child's too. The part that can be read is enough for a message.
    fn errors_from(&self, place: u64) -> String {
        let mut text = vec![0; MOST as usize];
        let length = self.errors.read_at(&mut text, place).unwrap_or(0);
        String::from_utf8_lossy(&text[..length]).into_owned()
    }
}

fn shortened(line: &str) -> String {
    line.chars().take(160).collect()
}

/// "thread 'main' panicked at ..." is followed by the reason.
fn is_heading(line: &str) -> bool {
    line.starts_with("thread '") && line.ends_with(':')
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// On these CPUs only, with as many descriptors as it may have, and not after the thread that
/// started it has ended.
fn confine(command: &mut Command, cpus: &[usize]) {
    // SAFETY: a set of bits, for which all zeroes is a value.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    for &cpu in cpus {
        // SAFETY: the numbers are those of CPUs that exist, so below the set's size.
        unsafe { libc::CPU_SET(cpu, &mut set) };
    }
    let prepare = move || {
        // SAFETY: the set is readable and its size is given.
        if unsafe { libc::sched_setaffinity(0, mem::size_of_val(&set), &set) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: plain system call.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the limit is writable.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } == 0 {
            limit.rlim_cur = limit.rlim_max;
            // SAFETY: the limit is readable.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) };
        }
        Ok(())
    };
    // SAFETY: system calls only, nothing that a fork of a program with threads must not do.
    unsafe { command.pre_exec(prepare) };
}

fn memory_file(name: &CStr) -> Result<File> {
    // SAFETY: a string with its end.
    let fd = unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC) };
    ensure!(fd >= 0, "memfd_create: {}", io::Error::last_os_error());
    // SAFETY: just opened, and owned by this function only.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Child {
        let program = Program {
            file: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into()],
        };
        Child::start(
            &program,
            &"task",
            &crate::harness::cpu::allowed().unwrap()[..1],
        )
        .unwrap()
    }

    #[test]
    fn an_answer_is_a_line() {
        let mut child = shell("echo \"[$0]\"; exec sleep 1000");
        let value: Value = child.answer(PATIENCE).unwrap();
        assert_eq!(value, serde_json::json!(["task"]));
        let (start, place) = (Instant::now(), format!("/proc/{}", child.id()));
        drop(child);
        let is_there = std::path::Path::new(&place).exists();
        assert!(
            !is_there && start.elapsed() < Duration::from_secs(500),
            "a child ends with its owner"
        );
    }

    #[test]
    fn failures_say_why() {
        let reason = |script, patience| {
            shell(script)
                .answer::<Value>(patience)
                .unwrap_err()
                .to_string()
        };
        assert_eq!(reason("exit 3", PATIENCE), "exit status: 3");
        assert_eq!(
            reason(
                "echo \"thread 'x' panicked at y:\" >&2; echo because >&2; exit 1",
                PATIENCE
            ),
            "exit status: 1: because"
        );
        assert!(reason("kill -9 $$", PATIENCE).contains("signal"));
        assert!(reason("echo nonsense", PATIENCE).contains("nonsense"));
        assert!(reason("exec sleep 1000", Duration::from_millis(20)).contains("no answer"));
        assert!(shell("exit 1").finish(PATIENCE).is_err());
        assert!(shell("exit 0").finish(PATIENCE).is_ok());
        let missing = Program {
            file: "/no/such/program".into(),
            arguments: Vec::new(),
        };
        assert!(Child::start(&missing, &"task", &[]).is_err());
    }

    #[test]
    fn output_is_all_that_it_wrote() {
        let output = |script, millis| {
            shell(script)
                .output(Duration::from_millis(millis))
                .map_err(|error| format!("{error:#}"))
        };
        assert_eq!(
            output("echo a; sleep 0.01; echo b", 60_000).unwrap(),
            "a\nb\n"
        );
        let failed = output("seq 1 100 >&2; echo x; exit 3", 60_000).unwrap_err();
        assert!(
            failed.starts_with("exit status: 3; it said at last:\n    91\n")
                && failed.ends_with("\n    100"),
            "{failed}"
        );
        let hangs = shell("echo here >&2; exec sleep 1000");
        while hangs.errors.metadata().unwrap().len() < 5 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let hung = format!("{:#}", hangs.output(Duration::from_millis(50)).unwrap_err());
        assert!(
            hung.contains("said nothing for 50ms") && hung.ends_with("\n    here"),
            "{hung}"
        );
    }

    #[test]
    fn what_is_written_shows_that_a_child_is_alive() {
        // Its time is longer than the patience. Where the machine stalls for that long, all is
        // slower.
        let output = |pause: f64| {
            let script =
                format!("for i in 1 2 3 4 5 6; do echo $i >&2; sleep {pause}; done; echo done");
            shell(&script)
                .output(Duration::from_secs_f64(5.0 * pause))
                .map_err(|error| format!("{error:#}"))
        };
        let first = [0.5, 2.0, 8.0].into_iter().map(output).find(Result::is_ok);
        assert_eq!(first, Some(Ok("done\n".to_owned())));
    }

    #[test]
    fn children_stay_on_their_cpus() {
        let mut child = shell("sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status");
        let cpu: usize = child.answer(PATIENCE).unwrap();
        assert_eq!(cpu, crate::harness::cpu::allowed().unwrap()[0]);
    }
}
