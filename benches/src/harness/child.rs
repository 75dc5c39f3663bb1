//! Child processes: a turn that is one has its memory and CPU time to itself, and nothing of it is left when others have their turns.
//!
//! A child is told its task by its last argument and answers with lines, both JSON.

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{self, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// A program and what stands before its task.
#[derive(Clone, Debug)]
pub struct Program {
    /// The file.
    pub file: PathBuf,
    /// The first arguments.
    pub arguments: Vec<OsString>,
}

/// What a child does to answer: a line on standard output.
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
    /// What it writes to standard error, for when it fails.
    errors: File,
}

impl Child {
    /// Starts one on these CPUs. The calling thread has to stay until the child is gone: they end together.
    pub fn start(program: &Program, task: &impl Serialize, cpus: &[usize]) -> Result<Self> {
        let errors = memory_file(c"stderr")?;
        let mut command = Command::new(&program.file);
        command.args(&program.arguments).arg(serde_json::to_string(task)?);
        command.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(errors.try_clone()?);
        confine(&mut command, cpus);
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.file.display()))?;
        let out = child.stdout.take().context("no pipe")?;
        Ok(Self { child, out, errors })
    }

    /// Its number.
    pub fn id(&self) -> u32 {
        self.child.id()
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

    /// Up to a newline or the end.
    fn line(&mut self, patience: Duration) -> Result<String> {
        let deadline = Instant::now() + patience;
        let mut line = Vec::new();
        while line.last() != Some(&b'\n') {
            let left = deadline.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "no answer in {patience:?}");
            let mut poll = libc::pollfd { fd: self.out.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one entry, writable.
            let ready = unsafe { libc::poll(&mut poll, 1, left.as_millis().min(1000) as i32 + 1) };
            if ready <= 0 {
                continue;
            }
            let mut buffer = [0; 4096];
            match self.out.read(&mut buffer)? {
                0 => break,
                length => line.extend_from_slice(&buffer[..length]),
            }
        }
        Ok(String::from_utf8_lossy(&line).trim().to_owned())
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

    fn failure(&mut self, status: ExitStatus) -> String {
        format!("{status}{}", self.last_words())
    }

    /// The most telling line of what it wrote to standard error, after a colon: the first that has some length.
    pub fn last_words(&mut self) -> String {
        let mut text = Vec::new();
        let read =
            self.errors.seek(SeekFrom::Start(0)).and_then(|_| Read::by_ref(&mut self.errors).take(65536).read_to_end(&mut text));
        let text = String::from_utf8_lossy(&text);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty() && !is_heading(line));
        match (read, line) {
            (Ok(_), Some(line)) => format!(": {}", line.trim_start_matches("umcg: ").chars().take(160).collect::<String>()),
            _ => String::new(),
        }
    }
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

/// On these CPUs only, with as many descriptors as it may have, and not after the thread that started it has ended.
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
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
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
    // SAFETY: just opened, and nobody else's.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn shell(script: &str) -> Child {
        let program = Program { file: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()] };
        Child::start(&program, &"task", &crate::harness::cpu::allowed().unwrap()[..1]).unwrap()
    }

    #[test]
    fn an_answer_is_a_line() {
        let mut child = shell("echo \"[$0]\"; sleep 100");
        let value: Value = child.answer(PATIENCE).unwrap();
        assert_eq!(value, serde_json::json!(["task"]));
        let start = Instant::now();
        drop(child);
        assert!(start.elapsed() < Duration::from_secs(50), "a child ends with its owner");
    }

    #[test]
    fn failures_say_why() {
        let reason = |script, patience| shell(script).answer::<Value>(patience).unwrap_err().to_string();
        assert_eq!(reason("exit 3", PATIENCE), "exit status: 3");
        assert_eq!(
            reason("echo \"thread 'x' panicked at y:\" >&2; echo because >&2; exit 1", PATIENCE),
            "exit status: 1: because"
        );
        assert!(reason("kill -9 $$", PATIENCE).contains("signal"));
        assert!(reason("echo nonsense", PATIENCE).contains("nonsense"));
        assert!(reason("sleep 100", Duration::from_millis(20)).contains("no answer"));
        assert!(shell("exit 1").finish(PATIENCE).is_err());
        assert!(shell("exit 0").finish(PATIENCE).is_ok());
        let missing = Program { file: "/no/such/program".into(), arguments: Vec::new() };
        assert!(Child::start(&missing, &"task", &[]).is_err());
    }

    #[test]
    fn children_stay_on_their_cpus() {
        let mut child = shell("sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status");
        let cpu: usize = child.answer(PATIENCE).unwrap();
        assert_eq!(cpu, crate::harness::cpu::allowed().unwrap()[0]);
    }
}
