//! Faults: a stack overflow gets its name, a bad pointer from the caller becomes an error.
//!
//! One handler for SIGSEGV and SIGBUS, on the alternate signal stack of the kernel thread:
//!
//! 1. A fault inside a guarded access ([`guarded`]) becomes its result. This is how EFAULT is
//!    answered without a system call.
//! 2. A fault in the guard of a stack of ours prints which uth or worker overflowed which stack, and the process dies by the signal.
//! 3. Everything else goes to the handler that the program had before.

use crate::guarded;
use crate::os::signal::{self, Frame, Handler};
use crate::uth::record::{Record, frames_begin};
use std::ffi::{c_int, c_void};
use std::io::Write;
use std::sync::Once;
use umcg_context::stack;

static HANDLERS: [Handler; 2] = [Handler::new(libc::SIGSEGV), Handler::new(libc::SIGBUS)];

/// Installs the handler, once a process.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for handler in &HANDLERS {
            // SAFETY: async-signal-safe, and installed once.
            unsafe { handler.install(on_fault) };
        }
    });
}

/// Gives the calling kernel thread an alternate signal stack if it has none: a handler cannot run on a stack that has overflowed.
pub(crate) fn ensure_signal_stack() {
    signal::ensure_stack(frames_begin);
}

extern "C" fn on_fault(number: c_int, information: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes it, and this is the handler.
    let frame = unsafe { Frame::of(context) };
    if let Some(failed) = guarded::after_fault(frame.program_counter()) {
        return frame.set_program_counter(failed);
    }
    let handler = &HANDLERS[usize::from(number != libc::SIGSEGV)];
    // SAFETY: the kernel passes a siginfo_t.
    let address = unsafe { &*information };
    // SAFETY: both signals carry an address, if the kernel sent them.
    let address = unsafe { address.si_addr() } as usize;
    if let Some(place) = stack::find(address).filter(|place| place.in_guard) {
        report(&place);
        // The program dies by the same signal when the instruction is repeated.
        return handler.reset();
    }
    // SAFETY: the arguments are passed on, and nothing follows.
    unsafe { handler.pass_on(information, context) };
}

/// Says on standard error whose stack has overflowed. Async-signal-safe: no allocation, one write.
fn report(place: &stack::Place) {
    let stack = stack::top_of(place.base, place.class);
    // SAFETY: the top of a stack is readable for ever, and a Record is valid whatever it holds.
    let record = unsafe { &*stack.wrapping_sub(size_of::<Record>()).cast::<Record>() };
    let (name, len) = record.name();
    let mut text = [0u8; 160];
    let mut rest = &mut text[..];
    let name = std::str::from_utf8(&name[..len]).unwrap_or("?");
    let kind = record.kind();
    let kib = place.class.size() >> 10;
    let _ = match name {
        "" => writeln!(rest, "umcg: {kind} {:p} overflowed its {kib} KiB stack", record as *const Record),
        name => writeln!(rest, "umcg: {kind} `{name}` overflowed its {kib} KiB stack"),
    };
    let unused = rest.len();
    let used = text.len() - unused;
    // SAFETY: writes from a buffer of our own.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), used) };
}
