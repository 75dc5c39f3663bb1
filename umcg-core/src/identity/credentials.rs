//! Credentials: one set of users and groups for all kernel threads of the process.
//!
//! The kernel keeps users and groups for each kernel thread. For a process there is one set because
//! `setuid` and its like are glibc's: the caller sends SIGSETXID to the tid of each other thread in
//! glibc's list, whose handler makes the same system call there and answers in the thread that the
//! *thread pointer* names. A server's or helper's kernel thread that runs with a worker's storage
//! answers for the worker, then, and not for itself: the caller asks it again, for ever. If the
//! worker is a thread, its home may be taken to have answered and keep its privileges. So SIGSETXID
//! has a handler of ours in front of glibc's:
//!
//! | the kernel thread runs with | its handler |
//! |---|---|
//! | its own storage | calls glibc's |
//! | a block, or another's storage | calls glibc's with its own thread pointer |
//! | the storage of a thread worker that is away from home | does so, and sees to it that the home thread takes over what it has then |
//!
//! The last point is for a worker that is itself the caller: glibc leaves the caller's own thread
//! out, which is the home's entry in the list, and makes the system call on the kernel thread that
//! the caller runs on. That one is the server's: it has got a signal as well, makes the call twice,
//! and the second time changes nothing, as the calls set absolute values that the first one has
//! made permitted. For another caller the home gets the signal as well, and finds everything done.
//!
//! How a home takes over: the server's handler leaves in `Home::takeover` what the home is to
//! become, sends the home SIGSETXID with a code that glibc does not use, and waits. The home blocks
//! no SIGSETXID, and its handler waits for nothing: so the wait ends, whatever the two were doing
//! when the signal came. For another caller than the worker, the home may be ahead of the server:
//! it has answered, all others have, and the next change has reached the home while the server's
//! handler is still on its way to ask. So the home counts the commands that it gets of glibc. The
//! server reads the count before it answers; if the home has counted more by the time that it is
//! asked, it has got this command, or a later one, and takes over nothing. A home that is left out
//! gets no other command meanwhile, as glibc has one at a time, and the caller of this one is in
//! the handler that asks.
//!
//! A home thread that cannot take over ends the process, as glibc does when one thread may and
//! another may not.
//!
//! glibc installs its handler when the process makes its first thread, which is why [`install`]
//! sees to it that one was made: after a fork it may do so again.
//!
//! Where ours cannot be installed from the start (a filter of system calls), no kernel thread runs
//! with another storage than its own: thread workers stay on theirs, and full workers are threads.
//! Where it is refused later it stays, as glibc's cannot replace it either.
//!
//! Not chosen: definitions of `setuid` and its like of our own, which callers inside other
//! libraries would go past; keeping workers away from home meanwhile, which would have to be known
//! to glibc's handler on all kernel threads at once.
//!
//! Not covered: a kernel thread without a thread of glibc's; the per-thread parts that glibc does
//! not spread either (capabilities, `setfsuid`, securebits, namespaces); musl, which replaces its
//! handler for each call.

cfg_if::cfg_if! {
    if #[cfg(target_env = "gnu")] {
        mod glibc;
        pub(crate) use glibc::{ask_of, install};
    } else {
        pub(crate) fn ask_of(_away: Away) {}
        pub(crate) fn install() -> Result<(), rustix::io::Errno> {
            Ok(())
        }
    }
}

use std::sync::atomic::{AtomicPtr, AtomicU32};

/// Tells which thread worker's storage the caller runs with, by the tid of its home, if that does
/// not run the worker's own flow. Async-signal-safe.
pub(crate) type Away = fn() -> Option<(u32, &'static Takeover)>;

/// What a home thread is to become, and how far that is.
#[cfg_attr(
    not(target_env = "gnu"),
    allow(dead_code, reason = "for glibc's way only")
)]
pub(crate) struct Takeover {
    /// A set of credentials on the stack of the one that waits; null for none.
    wanted: AtomicPtr<()>,
    /// Counts what was done: what the one that waits sleeps on.
    done: AtomicU32,
    /// Counts the commands of glibc's that the home has carried out or is carrying out.
    commands: AtomicU32,
}

impl Takeover {
    pub(crate) const fn new() -> Takeover {
        Takeover {
            wanted: AtomicPtr::new(std::ptr::null_mut()),
            done: AtomicU32::new(0),
            commands: AtomicU32::new(0),
        }
    }
}
