//! riscv64 (LP64D).

use libc::ucontext_t;

// `umcg_attempt(f, argument, place)` stores the stack pointer in `place`, calls `f(argument)`, and
// returns 0. With that stack pointer `umcg_attempt_failed` makes it return 1.
function!("umcg_attempt":
    "addi sp, sp, -208", ".cfi_def_cfa_offset 208",
    "sd ra, 200(sp)", ".cfi_offset ra, -8",
    "sd s0, 192(sp)", ".cfi_offset s0, -16",
    "addi s0, sp, 208", ".cfi_def_cfa s0, 0",
    "sd s1, 184(sp)", "sd s2, 176(sp)", "sd s3, 168(sp)", "sd s4, 160(sp)",
    "sd s5, 152(sp)", "sd s6, 144(sp)",
    "sd s7, 136(sp)", "sd s8, 128(sp)", "sd s9, 120(sp)", "sd s10, 112(sp)",
    "sd s11, 104(sp)",
    "fsd fs0, 96(sp)", "fsd fs1, 88(sp)", "fsd fs2, 80(sp)", "fsd fs3, 72(sp)",
    "fsd fs4, 64(sp)", "fsd fs5, 56(sp)",
    "fsd fs6, 48(sp)", "fsd fs7, 40(sp)", "fsd fs8, 32(sp)", "fsd fs9, 24(sp)",
    "fsd fs10, 16(sp)", "fsd fs11, 8(sp)",
    "sd sp, 0(a2)",
    "mv t0, a0",
    "mv a0, a1",
    "jalr t0",
    "li a0, 0",
    "2:",
    "fld fs11, 8(sp)", "fld fs10, 16(sp)", "fld fs9, 24(sp)", "fld fs8, 32(sp)",
    "fld fs7, 40(sp)", "fld fs6, 48(sp)",
    "fld fs5, 56(sp)", "fld fs4, 64(sp)", "fld fs3, 72(sp)", "fld fs2, 80(sp)",
    "fld fs1, 88(sp)", "fld fs0, 96(sp)",
    "ld s11, 104(sp)", "ld s10, 112(sp)", "ld s9, 120(sp)", "ld s8, 128(sp)",
    "ld s7, 136(sp)",
    "ld s6, 144(sp)", "ld s5, 152(sp)", "ld s4, 160(sp)", "ld s3, 168(sp)",
    "ld s2, 176(sp)", "ld s1, 184(sp)",
    ".cfi_remember_state", ".cfi_def_cfa sp, 208",
    "ld s0, 192(sp)", ".cfi_restore s0",
    "ld ra, 200(sp)", ".cfi_restore ra",
    "addi sp, sp, 208", ".cfi_def_cfa_offset 0",
    "ret",
    ".cfi_restore_state",
    ".hidden umcg_attempt_failed", ".globl umcg_attempt_failed",
    "umcg_attempt_failed:",
    "addi s0, sp, 208",
    "li a0, 1",
    "j 2b",
);

// `umcg_call(number, six arguments)`: a system call that touches neither errno nor anything else in
// thread-local storage, from a section of its own.
function!("umcg_call":
    "mv t0, a0", "mv a0, a1", "mv a1, a2", "mv a2, a3", "mv a3, a4", "mv a4, a5", "mv a5, a6",
    "mv a7, t0",
    "ecall",
    "ret",
);

/// DWARF's number of the register in which `umcg_boundary` keeps its third argument: s1.
pub(crate) const BOUNDARY_KEEPS: std::ffi::c_int = 9;

// A frame with a personality. The personality finds `report` in a register that the callee
// preserves.
function!("umcg_boundary":
    ".cfi_personality 0x9b, umcg_boundary_personality",
    "addi sp, sp, -32", ".cfi_def_cfa_offset 32",
    "sd ra, 24(sp)", ".cfi_offset ra, -8",
    "sd s0, 16(sp)", ".cfi_offset s0, -16",
    "sd s1, 8(sp)", ".cfi_offset s1, -24",
    "addi s0, sp, 32",
    "mv s1, a2",
    "mv a5, a0",
    "mv a0, a1",
    "jalr a5",
    "ld ra, 24(sp)", ".cfi_restore ra",
    "ld s0, 16(sp)", ".cfi_restore s0",
    "ld s1, 8(sp)", ".cfi_restore s1",
    "addi sp, sp, 32", ".cfi_def_cfa_offset 0",
    "ret",
);

// The frame pointer leads back, for the unwinder too.
function!("umcg_call_on":
    "addi sp, sp, -16", ".cfi_def_cfa_offset 16",
    "sd ra, 8(sp)", ".cfi_offset ra, -8",
    "sd s0, 0(sp)", ".cfi_offset s0, -16",
    "addi s0, sp, 16", ".cfi_def_cfa s0, 0",
    "mv sp, a0",
    "mv a0, a2",
    "jalr a1",
    "addi sp, s0, -16", ".cfi_def_cfa sp, 16",
    "ld ra, 8(sp)", ".cfi_restore ra",
    "ld s0, 0(sp)", ".cfi_restore s0",
    "addi sp, sp, 16", ".cfi_def_cfa_offset 0",
    "ret",
);

access!("umcg_store": "sd a1, 0(a0)", "li a0, 0", "li a0, 1");
access!("umcg_store_word": "sw a1, 0(a0)", "li a0, 0", "li a0, 1");
access!("umcg_load": "lwu a0, 0(a0)", "", "li a0, -1");

/// `ecall`.
pub(crate) const CALL: u32 = 0x73;
pub(crate) const CALL_MASK: u32 = u32::MAX;
pub(crate) const CALL_LENGTH: usize = 4;

/// The result of the system call that the handler's frame interrupted, if there was one.
pub(crate) fn result(context: &ucontext_t) -> isize {
    context.uc_mcontext.__gregs[libc::REG_A0] as isize
}

pub(crate) fn program_counter(context: &ucontext_t) -> usize {
    context.uc_mcontext.__gregs[libc::REG_PC] as usize
}

pub(crate) fn set_program_counter(context: &mut ucontext_t, to: usize) {
    context.uc_mcontext.__gregs[libc::REG_PC] = to as libc::c_ulong;
}

pub(crate) fn stack_pointer(context: &ucontext_t) -> usize {
    context.uc_mcontext.__gregs[libc::REG_SP] as usize
}

pub(crate) fn set_stack_pointer(context: &mut ucontext_t, to: usize) {
    context.uc_mcontext.__gregs[libc::REG_SP] = to as libc::c_ulong;
}

/// Whether the frame has registers that the kernel gives back only on a thread that has used such
/// before. It allocates them on any.
pub(crate) fn has_registers_of_thread(_: &ucontext_t) -> bool {
    false
}

/// The return address of a function that has no frame yet, if a register holds it.
pub(crate) fn return_register(context: &ucontext_t) -> Option<usize> {
    Some(context.uc_mcontext.__gregs[libc::REG_RA] as usize)
}

/// Whether a trap is to follow the next instruction: a program cannot ask for that here.
pub(crate) fn set_single_step(_: &mut ucontext_t, _: bool) -> bool {
    false
}

/// Makes the frame restore the calling thread's pointer, if a frame restores any.
pub(crate) fn adopt_thread_pointer(context: &mut ucontext_t) {
    const TP: usize = 4;
    context.uc_mcontext.__gregs[TP] = umcg_context::thread_pointer() as libc::c_ulong;
}

/// Whether there is the code that returns from a signal handler, and the unwinder of this
/// architecture goes by that code and not by the frame.
///
/// # Safety
/// There is code.
pub(crate) unsafe fn is_misread_signal_return(_: usize) -> bool {
    false
}

/// A return address without the bits that pointer authentication adds.
pub(crate) fn stripped(word: usize) -> usize {
    word
}

/// The word before an abort handler of restartable sequences, as glibc tells it to the kernel.
pub(crate) const RSEQ_SIGNATURE: u32 = 0xf140_1073;

/// The addresses of `__rseq_size` and `__rseq_offset` as the linker knows them; null for none.
pub(crate) fn rseq_symbols() -> [*const std::ffi::c_void; 2] {
    [std::ptr::null(); 2]
}

#[cfg(test)]
function!("umcg_test_read": "ld a0, 0(a0)", "ret");
