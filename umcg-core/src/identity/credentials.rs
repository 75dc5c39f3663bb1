//! Credentials: one set of users and groups for all kernel threads of the process.
//!
//! The kernel keeps users and groups for each kernel thread. A process has one set only because
//! glibc implements `setuid` and its like for all threads. The caller sends SIGSETXID to the tid of
//! each other thread in glibc's list. Its handler makes the same system call there and answers in
//! the thread that the *thread pointer* names. A server's or helper's kernel thread that runs with
//! a worker's storage would therefore answer for the worker, and not for itself: the caller asks it
//! again, for ever. If the worker is a thread, glibc may take its home for done, and the home keeps
//! its privileges. So SIGSETXID has a handler of ours in front of glibc's:
//!
//! | the kernel thread runs with | its handler |
//! |---|---|
//! | its own storage | calls glibc's |
//! | a block, or another's storage | calls glibc's with its own thread pointer |
//! | the storage of a thread worker that is away from home | does so, and makes the home thread take over the resulting credentials |
//!
//! The last row is for a worker that is itself the caller. glibc leaves out the caller's own
//! thread, which is the home's entry in the list, and makes the system call on the kernel thread
//! that the caller runs on. That is the server's kernel thread. It has got a signal as well, and
//! makes the call twice. The second call changes nothing, because the calls set absolute values
//! that the first one has made permitted. For another caller, the home gets the signal as well, and
//! finds everything done.
//!
//! How a home takes over: the server's handler stores the new credentials in `Home::takeover`,
//! sends the home SIGSETXID with a code that glibc does not use, and waits. The home does not block
//! SIGSETXID, and its handler waits for nothing. So the wait ends, whatever the two were doing when
//! the signal came. If the caller is not the worker, the home may be ahead of the server: the home
//! and all others have answered, and the next change has reached the home while the server's
//! handler is still about to ask. So the home counts the commands that it gets from glibc. The
//! server reads the count before it answers. If the home has counted more by the time it is asked,
//! it has got this command, or a later one, and takes over nothing. A home that is left out gets no
//! other command meanwhile: glibc runs one at a time, and the caller of this one is in the handler
//! that asks.
//!
//! A home thread that cannot take over ends the process, as glibc does when one thread may and
//! another may not.
//!
//! glibc installs its handler when the process makes its first thread. So [`install`] makes sure
//! that a thread was made. After a fork glibc may install its handler again.
//!
//! If our handler cannot be installed from the start (a filter of system calls), no kernel thread
//! runs with another storage than its own: thread workers stay on their own threads, and full
//! workers are threads. If the installation is refused only later, our handler is still in place,
//! as glibc's cannot replace it either.
//!
//! Not chosen: definitions of `setuid` and its like of our own, which callers inside other
//! libraries would bypass. Also not chosen: keeping workers away from home meanwhile, which glibc's
//! handler would have to know on all kernel threads at once.
//!
//! Not covered: a kernel thread without a thread of glibc's; the per-thread parts that glibc does
//! not spread either (capabilities, `setfsuid`, securebits, namespaces); musl, which replaces its
//! handler for each call.

cfg_if::cfg_if! {
    if #[cfg(target_env = "gnu")] {
        mod glibc;
        pub(crate) use glibc::{ask_of, install};
    } else {
        pub(crate) fn ask_of(_owners: &'static StorageOwners) {}
        pub(crate) fn install() -> Result<(), rustix::io::Errno> {
            Ok(())
        }
    }
}

use std::sync::atomic::{AtomicPtr, AtomicU32};

/// Functions of the layer above, which knows the owner of the storage that a kernel thread runs
/// with. Async-signal-safe.
#[cfg_attr(
    not(target_env = "gnu"),
    allow(dead_code, reason = "for glibc's way only")
)]
pub(crate) struct StorageOwners {
    /// Tells which thread worker's storage the caller runs with, by the tid of its home, if the
    /// home does not run the worker's own flow.
    pub(crate) away: fn() -> Option<(u32, &'static Takeover)>,
    /// Calls a function that is not part of the owner's flow. The owner may run elsewhere
    /// meanwhile. All signals are blocked.
    pub(crate) beside: fn(&mut dyn FnMut()),
}

/// The credentials that a home thread is to take over, and the progress of that.
#[cfg_attr(
    not(target_env = "gnu"),
    allow(dead_code, reason = "for glibc's way only")
)]
pub(crate) struct Takeover {
    /// A set of credentials on the waiter's stack; null for none.
    wanted: AtomicPtr<()>,
    /// Counts the finished takeovers. The waiter sleeps on it.
    done: AtomicU32,
    /// Counts glibc's commands that the home has carried out or is carrying out.
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
