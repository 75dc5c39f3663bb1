//! Calls a function on another stack, from which its caller can be unwound. For code that does not
//! fit on a signal stack.

use crate::os::assembly::function;
use std::ffi::c_void;

// The frame pointer leads back, for the unwinder too.
cfg_if::cfg_if! {
    if #[cfg(target_arch = "x86_64")] {
        function!("umcg_call_on":
            "push rbp", ".cfi_def_cfa_offset 16", ".cfi_offset rbp, -16",
            "mov rbp, rsp", ".cfi_def_cfa_register rbp",
            "mov rsp, rdi",
            "mov rdi, rdx",
            "call rsi",
            "mov rsp, rbp",
            "pop rbp", ".cfi_def_cfa rsp, 8",
            "ret",
        );
    } else if #[cfg(target_arch = "aarch64")] {
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
    } else if #[cfg(target_arch = "riscv64")] {
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
    }
}

unsafe extern "C" {
    fn umcg_call_on(top: *mut u8, f: extern "C" fn(*mut c_void), argument: *mut c_void);
}

/// Calls `f(argument)` on the stack below `top`, which is aligned to 16 bytes.
///
/// # Safety
/// Nothing else uses that stack. `f` does not unwind, and does not switch.
pub(crate) unsafe fn call(top: *mut u8, f: extern "C" fn(*mut c_void), argument: *mut c_void) {
    // SAFETY: passed on.
    unsafe { umcg_call_on(top, f, argument) };
}
