//! A handler of ours in front of the one that the program had before.
//!
//! Signals that are not ours go to the program's handler, as its `sigaction` asked the kernel for:
//!
//! - The signals of its `sa_mask` are blocked, and without `SA_NODEFER` its own signal. They are
//!   unblocked when our handler returns.
//! - With `SA_RESETHAND` it is called once.
//! - The default action, and an ignored fault, end the process: our handler removes itself, and the
//!   instruction is repeated. A signal that was *sent* is sent again, or ignored.
//!
//! The program's handler runs where ours does: on the alternate stack, also without `SA_ONSTACK`.

use super::install::{Action, HandlerFn, UnwindingHandlerFn, install, reset};
use super::{block, only};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, Ordering::*};

/// A signal that we handle, and the program's action for it before.
#[derive(Debug)]
pub struct Handler {
    signal: c_int,
    before: UnsafeCell<MaybeUninit<Action>>,
    /// The program's handler was to be called once, and has been.
    is_spent: AtomicBool,
}

// SAFETY: `before` is written by `install`, before the handler that reads it is installed.
unsafe impl Sync for Handler {}

impl Handler {
    /// For this signal; not installed yet.
    pub const fn new(signal: c_int) -> Handler {
        Handler {
            signal,
            before: UnsafeCell::new(MaybeUninit::uninit()),
            is_spent: AtomicBool::new(false),
        }
    }

    /// Installs `function`, on the alternate stack.
    ///
    /// # Safety
    /// Called once; `function` is async-signal-safe.
    pub unsafe fn install(&'static self, function: HandlerFn) {
        // SAFETY: passed on.
        unsafe { self.install_with(function, libc::SA_ONSTACK | libc::SA_NODEFER) };
    }

    /// Installs `function` with these flags of sigaction(2).
    ///
    /// # Safety
    /// As [`install`](Handler::install).
    pub unsafe fn install_with(&'static self, function: HandlerFn, flags: c_int) {
        // Ask for the old action first: a handler that runs at once finds it.
        // SAFETY: nothing else writes there.
        unsafe {
            self.before
                .get()
                .write(MaybeUninit::new(Action::of(self.signal)))
        };
        // If this is refused, a fault ends the process, as without the handler.
        // SAFETY: passed on.
        let _ = unsafe { install(self.signal, function, flags, 0) };
    }

    /// Gives the signal its default action.
    pub(crate) fn reset(&self) {
        reset(self.signal);
    }

    /// Performs the program's own action.
    ///
    /// # Safety
    /// Called by the handler that was installed, with its arguments; the program's own may never
    /// return.
    pub unsafe fn pass_on(&self, information: *mut libc::siginfo_t, context: *mut c_void) {
        // SAFETY: written by `install`.
        let before = unsafe { &*self.before.get().cast::<Action>() };
        // SAFETY: the kernel passes a siginfo_t.
        let was_sent = unsafe { (*information).si_code } <= 0;
        if before.handler == libc::SIG_IGN && was_sent {
            return;
        }
        let called_once =
            before.flags & libc::SA_RESETHAND != 0 && self.is_spent.swap(true, Relaxed);
        if !before.is_function() || called_once {
            self.reset();
            if was_sent {
                self.send();
            }
            return;
        }
        let itself = if before.flags & libc::SA_NODEFER == 0 {
            only(self.signal)
        } else {
            0
        };
        block(before.blocks | itself);
        if before.flags & libc::SA_SIGINFO != 0 {
            // SAFETY: SA_SIGINFO says that the handler has this type.
            let handler =
                unsafe { std::mem::transmute::<usize, UnwindingHandlerFn>(before.handler) };
            handler(self.signal, information, context);
        } else {
            // SAFETY: without SA_SIGINFO the handler has this type.
            let handler = unsafe {
                std::mem::transmute::<usize, extern "C-unwind" fn(c_int)>(before.handler)
            };
            handler(self.signal);
        }
    }

    /// Sends the signal to the calling kernel thread.
    fn send(&self) {
        // SAFETY: no arguments.
        let process = unsafe { libc::syscall(libc::SYS_getpid) };
        // SAFETY: as above.
        let thread = unsafe { libc::syscall(libc::SYS_gettid) };
        // SAFETY: the action is the default one.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, self.signal) };
    }
}
