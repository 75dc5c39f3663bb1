//! SIGQUIT (Ctrl-\\ on a terminal): prints a dump of all runtimes on standard error, and the
//! program goes on.
//!
//! The handler only counts and wakes a thread, which does the rest. So it works however busy the
//! servers are. The handler does not wake the thread through a descriptor: the program may have
//! closed that, and another file may have its number.

use super::dump;
use super::registry::runtimes;
use rustix::thread::futex::{self, Flags};
use std::ffi::c_void;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering::*};
use umcg_core::{Granted, Uncancelled, kernel_thread, signal};

/// How often the signal came.
static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// From now on, SIGQUIT does not end the process. It prints the state of all workers of all
/// runtimes on standard error. Calling this again changes nothing.
///
/// # Errors
/// There is no thread left, or the kernel refuses the handler.
pub fn dump_on_quit() -> io::Result<()> {
    static THREAD: Granted<()> = Granted::new();
    static HANDLER: Granted<()> = Granted::new();
    let begin = || kernel_thread::spawn("umcg-quit", print_dumps).map(drop);
    THREAD.get_or_ask(begin)?;
    HANDLER.get_or_ask(install).copied()
}

fn install() -> io::Result<()> {
    // SAFETY: the handler is async-signal-safe.
    unsafe {
        signal::install(
            libc::SIGQUIT,
            on_quit,
            libc::SA_RESTART | libc::SA_ONSTACK,
            0,
        )
    }
    .map_err(io::Error::from)
}

// Neither call touches errno.
extern "C" fn on_quit(
    _signal: libc::c_int,
    _information: *mut libc::siginfo_t,
    _context: *mut c_void,
) {
    SIGNALS.fetch_add(1, Relaxed);
    let _ = futex::wake(&SIGNALS, Flags::PRIVATE, 1);
}

fn print_dumps() {
    let mut seen = 0;
    loop {
        let now = SIGNALS.load(Relaxed);
        if now == seen {
            // On a failure (EAGAIN, EINTR) the loop just checks again.
            let _ = futex::wait(&SIGNALS, Flags::PRIVATE, seen, None);
            continue;
        }
        seen = now;
        let _ = io::stderr().write_all(dump_all().as_bytes());
    }
}

/// The dumps of all runtimes, one after the other. In a forked child: only of runtimes that were
/// made there.
pub fn dump_all() -> String {
    let _uncancelled = Uncancelled::begin();
    runtimes()
        .iter()
        .map(|runtime| dump::dump(runtime) + "\n")
        .collect()
}
