//! A call in progress, shown to a signal handler as if it were made at its site.
//!
//! A handler that interrupts a call finds the pc in the stub or in a trampoline. Handlers that
//! compare the pc with addresses of their own do not know either: since glibc 2.41 `pthread_cancel`
//! acts only if the pc lies between two labels around the C library's `syscall`. So a handler in
//! front of the program's may put the site's registers into the context, and later the former ones
//! back.
//!
//! Unwinders cope with the stub, and with trampolines in the engine's [own](super::own) arena. They
//! end at other trampolines, which have no unwind tables: cancellation would end the thread there
//! without its destructors. They see the site's registers, too.

use super::{stub, trap};

/// The stub's registers, or a trampoline's, while a context has the site's.
#[derive(Clone, Copy, Debug)]
pub struct Inside {
    stub: [usize; 3],
    site: [usize; 3],
    is_at_call: bool,
}

impl Inside {
    /// Whether the kernel makes the call, or has just made it, or is about to.
    #[must_use]
    pub fn is_at_call(&self) -> bool {
        self.is_at_call
    }
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

/// If the context is that of a thread in a call by the stub, or anywhere in a trampoline, gives it
/// the registers of the site. The pc is then the old `syscall` for a call that will begin anew, and
/// behind it for one that has ended; or that of another instruction of the site's, for the same one
/// in a trampoline. None if the context is another one, or has unwind tables to the site: those of
/// most instructions of the stub. Safe in signal handlers.
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
    // The instruction is two bytes long, in both places.
    let of_call = |next: usize| if is_call(pc) { next - 2 } else { next };
    let (site, is_at_call) = if is_at(stub::pass()) {
        (
            [of_call(word(stack + 16)), stack + ABOVE_PASSED, frame],
            true,
        )
    } else if stub::hooked_calls().into_iter().any(is_at) {
        (
            [of_call(word(frame + 8)), frame + ABOVE_HOOKED, word(frame)],
            true,
        )
    } else if stub::exempt().contains(&pc) && is_jump_back(pc) {
        let to = context.uc_mcontext.gregs[libc::REG_RCX as usize] as usize;
        ([trap::site(to)?.original(to), stack, frame], false)
    } else {
        let site = trap::site(pc)?;
        ([site.original(pc), stack, frame], is_at(site.tail))
    };
    set_registers(context, site);
    Some(Inside {
        stub,
        site,
        is_at_call,
    })
}

/// Whether a `syscall` is at the address, which lies in the stub.
fn is_call(pc: usize) -> bool {
    // SAFETY: code of the stub, and more of it follows each call.
    unsafe { (pc as *const [u8; 2]).read_unaligned() == [0x0f, 0x05] }
}

/// Whether the stub is about to jump to the address in rcx, with all other registers as there.
fn is_jump_back(pc: usize) -> bool {
    // SAFETY: as above.
    unsafe { (pc as *const [u8; 2]).read_unaligned() == [0xff, 0xe1] }
}

/// Puts the former registers back, unless the handler has changed those of the site.
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
