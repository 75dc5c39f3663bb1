//! Child processes. Waiting for their end and for their pipes parks the worker.
//!
//! A [`Command`] is std's, started in a [`crate::blocking`] scope. A pidfd is used to wait for the
//! child's end. Where there is no pidfd, the child is polled at intervals, so a wait can be cut
//! short there, too.
//!
//! ```
//! let output = umcg::process::Command::new("echo").arg("hello").output().unwrap();
//! assert_eq!(output.stdout, b"hello\n");
//! ```

use crate::blocking;
use crate::io::driver::source::Direction;
use crate::io::fd::Fd;
use crate::io::raw_fd::raw_fd;
use crate::io::wait;
use crate::rt::last::after_unwinding;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsStr;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
pub use std::process::{ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

/// A process to start.
#[derive(Debug)]
pub struct Command {
    inner: std::process::Command,
    /// Whether standard input, output and error were chosen. std does not tell.
    chosen: [bool; 3],
}

/// A child process. As with std's, dropping it neither ends the process nor waits for it.
#[derive(Debug)]
pub struct Child {
    inner: std::process::Child,
    /// None where the kernel has no pidfds.
    pidfd: Option<Fd>,
    /// The child's standard input, if it is a pipe.
    pub stdin: Option<ChildStdin>,
    /// The child's standard output, if it is a pipe.
    pub stdout: Option<ChildStdout>,
    /// The child's standard error, if it is a pipe.
    pub stderr: Option<ChildStderr>,
}

impl Command {
    /// A program. It is searched for in `PATH`.
    pub fn new<S: AsRef<OsStr>>(program: S) -> Command {
        Command::from(std::process::Command::new(program))
    }

    /// Adds an argument.
    pub fn arg<S: AsRef<OsStr>>(&mut self, argument: S) -> &mut Command {
        self.inner.arg(argument);
        self
    }

    /// Adds arguments.
    pub fn args<I: IntoIterator<Item = S>, S: AsRef<OsStr>>(
        &mut self,
        arguments: I,
    ) -> &mut Command {
        self.inner.args(arguments);
        self
    }

    /// Sets a variable of the environment.
    pub fn env<K: AsRef<OsStr>, V: AsRef<OsStr>>(&mut self, name: K, value: V) -> &mut Command {
        self.inner.env(name, value);
        self
    }

    /// Sets variables of the environment.
    pub fn envs<I: IntoIterator<Item = (K, V)>, K: AsRef<OsStr>, V: AsRef<OsStr>>(
        &mut self,
        variables: I,
    ) -> &mut Command {
        self.inner.envs(variables);
        self
    }

    /// Removes a variable from the environment.
    pub fn env_remove<K: AsRef<OsStr>>(&mut self, name: K) -> &mut Command {
        self.inner.env_remove(name);
        self
    }

    /// Begins with an empty environment.
    pub fn env_clear(&mut self) -> &mut Command {
        self.inner.env_clear();
        self
    }

    /// The folder to start in.
    pub fn current_dir<P: AsRef<Path>>(&mut self, folder: P) -> &mut Command {
        self.inner.current_dir(folder);
        self
    }

    /// The child's standard input.
    pub fn stdin<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.chosen[0] = true;
        self.inner.stdin(stdio);
        self
    }

    /// The child's standard output.
    pub fn stdout<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.chosen[1] = true;
        self.inner.stdout(stdio);
        self
    }

    /// The child's standard error.
    pub fn stderr<T: Into<Stdio>>(&mut self, stdio: T) -> &mut Command {
        self.chosen[2] = true;
        self.inner.stderr(stdio);
        self
    }

    /// Starts the process.
    ///
    /// # Errors
    /// There is no such program, or no room for a process.
    pub fn spawn(&mut self) -> io::Result<Child> {
        blocking(|| self.inner.spawn()).map(Child::new)
    }

    /// Starts the process and waits for its end. If the caller is cancelled meanwhile, the process
    /// is ended by SIGKILL, since no other code knows it.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn status(&mut self) -> io::Result<ExitStatus> {
        self.spawn()?.see_to_the_end(Child::wait)
    }

    /// Starts the process, collects its output, and waits for its end. Streams that were not chosen
    /// are pipes; the pipe of its input is closed at once. If the caller is cancelled meanwhile, or
    /// cannot read, the process is ended by SIGKILL, since no other code knows it.
    ///
    /// # Errors
    /// As [`Command::spawn`], and those of reading.
    pub fn output(&mut self) -> io::Result<Output> {
        self.set_unchosen(Stdio::piped);
        let child = self.spawn();
        // A later start must find the streams as std would.
        self.set_unchosen(Stdio::inherit);
        child?.see_to_the_end(Child::collect)
    }

    fn set_unchosen(&mut self, stdio: fn() -> Stdio) {
        let [stdin, stdout, stderr] = self.chosen;
        if !stdin {
            self.inner.stdin(stdio());
        }
        if !stdout {
            self.inner.stdout(stdio());
        }
        if !stderr {
            self.inner.stderr(stdio());
        }
    }
}

impl From<std::process::Command> for Command {
    /// Streams that were chosen are kept until [`Command::output`], which makes pipes of them and
    /// then forgets them.
    fn from(inner: std::process::Command) -> Command {
        Command {
            inner,
            chosen: [false; 3],
        }
    }
}

impl Child {
    fn new(mut inner: std::process::Child) -> Child {
        let pid = i32::try_from(inner.id()).ok().and_then(Pid::from_raw);
        let pidfd = pid
            .and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok())
            .map(Fd::new);
        let stdin = inner
            .stdin
            .take()
            .map(|pipe| ChildStdin(Fd::adopt(pipe.into())));
        let stdout = inner
            .stdout
            .take()
            .map(|pipe| ChildStdout(Fd::adopt(pipe.into())));
        let stderr = inner
            .stderr
            .take()
            .map(|pipe| ChildStderr(Fd::adopt(pipe.into())));
        Child {
            inner,
            pidfd,
            stdin,
            stdout,
            stderr,
        }
    }

    /// The child's process id.
    pub fn id(&self) -> u32 {
        self.inner.id()
    }

    /// Ends the child by SIGKILL.
    ///
    /// # Errors
    /// The kernel refuses to kill the child.
    pub fn kill(&mut self) -> io::Result<()> {
        self.inner.kill()
    }

    /// The exit status, if the child has ended.
    ///
    /// # Errors
    /// Other code has waited for the child.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        self.inner.try_wait()
    }

    /// Waits for the child's end. Closes its standard input before.
    ///
    /// # Errors
    /// Other code has waited for the child.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        drop(self.stdin.take());
        self.wait_until(wait::NEVER)
    }

    /// Waits for the child's end, until a deadline. Leaves its standard input open.
    ///
    /// # Errors
    /// `TimedOut`; other code has waited for the child.
    pub fn wait_deadline(&mut self, deadline: Instant) -> io::Result<ExitStatus> {
        self.wait_until(wait::nanos(deadline))
    }

    /// Waits for the child's end, for `timeout` at most. Leaves its standard input open.
    ///
    /// # Errors
    /// As [`Child::wait_deadline`].
    pub fn wait_timeout(&mut self, timeout: Duration) -> io::Result<ExitStatus> {
        self.wait_until(wait::after(
            timeout.as_nanos().try_into().unwrap_or(u64::MAX),
        ))
    }

    fn wait_until(&mut self, deadline: u64) -> io::Result<ExitStatus> {
        let inner = &mut self.inner;
        let Some(pidfd) = &self.pidfd else {
            return look_until(inner, deadline);
        };
        pidfd.call_until(Direction::Read, &"child", deadline, |_| {
            match inner.try_wait() {
                Ok(Some(status)) => Ok(Ok(status)),
                Ok(None) => Err(rustix::io::Errno::AGAIN),
                Err(error) => Ok(Err(error)),
            }
        })?
    }

    /// Collects the child's output, and waits for its end. Closes its standard input before. If the
    /// caller is cancelled meanwhile, the child runs on, as with any drop of it.
    ///
    /// # Errors
    /// As [`Child::wait`], and those of reading.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        self.collect()
    }

    /// Waits for the child's end by `f`. No other code knows the child. So if `f` fails, or
    /// unwinds, the child is killed, and waited for so that it does not stay as a zombie.
    fn see_to_the_end<R>(mut self, f: impl FnOnce(&mut Child) -> io::Result<R>) -> io::Result<R> {
        let end = |child: &mut Child| {
            if child.kill().is_ok() {
                let _ = crate::shielded(|| child.wait());
            }
        };
        let result = after_unwinding(&mut self, f, end);
        if result.is_err() {
            end(&mut self);
        }
        result
    }

    fn collect(&mut self) -> io::Result<Output> {
        drop(self.stdin.take());
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        match (self.stdout.take(), self.stderr.take()) {
            (Some(out), Some(err)) => read_both(&out.0, &mut stdout, &err.0, &mut stderr)?,
            (Some(mut out), None) => out.read_to_end(&mut stdout).map(drop)?,
            (None, Some(mut err)) => err.read_to_end(&mut stderr).map(drop)?,
            (None, None) => {}
        }
        Ok(Output {
            status: self.wait()?,
            stdout,
            stderr,
        })
    }
}

/// Without a pidfd: checks again and again, ever less often.
fn look_until(child: &mut std::process::Child, deadline: u64) -> io::Result<ExitStatus> {
    let mut pause = Duration::from_micros(100);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if wait::after(0) >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
        crate::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Reads both pipes in one worker. It must not wait for one pipe while the child waits for room in
/// the other. So it waits in the sources of both.
fn read_both(out: &Fd, to_out: &mut Vec<u8>, err: &Fd, to_err: &mut Vec<u8>) -> io::Result<()> {
    let (mut out_ended, mut err_ended) = (false, false);
    while !(out_ended && err_ended) {
        let (out_waits, err_waits) = (
            read_some(out, to_out, &mut out_ended)?,
            read_some(err, to_err, &mut err_ended)?,
        );
        if out_waits && err_waits {
            Fd::wait_either(out, err, &"read")?;
        } else if out_waits && err_ended {
            out.wait(&[Direction::Read], &"read", wait::NEVER)?;
        } else if err_waits && out_ended {
            err.wait(&[Direction::Read], &"read", wait::NEVER)?;
        }
    }
    Ok(())
}

/// Takes the data that is there. True if the pipe is empty but has not ended.
fn read_some(fd: &Fd, to: &mut Vec<u8>, ended: &mut bool) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    while !*ended {
        match fd.try_call(Direction::Read, |fd| rustix::io::read(fd, &mut buffer))? {
            Some(0) => *ended = true,
            Some(count) => to.extend_from_slice(&buffer[..count]),
            None => return Ok(true),
        }
    }
    Ok(false)
}

macro_rules! pipe {
    ($(#[$doc:meta])* $type:ident) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $type(Fd);

        impl AsFd for $type {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        raw_fd!($type: AsRawFd, IntoRawFd);

        impl From<$type> for OwnedFd {
            /// The descriptor stays non-blocking.
            fn from(pipe: $type) -> OwnedFd {
                pipe.0.into_inner()
            }
        }

        impl From<$type> for Stdio {
            /// For another child, which expects a blocking pipe.
            fn from(pipe: $type) -> Stdio {
                let fd = OwnedFd::from(pipe);
                // As in `Fd::adopt`: it does not fail.
                let _ = rustix::io::ioctl_fionbio(&fd, false);
                Stdio::from(fd)
            }
        }
    };
}

pipe!(
    /// The writing end of a child's standard input.
    ChildStdin
);
pipe!(
    /// The reading end of a child's standard output.
    ChildStdout
);
pipe!(
    /// The reading end of a child's standard error.
    ChildStderr
);

impl Write for ChildStdin {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        (&*self).write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Write for &ChildStdin {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.call(Direction::Write, &"write", |fd| {
            rustix::io::write(fd, buffer)
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for ChildStdout {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.call(Direction::Read, &"read", |fd| {
            rustix::io::read(fd, &mut *buffer)
        })
    }
}

impl Read for ChildStderr {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.call(Direction::Read, &"read", |fd| {
            rustix::io::read(fd, &mut *buffer)
        })
    }
}
