//! Calls that no jump leads to the hook: of sites that the engine could not replace, and of code
//! that a compiler in the process has written.
//!
//! At home such a call is the kernel's, as natively. On a server it would have another thread's id
//! and mask, and block the server. So once there is such code, the kernel catches the calls of
//! servers (SUD), and the engine leads them to the hook. That costs 45 ns for each call that a
//! server makes, so servers do without until then, and homes for good: at home all signals may be
//! blocked, and the kernel ends a process that blocks the signal of a caught call.
//!
//! - *Armed before the code runs.* Each guest that has mapped such code waits until all servers are
//!   armed, or cannot be. A server arms its own thread, by a request that comes with the tick's
//!   signal.
//! - *Words.* Whether a caught call leads here depends on where its guest is. So words of such code
//!   are the kernel's in any case.

use super::class::{self, Class, User};
use super::servers;
use crate::rt::engine::runtime::RuntimeState;
use std::ptr::from_ref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use umcg_core::call as make;
use umcg_core::context::way::nap;
use umcg_intercept::{Call, arm_thread, is_caught};

/// The value of the request.
pub(super) const REQUEST: usize = usize::MAX;

/// There is such code.
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// The net is there, or just being cast; and it is there.
static IS_CAST: AtomicBool = AtomicBool::new(false);
static IS_THERE: AtomicBool = AtomicBool::new(false);
/// How many servers have seen the request.
static ANSWERS: AtomicUsize = AtomicUsize::new(0);

/// There is code whose calls are to be caught.
pub(super) fn want() {
    IS_WANTED.store(true, Relaxed);
    if let Some(shared) = servers::state() {
        cast(shared);
    }
}

/// The servers have begun.
pub(super) fn servers_begin() {
    if IS_WANTED.load(Relaxed) {
        want();
    }
}

fn cast(shared: &RuntimeState) {
    if IS_CAST.swap(true, Relaxed) {
        // ORDERING(there.2): Acquire, pairs with there.1.
        return wait_until(|| IS_THERE.load(Acquire));
    }
    let mut asked = 0;
    for server in &shared.servers {
        wait_until(|| server.server().is_some());
        let server = server.server();
        asked += usize::from(server.is_some_and(|server| ask(server.carried_by())));
    }
    // ORDERING(armed.1): Acquire, pairs with armed.2.
    wait_until(|| ANSWERS.load(Acquire) >= asked);
    // ORDERING(there.1): Release, pairs with there.2.
    IS_THERE.store(true, Release);
}

/// Looks again and again, for a time: a server may be asleep in a page fault.
fn wait_until(is_so: impl Fn() -> bool) {
    /// In nanoseconds, and how many of them at most.
    const PAUSE: u32 = 20_000;
    const PATIENCE: u32 = 5_000;
    for _ in 0..PATIENCE {
        if is_so() {
            return;
        }
        nap(PAUSE);
    }
}

/// Sends the request to this thread. False if that is impossible.
fn ask(thread: i32) -> bool {
    // SAFETY: no arguments.
    let process = unsafe { make(libc::SYS_getpid, [0; 6]) } as usize;
    // The kernel's record: number and error, code, sender, value.
    let mut information = [0usize; 16];
    information[0] = libc::SIGURG as usize;
    information[1] = libc::SI_QUEUE as u32 as usize;
    information[2] = process;
    information[3] = REQUEST;
    let information = from_ref(&information).expose_provenance();
    let thread = thread as usize;
    let arguments = [process, thread, libc::SIGURG as usize, information, 0, 0];
    // SAFETY: a signal that has our handler, to a thread of ours.
    unsafe { make(libc::SYS_rt_tgsigqueueinfo, arguments) == 0 }
}

/// The request, on a server's own thread. In a signal handler.
pub(super) fn arm() {
    // SAFETY: ours is installed for SIGSYS, and servers do not block it. Where the kernel cannot
    // catch calls, it is as before.
    let _ = unsafe { arm_thread() };
    // ORDERING(armed.2): Release, pairs with armed.1.
    ANSWERS.fetch_add(1, Release);
}

/// Whether the call was caught, and is one for words.
pub(super) fn is_for_word(call: &Call) -> bool {
    use User::{Futex, Futex2, FutexWaitv, SharedWait};
    is_caught(call)
        && matches!(
            class::of(call.number, &call.arguments),
            Class::User(Futex | FutexWaitv | Futex2 | SharedWait)
        )
}
