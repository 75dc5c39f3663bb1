//! The system call in which a thread of this process is, read from `/proc/self/task/TID/syscall`.
//! Where the kernel has no such file: only whether the thread sleeps, read from `stat`.
//!
//! A program that gives all its threads a filter may not list the calls that open these files, and
//! be ended for one. So nothing is read from then on ([`shut`]).

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU32, Ordering::*};
use umcg_core::context::way::nap;

/// [`SHUT`], and [`READER`] once for each thread that reads.
static READERS: AtomicU32 = AtomicU32::new(0);
const SHUT: u32 = 1;
const READER: u32 = 2;

/// Calls `f`, which opens files of `/proc`. None if that is over.
pub(super) fn reading<R>(f: impl FnOnce() -> R) -> Option<R> {
    // ORDERING(readers.1): SeqCst, pairs with readers.2: either this sees that it is over, or the
    // other side waits for this one.
    let before = READERS.fetch_add(READER, SeqCst);
    let result = (before & SHUT == 0).then(f);
    READERS.fetch_sub(READER, Relaxed);
    result
}

/// No thread reads files of `/proc` here any more once this returns.
#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for guests")
)]
pub(crate) fn shut() {
    const PAUSE: u32 = 20_000;
    // ORDERING(readers.2): SeqCst, pairs with readers.1.
    READERS.fetch_or(SHUT, SeqCst);
    while READERS.load(Relaxed) != SHUT {
        nap(PAUSE);
    }
}

/// The state of a thread, as the kernel sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ThreadState {
    /// It runs, or is ready to.
    Runs,
    /// It sleeps in the kernel. Two equal values mean the same call from the same place.
    Blocks(SystemCall),
    /// A debugger or a signal has stopped it, or it has ended.
    Gone,
}

/// A system call that a thread sleeps in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SystemCall {
    /// Its number, its arguments, and the caller's stack pointer and instruction, as the kernel
    /// prints them. Empty if the kernel does not say.
    line: String,
}

/// The state of the thread with this id.
pub(crate) fn of_thread(tid: i32) -> ThreadState {
    reading(|| read_state(tid)).unwrap_or(ThreadState::Gone)
}

fn read_state(tid: i32) -> ThreadState {
    let file = |name| text_of(tid, name);
    match file("syscall") {
        Ok(line) if line.starts_with("running") => ThreadState::Runs,
        Ok(line) if !line.trim().is_empty() => match file("stat").as_deref().map(state) {
            Ok(Some('T' | 't' | 'Z' | 'X')) | Err(_) => ThreadState::Gone,
            _ => ThreadState::Blocks(SystemCall {
                line: line.trim().to_owned(),
            }),
        },
        _ => match file("stat").as_deref().map(state) {
            Ok(Some('R')) => ThreadState::Runs,
            Ok(Some('S' | 'D')) => ThreadState::Blocks(SystemCall {
                line: String::new(),
            }),
            _ => ThreadState::Gone,
        },
    }
}

/// The text of a file about the thread with this id, as far as it has what is looked for here. One
/// read: the kernel writes such a file anew for each.
fn text_of(tid: i32, name: &str) -> io::Result<String> {
    let mut text = [0; 4096];
    let length = File::open(format!("/proc/self/task/{tid}/{name}"))?.read(&mut text)?;
    Ok(String::from_utf8_lossy(&text[..length]).into_owned())
}

/// The letter of a thread's state, which follows its name in parentheses.
fn state(stat: &str) -> Option<char> {
    behind_name(stat).next()?.chars().next()
}

/// How many page faults of the thread with this id had to wait for a disk or the like.
pub(crate) fn major_faults(tid: i32) -> Option<u64> {
    /// Words behind the name.
    const BEFORE: usize = 9;
    let stat = reading(|| text_of(tid, "stat"))?.ok()?;
    behind_name(&stat).nth(BEFORE)?.parse().ok()
}

/// Whether this signal is pending for the thread with this id itself.
pub(crate) fn has_pending(tid: i32, signal: i32) -> bool {
    let Some(Ok(status)) = reading(|| text_of(tid, "status")) else {
        return false;
    };
    let pending = status.lines().find_map(|line| line.strip_prefix("SigPnd:"));
    let set = pending.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> (signal - 1) & 1 != 0)
}

/// The words of this file behind the thread's name, which stands in parentheses.
fn behind_name(stat: &str) -> impl Iterator<Item = &str> {
    let rest = stat.rsplit(')').next().unwrap_or_default();
    rest.split_whitespace()
}

#[cfg_attr(
    not(all(feature = "intercept", target_arch = "x86_64")),
    allow(dead_code, reason = "for interception")
)]
impl SystemCall {
    /// Its number; -1 in a page fault. None if the kernel does not say.
    pub(crate) fn number(&self) -> Option<i64> {
        self.line.split_whitespace().next()?.parse().ok()
    }

    /// An argument, from 0.
    pub(crate) fn argument(&self, index: usize) -> Option<usize> {
        self.hexadecimal(1 + index)
    }

    /// Where the caller goes on, as the kernel says.
    pub(crate) fn program_counter(&self) -> Option<usize> {
        self.hexadecimal(self.line.split_whitespace().count().checked_sub(1)?)
    }

    fn hexadecimal(&self, index: usize) -> Option<usize> {
        let word = self.line.split_whitespace().nth(index)?;
        usize::from_str_radix(word.strip_prefix("0x")?, 16).ok()
    }
}

impl SystemCall {
    /// Whether it is none, but a page fault.
    pub(crate) fn is_fault(&self) -> bool {
        self.line.starts_with("-1 ")
    }

    /// The call's name without arguments.
    pub(crate) fn name(&self) -> String {
        let number = self.line.split_whitespace().next();
        match number.and_then(|number| number.parse().ok()) {
            None => "the kernel".to_owned(),
            Some(-1) => "a page fault".to_owned(),
            Some(number) => match NAMES.iter().find(|(known, _)| *known == number) {
                Some((_, name)) => (*name).to_owned(),
                None => format!("system call {number}"),
            },
        }
    }
}

impl std::fmt::Display for SystemCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut words = self.line.split_whitespace();
        let number = words.next().and_then(|number| number.parse::<i64>().ok());
        let first = words
            .next()
            .and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
        match (number, first) {
            (Some(0..), Some(first)) if first < 1 << 16 => write!(f, "{}({first}, …)", self.name()),
            (Some(0..), Some(first)) => write!(f, "{}({first:#x}, …)", self.name()),
            _ => f.write_str(&self.name()),
        }
    }
}

/// System calls that wait, and those that reach files.
const NAMES: &[(i64, &str)] = &[
    (libc::SYS_accept, "accept"),
    (libc::SYS_accept4, "accept4"),
    (libc::SYS_clock_nanosleep, "clock_nanosleep"),
    (libc::SYS_close, "close"),
    (libc::SYS_connect, "connect"),
    (libc::SYS_copy_file_range, "copy_file_range"),
    (libc::SYS_epoll_pwait, "epoll_pwait"),
    (libc::SYS_epoll_pwait2, "epoll_pwait2"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_fcntl, "fcntl"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_flock, "flock"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_futex, "futex"),
    (libc::SYS_futex_waitv, "futex_waitv"),
    (libc::SYS_getdents64, "getdents64"),
    (libc::SYS_io_getevents, "io_getevents"),
    (libc::SYS_io_uring_enter, "io_uring_enter"),
    (libc::SYS_ioctl, "ioctl"),
    (libc::SYS_madvise, "madvise"),
    (libc::SYS_mmap, "mmap"),
    (libc::SYS_mprotect, "mprotect"),
    (libc::SYS_msync, "msync"),
    (libc::SYS_munmap, "munmap"),
    (libc::SYS_nanosleep, "nanosleep"),
    (libc::SYS_openat, "openat"),
    (libc::SYS_openat2, "openat2"),
    (libc::SYS_ppoll, "ppoll"),
    (libc::SYS_pread64, "pread64"),
    (libc::SYS_preadv, "preadv"),
    (libc::SYS_preadv2, "preadv2"),
    (libc::SYS_pselect6, "pselect6"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_pwritev, "pwritev"),
    (libc::SYS_read, "read"),
    (libc::SYS_readv, "readv"),
    (libc::SYS_recvfrom, "recvfrom"),
    (libc::SYS_recvmmsg, "recvmmsg"),
    (libc::SYS_recvmsg, "recvmsg"),
    (libc::SYS_rt_sigsuspend, "rt_sigsuspend"),
    (libc::SYS_rt_sigtimedwait, "rt_sigtimedwait"),
    (libc::SYS_semop, "semop"),
    (libc::SYS_semtimedop, "semtimedop"),
    (libc::SYS_sendfile, "sendfile"),
    (libc::SYS_sendmsg, "sendmsg"),
    (libc::SYS_sendto, "sendto"),
    (libc::SYS_splice, "splice"),
    (libc::SYS_statx, "statx"),
    (libc::SYS_wait4, "wait4"),
    (libc::SYS_waitid, "waitid"),
    (libc::SYS_write, "write"),
    (libc::SYS_writev, "writev"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_wait, "epoll_wait"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pause, "pause"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_poll, "poll"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_select, "select"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn call(line: &str) -> SystemCall {
        SystemCall {
            line: line.to_owned(),
        }
    }

    #[test]
    fn calls_have_names_and_their_first_argument() {
        let read = call(&format!(
            "{} 0x7 0x7ffd00 0x10 0x0 0x0 0x0 0x7ffc 0x7f12",
            libc::SYS_read
        ));
        assert_eq!(
            (read.to_string(), read.name()),
            ("read(7, …)".to_owned(), "read".to_owned())
        );
        let futex = call(&format!(
            "{} 0x7ffd0010 0x80 0x2 0x0 0x0 0x0 0x7ffc 0x7f12",
            libc::SYS_futex
        ));
        assert_eq!(futex.to_string(), "futex(0x7ffd0010, …)");
        assert_eq!(call("99999 0x0 0x0").to_string(), "system call 99999(0, …)");
        assert_eq!(call("-1 0x7ffc 0x7f12").to_string(), "a page fault");
        assert_eq!(call("").to_string(), "the kernel");
    }

    #[test]
    fn a_signal_is_pending_until_it_is_taken() {
        let has = || {
            // SAFETY: no arguments.
            let tid = unsafe { libc::syscall(libc::SYS_gettid) };
            has_pending(tid as i32, libc::SIGUSR2)
        };
        // SAFETY: zero is a set.
        let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
        // SAFETY: a set of this frame's.
        unsafe { libc::sigaddset(&mut set, libc::SIGUSR2) };
        // SAFETY: as above.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut()) };
        assert!(!has());
        // SAFETY: no arguments.
        let own = unsafe { libc::pthread_self() };
        // SAFETY: the calling thread blocks the signal.
        unsafe { libc::pthread_kill(own, libc::SIGUSR2) };
        assert!(has());
        let mut taken = 0;
        // SAFETY: as above.
        assert_eq!(unsafe { libc::sigwait(&set, &mut taken) }, 0);
        assert!(taken == libc::SIGUSR2 && !has());
    }

    #[test]
    fn a_state_is_read_behind_any_name() {
        assert_eq!(state("12 (a) S (b) R 1 2 3"), Some('R'));
        assert_eq!(state("12 (umcg-0) S 1"), Some('S'));
        assert_eq!(state(""), None);
    }

    #[test]
    fn a_thread_that_reads_a_pipe_blocks_in_read() {
        let (mut reader, writer) = std::io::pipe().unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_nonzero().get())
                .unwrap();
            std::io::Read::read(&mut reader, &mut [0]).unwrap()
        });
        let tid = told.recv().unwrap();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            match of_thread(tid) {
                ThreadState::Blocks(call) if ["read", "the kernel"].contains(&&*call.name()) => {
                    break;
                }
                doing => assert!(std::time::Instant::now() < until, "{doing:?}"),
            }
            std::thread::yield_now();
        }
        drop(writer);
        assert_eq!(thread.join().unwrap(), 0);
        assert_eq!(of_thread(0), ThreadState::Gone);
    }
}
