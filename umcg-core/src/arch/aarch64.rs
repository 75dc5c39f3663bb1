//! aarch64 (AAPCS64).

use libc::ucontext_t;
use std::arch::asm;

// `umcg_attempt(f, argument, place)` stores the stack pointer in `place`, calls `f(argument)`, and
// returns 0. With that stack pointer `umcg_attempt_failed` makes it return 1.
function!("umcg_attempt":
    "stp x29, x30, [sp, #-160]!", ".cfi_def_cfa_offset 160", ".cfi_offset x29, -160",
    ".cfi_offset x30, -152",
    "mov x29, sp", ".cfi_def_cfa_register x29",
    "stp x19, x20, [sp, #16]", "stp x21, x22, [sp, #32]", "stp x23, x24, [sp, #48]",
    "stp x25, x26, [sp, #64]",
    "stp x27, x28, [sp, #80]",
    "stp d8, d9, [sp, #96]", "stp d10, d11, [sp, #112]", "stp d12, d13, [sp, #128]",
    "stp d14, d15, [sp, #144]",
    "str x29, [x2]",
    "mov x9, x0",
    "mov x0, x1",
    "blr x9",
    "mov x0, #0",
    "2:",
    "ldp d14, d15, [sp, #144]", "ldp d12, d13, [sp, #128]", "ldp d10, d11, [sp, #112]",
    "ldp d8, d9, [sp, #96]",
    "ldp x27, x28, [sp, #80]",
    "ldp x25, x26, [sp, #64]", "ldp x23, x24, [sp, #48]", "ldp x21, x22, [sp, #32]",
    "ldp x19, x20, [sp, #16]",
    ".cfi_remember_state", ".cfi_def_cfa_register sp",
    "ldp x29, x30, [sp], #160", ".cfi_def_cfa_offset 0", ".cfi_restore x29",
    ".cfi_restore x30",
    "ret",
    ".cfi_restore_state",
    ".hidden umcg_attempt_failed", ".globl umcg_attempt_failed",
    "umcg_attempt_failed:",
    "mov x29, sp",
    "mov x0, #1",
    "b 2b",
);

// `umcg_call(number, six arguments)`: a system call that touches neither errno nor anything else in
// thread-local storage, from a section of its own.
function!("umcg_call":
    "mov x8, x0", "mov x0, x1", "mov x1, x2", "mov x2, x3", "mov x3, x4", "mov x4, x5",
    "mov x5, x6",
    "svc #0",
    "ret",
);

/// DWARF's number of the register in which `umcg_boundary` keeps its third argument: x19.
pub(crate) const BOUNDARY_KEEPS: std::ffi::c_int = 19;

// A frame with a personality. The personality finds `report` in a register that the callee
// preserves.
function!("umcg_boundary":
    ".cfi_personality 0x9b, umcg_boundary_personality",
    "stp x29, x30, [sp, #-32]!", ".cfi_def_cfa_offset 32", ".cfi_offset x29, -32",
    ".cfi_offset x30, -24",
    "str x19, [sp, #16]", ".cfi_offset x19, -16",
    "mov x29, sp",
    "mov x19, x2",
    "mov x9, x0",
    "mov x0, x1",
    "blr x9",
    "ldr x19, [sp, #16]", ".cfi_restore x19",
    "ldp x29, x30, [sp], #32", ".cfi_def_cfa_offset 0", ".cfi_restore x29",
    ".cfi_restore x30",
    "ret",
);

// The frame pointer leads back, for the unwinder too.
function!("umcg_call_on":
    "stp x29, x30, [sp, #-16]!", ".cfi_def_cfa_offset 16", ".cfi_offset x29, -16",
    ".cfi_offset x30, -8",
    "mov x29, sp", ".cfi_def_cfa_register x29",
    "mov sp, x0",
    "mov x0, x2",
    "blr x1",
    "mov sp, x29", ".cfi_def_cfa_register sp",
    "ldp x29, x30, [sp], #16", ".cfi_def_cfa_offset 0", ".cfi_restore x29",
    ".cfi_restore x30",
    "ret",
);

access!("umcg_store": "str x1, [x0]", "mov x0, #0", "mov x0, #1");
access!("umcg_store_word": "str w1, [x0]", "mov x0, #0", "mov x0, #1");
access!("umcg_load": "ldr w0, [x0]", "", "mov x0, #-1");

/// `svc #0`.
pub(crate) const CALL: u32 = 0xd400_0001;
pub(crate) const CALL_MASK: u32 = u32::MAX;
pub(crate) const CALL_LENGTH: usize = 4;

/// The result of the system call that the handler's frame interrupted, if there was one.
pub(crate) fn result(context: &ucontext_t) -> isize {
    context.uc_mcontext.regs[0] as isize
}

pub(crate) fn program_counter(context: &ucontext_t) -> usize {
    context.uc_mcontext.pc as usize
}

pub(crate) fn set_program_counter(context: &mut ucontext_t, to: usize) {
    context.uc_mcontext.pc = to as u64;
}

pub(crate) fn stack_pointer(context: &ucontext_t) -> usize {
    context.uc_mcontext.sp as usize
}

pub(crate) fn set_stack_pointer(context: &mut ucontext_t, to: usize) {
    context.uc_mcontext.sp = to as u64;
}

/// Whether the frame has registers that the kernel gives back only on a thread that has used such
/// before. It allocates them on any.
pub(crate) fn has_registers_of_thread(_: &ucontext_t) -> bool {
    false
}

/// The return address of a function that has no frame yet, if a register holds it.
pub(crate) fn return_register(context: &ucontext_t) -> Option<usize> {
    Some(context.uc_mcontext.regs[30] as usize)
}

/// Whether a trap is to follow the next instruction: a program cannot ask for that here.
pub(crate) fn set_single_step(_: &mut ucontext_t, _: bool) -> bool {
    false
}

/// Makes the frame restore the calling thread's pointer, if a frame restores any.
pub(crate) fn adopt_thread_pointer(_: &mut ucontext_t) {}

/// Whether there is the code that returns from a signal handler, and the unwinder of this
/// architecture goes by that code and not by the frame.
///
/// # Safety
/// There is code.
pub(crate) unsafe fn is_misread_signal_return(pc: usize) -> bool {
    // `mov x8, #139` (rt_sigreturn), `svc #0`.
    let code = std::ptr::with_exposed_provenance::<[u32; 2]>(pc);
    // SAFETY: passed on.
    pc % align_of::<u32>() == 0 && unsafe { code.read_volatile() } == [0xd280_1168, 0xd400_0001]
}

/// A return address without the bits that pointer authentication adds.
pub(crate) fn stripped(word: usize) -> usize {
    word & ((1 << 48) - 1)
}

/// The word before an abort handler of restartable sequences, as glibc tells it to the kernel.
pub(crate) const RSEQ_SIGNATURE: u32 = 0xd428_bc00;

/// The addresses of `__rseq_size` and `__rseq_offset` as the linker knows them; null for none.
pub(crate) fn rseq_symbols() -> [*const std::ffi::c_void; 2] {
    let (bytes, offset);
    // SAFETY: reads two words of the table of global addresses.
    unsafe {
        asm!(
            ".weak __rseq_size", ".weak __rseq_offset",
            "adrp {bytes}, :got:__rseq_size",
            "ldr {bytes}, [{bytes}, :got_lo12:__rseq_size]",
            "adrp {offset}, :got:__rseq_offset",
            "ldr {offset}, [{offset}, :got_lo12:__rseq_offset]",
            bytes = out(reg) bytes, offset = out(reg) offset,
            options(pure, readonly, nostack, preserves_flags)
        );
    }
    [bytes, offset]
}

/// The layout of the thread control block by the ABI.
pub(crate) mod control_block {
    pub(crate) const BELOW: bool = true;
    pub(crate) const SELVES: [usize; 0] = [];
    pub(crate) const MULTIPLE_THREADS: usize = 0;
    pub(crate) const SHARED: [usize; 0] = [];
    pub(crate) const FEATURES: Option<usize> = None;
}

#[cfg(test)]
function!("umcg_test_read": "ldr x0, [x0]", "ret");
