//! A call in progress, shown to a signal handler as if it were made at its site.
//!
//! A handler that interrupts a call finds the pc in the stub. Unwinders cope with that. Handlers
//! that compare the pc with addresses of their own do not: since glibc 2.41 `pthread_cancel` acts
//! only if the pc lies between two labels around the C library's `syscall`. So a handler in front
//! of the program's may put the site's registers into the context, and later the stub's back.

use super::{stub, trap};

/// The stub's registers, while a context has the site's.
#[derive(Clone, Copy, Debug)]
pub struct Inside {
    stub: [usize; 3],
    site: [usize; 3],
}

const REGISTERS: [i32; 3] = [libc::REG_RIP, libc::REG_RSP, libc::REG_RBP];

/// The stack pointer at the site, above that of a passed call and above rbp of a hooked one.
const ABOVE_PASSED: usize = 152;
const ABOVE_HOOKED: usize = 144;

fn registers(context: &libc::ucontext_t) -> [usize; 3] {
    REGISTERS.map(|register| context.uc_mcontext.gregs[register as usize] as usize)
}

fn set_registers(context: &mut libc::ucontext_t, values: [usize; 3]) {
    for (register, value) in REGISTERS.into_iter().zip(values) {
        context.uc_mcontext.gregs[register as usize] = value as i64;
    }
}

/// If the context is that of a thread in a call by the stub or by a trampoline, gives it the
/// registers of the site. The pc is then the old `syscall` for a call that will begin anew, and
/// behind it for one that has ended. Safe in signal handlers.
///
/// # Safety
///
/// `context` is what the kernel gave to the handler, as its third argument.
pub unsafe fn step_out(context: *mut libc::c_void) -> Option<Inside> {
    // SAFETY: the caller vouches for the context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    let stub @ [pc, stack, frame] = registers(context);
    // SAFETY: reads a word of the stub's frame, at an instruction where that is complete.
    let word = |address: usize| unsafe { (address as *const usize).read() };
    let is_at = |call: usize| pc == call || pc == call + 2;
    let (next, stack, frame) = if is_at(stub::pass()) {
        (word(stack + 16), stack + ABOVE_PASSED, frame)
    } else if stub::hooked_calls().into_iter().any(is_at) {
        (word(frame + 8), frame + ABOVE_HOOKED, word(frame))
    } else {
        let site = trap::site_of_tail(pc).or_else(|| trap::site_of_tail(pc - 2))?;
        (site.next, stack, frame)
    };
    // Whether the instruction is yet to come: it is two bytes long, in both places.
    let to_come = is_call(pc);
    let site = [if to_come { next - 2 } else { next }, stack, frame];
    set_registers(context, site);
    Some(Inside { stub, site })
}

/// Whether a `syscall` is at the address, which lies in the stub or in a trampoline.
fn is_call(pc: usize) -> bool {
    // SAFETY: code of the engine, and more of it follows each call.
    unsafe { (pc as *const [u8; 2]).read_unaligned() == [0x0f, 0x05] }
}

/// Puts the stub's registers back, unless the handler has changed those of the site.
///
/// # Safety
///
/// `context` is the one of [`step_out`], in the same signal handler.
pub unsafe fn step_in(context: *mut libc::c_void, inside: Inside) {
    // SAFETY: the caller vouches for the context.
    let context = unsafe { &mut *context.cast::<libc::ucontext_t>() };
    if registers(context) == inside.site {
        set_registers(context, inside.stub);
    }
}
