//! Signals: the kernel thread's mask and alternate stack, the frames of handlers, and the handlers
//! that the program had before ours.
//!
//! | module | holds |
//! |---|---|
//! | `frame` | the state that a handler interrupted, and that the kernel restores when it returns |
//! | `callers` | whether an interrupted flow is in the C library or the like; `runtimes`, where those are |
//! | `install` | how handlers are installed: all of the library's, here |
//! | `program` | a handler of ours, in front of the program's own |
//! | `stack` | alternate signal stacks |
//!
//! Mask and alternate stack belong to a kernel thread, and a frame restores both. So a flow that
//! was suspended in a handler and continues on another kernel thread first adapts its frame to that
//! thread ([`Frame::adopt_thread`]). A handler on an alternate stack cannot be suspended at all, as
//! the next one there begins on top of its frames ([`Frame::is_on_signal_stack`]).
//!
//! None of this touches thread-local storage.

pub(crate) mod callers;
mod frame;
mod install;
mod pending;
mod program;
mod runtimes;
mod stack;

pub(crate) use frame::Frame;
pub(crate) use install::Action;
pub use install::{HandlerFn, UnwindingHandlerFn, install, unwinding};
pub use pending::take_pending;
pub(crate) use pending::wait_for;
pub use program::Handler;
pub(crate) use stack::{enlarge as enlarge_stack, ensure as ensure_stack};

use crate::base::call::call;
use std::ffi::c_int;

/// Sets the kernel thread's signal mask, glibc's own signals included. Returns the one before.
pub(crate) fn set_mask(mask: u64) -> u64 {
    change_mask(libc::SIG_SETMASK, &mask)
}

/// Additionally blocks these signals. Returns the mask before.
pub(crate) fn block(signals: u64) -> u64 {
    change_mask(libc::SIG_BLOCK, &signals)
}

/// The kernel thread's signal mask.
pub(crate) fn mask() -> u64 {
    change_mask(libc::SIG_SETMASK, std::ptr::null())
}

/// The set of one signal.
pub(crate) const fn only(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// Calls `f`, which starts a thread, with all signals blocked that the program can have handlers
/// for: the thread is to run none of these handlers. The C library's own signals still come, as
/// credentials are changed that way. `f` stays on the kernel thread.
pub fn without<R>(f: impl FnOnce() -> R) -> R {
    let programs = (32..libc::SIGRTMIN()).fold(u64::MAX, |all, signal| all & !only(signal));
    let before = block(programs);
    let result = f();
    set_mask(before);
    result
}

fn change_mask(how: c_int, signals: *const u64) -> u64 {
    let mut before = 0u64;
    let arguments = [
        how as usize,
        signals.expose_provenance(),
        (&raw mut before).expose_provenance(),
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: null, or a signal set of 64 bits, and the kernel is told that size.
    unsafe { call(libc::SYS_rt_sigprocmask, arguments) };
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_begun_without_signals_has_all_of_the_programs_blocked() {
        let before = mask();
        let thread = without(|| std::thread::spawn(mask)).join().unwrap();
        assert_eq!(mask(), before);
        // Some signals cannot be blocked: two, and an emulator's own.
        let most = std::thread::spawn(|| (set_mask(u64::MAX), mask()).1)
            .join()
            .unwrap();
        let c_librarys = (32..libc::SIGRTMIN()).fold(0, |all, signal| all | only(signal));
        assert_eq!(thread, most & !c_librarys);
    }
}
