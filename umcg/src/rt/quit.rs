//! SIGQUIT (Ctrl-\\ on a terminal): a dump of all runtimes on standard error, and the program goes
//! on.
//!
//! The handler only counts and wakes; a thread of its own does the rest, so it works however busy
//! the servers are. Not by a descriptor: the program may have closed that, and another file may
//! have its number.

use super::dump;
use super::runtime::Shared;
use super::sync::HoldLock;
use rustix::thread::futex::{self, Flags};
use std::ffi::c_void;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Arc, Weak};
use umcg_core::fork::Part;
use umcg_core::{Granted, Uncancelled, signal};

/// All runtimes of the process.
static RUNTIMES: HoldLock<Vec<Weak<Shared>>> = HoldLock::new(Vec::new());

static FORKS: Part = Part::new(Part::ABOVE, || RUNTIMES.take(), forked);

/// # Safety
/// As [`Part::new`] says.
unsafe fn forked(in_child: bool) {
    // SAFETY: passed on.
    let runtimes = unsafe { RUNTIMES.adopt() };
    if in_child {
        // None of them is freed here, as whoever had it in the parent has it for good.
        runtimes
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|runtime| runtime.leave_behind());
    }
}

/// How often the signal came.
static SIGNALS: AtomicU32 = AtomicU32::new(0);

/// A runtime begins.
pub(crate) fn note(runtime: &Arc<Shared>) {
    // Without memory for that a child has to do as well as it can.
    let _ = FORKS.enter();
    let mut runtimes = RUNTIMES.lock();
    runtimes.retain(|runtime| runtime.strong_count() > 0);
    runtimes.push(Arc::downgrade(runtime));
}

/// From now on SIGQUIT prints what all workers of all runtimes are doing on standard error, instead
/// of ending the process. Calling it again changes nothing.
///
/// # Errors
/// No thread left, or the kernel refuses the handler.
pub fn dump_on_quit() -> io::Result<()> {
    static THREAD: Granted<()> = Granted::new();
    static HANDLER: Granted<()> = Granted::new();
    let begin = || {
        std::thread::Builder::new()
            .name("umcg-quit".into())
            .spawn(print_dumps)
            .map(drop)
    };
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
            // A failure (EAGAIN, EINTR) only makes us look again.
            let _ = futex::wait(&SIGNALS, Flags::PRIVATE, seen, None);
            continue;
        }
        seen = now;
        let _ = io::stderr().write_all(dump_all().as_bytes());
    }
}

/// The runtimes that there are.
fn runtimes() -> Vec<Arc<Shared>> {
    let mut runtimes: Vec<_> = RUNTIMES.lock().iter().filter_map(Weak::upgrade).collect();
    runtimes.retain(|runtime| !runtime.is_over());
    runtimes
}

/// Calls `f` with each runtime that there is.
pub(super) fn each_runtime(f: impl FnMut(&Arc<Shared>)) {
    // One whose owner lets go of it meanwhile ends here, and closes its descriptors.
    let _uncancelled = Uncancelled::begin();
    runtimes().iter().for_each(f);
}

/// The dumps of all runtimes, one after the other; in a forked child, of those that were made
/// there.
pub fn dump_all() -> String {
    let _uncancelled = Uncancelled::begin();
    runtimes()
        .iter()
        .map(|runtime| dump::dump(runtime) + "\n")
        .collect()
}
