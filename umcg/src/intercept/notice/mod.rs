//! Blocking that is noticed: in a program that uses this library, a worker that makes a blocking
//! call in its own code does not keep its server, without an announcement by
//! [`blocking`](crate::blocking).
//!
//! This holds for workers with storage of their own: full workers of a runtime, and registered
//! threads. Of their calls, made through the C library:
//!
//! | call | a worker of a runtime | a registered thread without one |
//! |---|---|---|
//! | a wait for a private word, a sleep | waits in user mode | in a blocking scope |
//! | a read, a write or the like | is tried; then the worker waits for the driver | is tried; then in a scope |
//! | another call that waits for another party | in a blocking scope | in a scope |
//! | all others | in place | in place |
//!
//! A *scope* is that of [`blocking`](crate::blocking): the server gets BLOCK and runs others, and
//! WAKE comes when the call has returned. Plain threads, servers and workers that share their
//! server's storage make their calls in place, as before. Words join them: a thread sleeps in the
//! kernel and is counted (`outsider`), and it wakes workers in the table of words.
//!
//! Invariants:
//!
//! - N1: *a worker keeps no lock that a server needs.* Servers and helpers use the C library's
//!   memory, so a worker does not leave its server within malloc: calls on memory are made in
//!   place, and so are waits for locks of the C library's own (`__lll_lock_wait_private`). But for
//!   the lock of a `FILE` they are made in a scope, since its owner may be a worker that waits.
//! - N2: *the library's own calls pass.* They are recognised by their flow ([`CallOrigin`]), and
//!   sites in the library's own file are left alone.
//! - N3: *the registers of a call are preserved* on which code at its site may rely, also those
//!   that a switch does not keep (`state::preserved_among_calls`).
//! - N4: a child that runs in this memory, with a worker's storage, makes its calls in place.
//!
//! If the library is linked into the program's own file, the sites in that file are left alone,
//! since the library's own are among them. A word that such a site and the C library both wait for
//! or wake is not supported.
//!
//! Rejected: calls that depend on a thread's identity (credentials, masks) at home, as for guests.
//! A full worker has no kernel thread of its own, and a program that knows of workers does not
//! expect it. Rejected, too: scopes for files and paths. Those calls nearly always find their data
//! in memory, and a scope costs two hops.
//!
//! | module | holds |
//! |---|---|
//! | this | how it begins |
//! | `hook` | decides on each call |
//! | `before` | threads that were there before |
//! | `attempt` | calls that are tried in place, and the wait for another try |
//! | `locks` | locks that the C library has for itself |
//! | `ready` | waits of workers for descriptors that are not this library's |
//! | `stuck` | workers that the kernel keeps where nothing announces it |
//! | `others` | which calls wait for another party |
//! | `partial` | calls of which a try has done a part |

mod attempt;
mod before;
mod hook;
mod locks;
mod others;
mod partial;
mod ready;
mod stuck;

use super::{class, code, courier, outsider, state};
use crate::rt::RuntimeBuilder;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use umcg_core::fork::Part;
use umcg_core::signal::Handler;
use umcg_core::{guarded, is_sanitized, kernel_thread, raw};
use umcg_intercept::{Config, Error, Object, install, on_trap, stand_aside};

/// From here on, calls of workers that would block are noticed, for the rest of the process's life.
/// May be called at any time, and more than once. A call of the program's that is looked at then
/// costs some 15 ns more. In the child of a fork nothing is noticed.
///
/// `UMCG_NOTICE=0` in the environment forbids it.
///
/// # Errors
/// [`Error`]: the environment forbids it, this is not x86-64, the program has a sanitizer or runs
/// under Valgrind or `umcg run`, or it cannot be looked at. No call is led elsewhere, and blocking
/// calls keep their servers as before. A thread that sleeps, and a handler of SIGTRAP that passes
/// the signal on, may be left behind.
pub fn notice_blocking() -> Result<(), Error> {
    static DONE: OnceLock<Result<(), Error>> = OnceLock::new();
    // A worker that was taken off its server in the midst of this would keep the others waiting.
    let begun = raw::apart(|| *DONE.get_or_init(begin));
    // It is over in the child of a fork.
    begun.and_then(|()| notices_blocking().then_some(()).ok_or(Error::Unsupported))
}

/// Whether calls that would block are noticed.
pub fn notices_blocking() -> bool {
    BEGUN.load(Relaxed)
}

impl RuntimeBuilder {
    /// Begins to notice blocking ([`notice_blocking`]) for the whole process: full workers of this
    /// runtime and all others may block by the C library, and keep no server meanwhile.
    ///
    /// # Errors
    /// As [`notice_blocking`].
    pub fn notice_blocking(self) -> Result<Self, Error> {
        notice_blocking().map(|()| self)
    }
}

static BEGUN: AtomicBool = AtomicBool::new(false);

fn begin() -> Result<(), Error> {
    let is_forbidden = std::env::var_os("UMCG_NOTICE").is_some_and(|value| value == "0");
    if is_forbidden || !state::is_enough() || is_sanitized() {
        return Err(Error::Unsupported);
    }
    static IN_FORKS: Part = Part::new(Part::ABOVE, || (), after_fork);
    IN_FORKS.enter().map_err(|_| Error::Unsupported)?;
    static TRAPS: Handler = Handler::new(libc::SIGTRAP);
    // SAFETY: the handler is async-signal-safe.
    unsafe { TRAPS.install_with(on_signal, libc::SA_NODEFER) };
    // The handler for faults of guarded accesses is installed by the first of them.
    let _ = guarded::load(std::ptr::from_ref(&TRAPS).addr());
    hook::prepare();
    courier::begin().map_err(|_| Error::Unsupported)?;
    let config = Config {
        has_threads: true,
        except: is_own_file,
        ..Config::new(hook::hook, &class::HOOKED)
    };
    outsider::set_uncounted(true);
    // SAFETY: the hook keeps to its contract, and `TRAPS` calls the engine's function.
    unsafe { install(config) }?;
    // Without it each wake looks in the kernel, too.
    let _ = umcg_core::signal::without(|| kernel_thread::spawn("umcg-looker", stuck::watch));
    BEGUN.store(true, Relaxed);
    code::look();
    return Ok(());

    /// # Safety
    /// Called by `Part`.
    unsafe fn after_fork(in_child: bool) {
        if in_child {
            end_in_child();
        }
    }

    extern "C" fn on_signal(_: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel passes the context of a SIGTRAP.
        let is_ours = unsafe { on_trap(context) }
            // SAFETY: likewise, and the handler's flags are those that are asked for.
            || unsafe { raw::on_trap(context) };
        if !is_ours {
            // SAFETY: the handler's arguments.
            unsafe { TRAPS.pass_on(information, context) };
        }
    }
}

/// In the child of a fork nothing is noticed: the runtimes are the parent's, and so is what their
/// drivers know.
fn end_in_child() {
    BEGUN.store(false, Relaxed);
    stand_aside(true);
}

/// The range of the file that this library is part of, be it the program's own.
static OWN_FILE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

fn is_own_file(object: &Object) -> bool {
    let is_own = object.range.contains(&(hook::hook as *const () as usize));
    if is_own {
        OWN_FILE[0].store(object.range.start, Relaxed);
        OWN_FILE[1].store(object.range.end, Relaxed);
    }
    is_own
}

/// Whether the address lies in that file.
fn is_own_code(address: usize) -> bool {
    (OWN_FILE[0].load(Relaxed)..OWN_FILE[1].load(Relaxed)).contains(&address)
}
