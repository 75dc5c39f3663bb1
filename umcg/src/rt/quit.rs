//! SIGQUIT (Ctrl-\\ on a terminal): a dump of all runtimes on standard error, and the program goes on.
//!
//! The handler only writes to a descriptor; a thread of its own reads it and does the rest, so it works however busy the servers are.

use super::runtime::Shared;
use super::sync::HoldLock;
use super::{dump, fork};
use rustix::event::{EventfdFlags, eventfd};
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering::*};
use std::sync::{Arc, OnceLock, Weak};

/// All runtimes of the process.
static RUNTIMES: HoldLock<Vec<Weak<Shared>>> = HoldLock::new(Vec::new());

pub(super) fn before_fork() {
    RUNTIMES.take();
}

/// # Safety
/// `before_fork` ran in this thread, once for each call of this, or in that of which it is a copy.
pub(super) unsafe fn forked() {
    // SAFETY: passed on.
    drop(unsafe { RUNTIMES.adopt() });
}

/// Where the handler writes.
static WAKE: AtomicI32 = AtomicI32::new(-1);

/// A runtime begins.
pub(crate) fn note(runtime: &Arc<Shared>) {
    fork::install();
    let mut runtimes = RUNTIMES.lock();
    runtimes.retain(|runtime| runtime.strong_count() > 0);
    runtimes.push(Arc::downgrade(runtime));
}

/// From now on SIGQUIT prints what all workers of all runtimes are doing on standard error, instead of ending the process. Calling it again changes
/// nothing.
///
/// # Errors
/// No descriptor or thread left.
pub fn dump_on_quit() -> io::Result<()> {
    static INSTALLED: OnceLock<Result<(), i32>> = OnceLock::new();
    let installed = INSTALLED.get_or_init(|| install().map_err(|error| error.raw_os_error().unwrap_or(libc::EAGAIN)));
    installed.map_err(io::Error::from_raw_os_error)
}

fn install() -> io::Result<()> {
    let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
    WAKE.store(wake.as_raw_fd(), Relaxed);
    std::thread::Builder::new().name("umcg-quit".into()).spawn(move || print_dumps(&wake))?;
    let handler: extern "C" fn(libc::c_int) = on_quit;
    // SAFETY: zero is a valid sigaction.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the handler is async-signal-safe.
    match unsafe { libc::sigaction(libc::SIGQUIT, &action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn on_quit(_signal: libc::c_int) {
    // SAFETY: errno of the interrupted flow, which is put back.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let one = 1u64;
    // SAFETY: a descriptor that is never closed, and eight bytes.
    unsafe { libc::write(WAKE.load(Relaxed), (&raw const one).cast(), size_of::<u64>()) };
    // SAFETY: as above.
    unsafe { *errno = before };
}

fn print_dumps(wake: &OwnedFd) {
    let mut count = [0; 8];
    while rustix::io::read(wake, &mut count).is_ok_and(|read| read == count.len()) {
        let _ = io::stderr().write_all(dump_all().as_bytes());
    }
}

/// The dumps of all runtimes, one after the other.
pub fn dump_all() -> String {
    let runtimes: Vec<_> = RUNTIMES.lock().iter().filter_map(Weak::upgrade).collect();
    runtimes.iter().filter(|runtime| !runtime.is_over()).map(|runtime| dump::dump(runtime) + "\n").collect()
}
