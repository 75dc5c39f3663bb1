//! Faults: a stack overflow gets its name, a bad pointer from the caller becomes an error.
//!
//! One handler for SIGSEGV and SIGBUS, on the alternate signal stack of the kernel thread:
//!
//! 1. A fault inside a guarded access ([`guarded`]) becomes its result. This is how EFAULT is
//!    answered without a system call.
//! 2. A fault inside a call that may be aborted ([`attempt`]) ends that call.
//! 3. An overflow of a stack of ours is for the [`Judge`] of the room that makes them: it prints
//!    which uth or worker overflowed which stack, and where, and the process dies by the signal.
//! 4. Everything else goes to the handler that the program had before.

use super::signal::{Frame, Handler, unwinding};
use super::{attempt, guarded, sanitizer};
use std::ffi::{c_int, c_void};
use std::sync::{Once, OnceLock};

static HANDLERS: [Handler; 2] = [Handler::new(libc::SIGSEGV), Handler::new(libc::SIGBUS)];

/// Called with the address of a fault, the frame of its handler and the handler. Returns true if
/// the fault is an overflow. In that case it has reported the overflow and reset the handler, so
/// that the process dies by the same signal when the instruction is repeated. Async-signal-safe.
pub(crate) type Judge = fn(usize, &Frame, &Handler) -> bool;

static JUDGE: OnceLock<Judge> = OnceLock::new();

/// Sets the judge of faults. There is one judge.
pub(crate) fn judge_by(judge: Judge) {
    JUDGE.get_or_init(|| judge);
}

/// Installs the handler, once a process.
#[inline]
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        sanitizer::refuse();
        for handler in &HANDLERS {
            // SAFETY: async-signal-safe, and installed once.
            unsafe { handler.install(unwinding(on_fault)) };
        }
    });
}

extern "C-unwind" fn on_fault(
    number: c_int,
    information: *mut libc::siginfo_t,
    context: *mut c_void,
) {
    // SAFETY: the kernel passes it, and this is the handler.
    let frame = unsafe { Frame::of(context) };
    // SAFETY: the kernel passes a siginfo_t.
    let cause = unsafe { &*information };
    let is_fault = cause.si_code > 0; // else it was sent
    if is_fault {
        if let Some(failed) = guarded::after_fault(frame.program_counter()) {
            return frame.set_program_counter(failed);
        }
        if attempt::give_up(frame) {
            return;
        }
    }
    let handler = &HANDLERS[usize::from(number != libc::SIGSEGV)];
    // SAFETY: both signals carry an address if the kernel sent them.
    let address = unsafe { cause.si_addr() } as usize;
    let judge = JUDGE.get().filter(|_| is_fault);
    if judge.is_some_and(|judge| judge(address, frame, handler)) {
        return;
    }
    // SAFETY: the arguments are passed on, and nothing follows.
    unsafe { handler.pass_on(information, context) };
}
