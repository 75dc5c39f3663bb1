//! Faults: a stack overflow gets its name, a bad pointer from the caller becomes an error.
//!
//! One handler for SIGSEGV and SIGBUS, on the alternate signal stack of the kernel thread:
//!
//! 1. A fault inside a guarded access ([`guarded`]) becomes its result. This is how EFAULT is
//!    answered without a system call.
//! 2. One inside a call that may be given up ([`attempt`]) ends that call.
//! 3. An [overflow] of a stack of ours prints which uth or worker overflowed which stack, and
//!    where, and the process dies by the signal.
//! 4. Everything else goes to the handler that the program had before.

use crate::os::attempt;
use crate::os::signal::{self, Frame, Handler};
use crate::uth::record::frames_begin;
use crate::{guarded, overflow, sanitizer};
use std::ffi::{c_int, c_void};
use std::sync::Once;

static HANDLERS: [Handler; 2] = [Handler::new(libc::SIGSEGV), Handler::new(libc::SIGBUS)];

/// Installs the handler, once a process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        sanitizer::refuse();
        overflow::prepare();
        for handler in &HANDLERS {
            // SAFETY: async-signal-safe, and installed once.
            unsafe { handler.install(on_fault) };
        }
    });
}

/// Gives the calling kernel thread an alternate signal stack if it has none, or a small one: a
/// handler cannot run on a stack that has overflowed.
pub(crate) fn ensure_signal_stack() {
    signal::ensure_stack(frames_begin);
}

/// The same only if it has a small one.
pub(crate) fn enlarge_signal_stack() {
    signal::enlarge_stack(frames_begin);
}

extern "C" fn on_fault(number: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes it, and this is the handler.
    let frame = unsafe { Frame::of(context) };
    if let Some(failed) = guarded::after_fault(frame.program_counter()) {
        return frame.set_program_counter(failed);
    }
    // SAFETY: the kernel passes a siginfo_t.
    let address = unsafe { &*information };
    let is_fault = address.si_code > 0; // else it was sent
    if is_fault && attempt::give_up(frame) {
        return;
    }
    let handler = &HANDLERS[usize::from(number != libc::SIGSEGV)];
    // SAFETY: both signals carry an address, if the kernel sent them.
    let address = unsafe { address.si_addr() } as usize;
    if let Some(overflow) =
        overflow::look(address, frame.stack_pointer(), frame.is_on_signal_stack())
    {
        overflow.report();
        // The program dies by the same signal when the instruction is repeated, or another one
        // faults before.
        handler.reset();
        return overflow::backtrace(frame.program_counter());
    }
    // SAFETY: the arguments are passed on, and nothing follows.
    unsafe { handler.pass_on(information, context) };
}
