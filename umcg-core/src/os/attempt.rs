//! Calls of functions that may read unmapped memory: a fault ends the call, and not the process.
//!
//! This is for foreign code that follows data it reads, such as the unwinder with tables of others.
//! [`call`] saves the registers that a function has to preserve, and stores the place in a word of
//! the storage. The handler of faults lets the flow continue there ([`give_up`]), as if the
//! function had returned.

use super::signal::Frame;
use crate::os::assembly::function;
use std::ffi::c_void;
use umcg_context::{annotate, local};

// `umcg_attempt(f, argument, place)` stores the stack pointer in `place`, calls `f(argument)`, and
// returns 0. With that stack pointer `umcg_attempt_failed` makes it return 1.
cfg_if::cfg_if! {
    if #[cfg(target_arch = "x86_64")] {
        function!("umcg_attempt":
            "push rbp", ".cfi_def_cfa_offset 16", ".cfi_offset rbp, -16",
            "mov rbp, rsp", ".cfi_def_cfa_register rbp",
            "push rbx", "push r12", "push r13", "push r14", "push r15",
            "sub rsp, 8",
            "mov [rdx], rsp",
            "mov rax, rdi",
            "mov rdi, rsi",
            "call rax",
            "xor eax, eax",
            "2:",
            "add rsp, 8",
            "pop r15", "pop r14", "pop r13", "pop r12", "pop rbx",
            ".cfi_remember_state",
            "pop rbp", ".cfi_def_cfa rsp, 8",
            "ret",
            ".cfi_restore_state",
            ".hidden umcg_attempt_failed", ".globl umcg_attempt_failed",
            "umcg_attempt_failed:",
            "lea rbp, [rsp + 48]",
            "mov eax, 1",
            "jmp 2b",
        );
    } else if #[cfg(target_arch = "aarch64")] {
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
    } else if #[cfg(target_arch = "riscv64")] {
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
    }
}

unsafe extern "C" {
    fn umcg_attempt(
        f: extern "C" fn(*mut c_void),
        argument: *mut c_void,
        place: *mut usize,
    ) -> usize;
    fn umcg_attempt_failed();
}

/// Calls `f`. Returns false if it read unmapped memory, and was aborted at that point. The handler
/// of [`fault`](crate::fault) must be installed, or such a fault still ends the process.
///
/// # Safety
/// `f` may be aborted at any of its accesses, so it holds no lock and owns nothing there. It does
/// not switch, and does not unwind. No handler of the program's runs meanwhile: its faults would be
/// taken for faults of `f`.
pub(crate) unsafe fn call(mut f: &mut dyn FnMut()) -> bool {
    extern "C" fn begin(f: *mut c_void) {
        // SAFETY: passed below.
        let f = unsafe { &mut *f.cast::<&mut dyn FnMut()>() };
        f();
    }
    let mut place = 0usize;
    let before = local::attempt();
    local::set_attempt((&raw mut place).cast());
    // SAFETY: `begin` takes this argument. By the contract it need not return.
    let failed = unsafe { umcg_attempt(begin, (&raw mut f).cast(), &raw mut place) };
    local::set_attempt(before);
    failed == 0
}

/// Makes the flow that has faulted continue behind the call that it is in. Returns false if it is
/// in no such call. Async-signal-safe.
pub(crate) fn give_up(frame: &mut Frame) -> bool {
    /// No attempt needs that much stack.
    const MOST: usize = 64 << 10;
    // SAFETY: null, or the place of a call that has not returned.
    let Some(saved) = (unsafe { local::attempt().cast::<usize>().as_ref() }) else {
        return false;
    };
    let is_within = saved.wrapping_sub(frame.stack_pointer()) < MOST;
    if is_within {
        annotate::frames_given_up(frame.stack_pointer(), *saved);
        frame.set_stack_pointer(*saved);
        frame.set_program_counter(umcg_attempt_failed as *const () as usize);
    }
    is_within
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    // In assembly, so that no sanitizer checks the address before.
    cfg_if::cfg_if! {
        if #[cfg(target_arch = "x86_64")] {
            function!("umcg_test_read": "mov rax, [rdi]", "ret");
        } else if #[cfg(target_arch = "aarch64")] {
            function!("umcg_test_read": "ldr x0, [x0]", "ret");
        } else if #[cfg(target_arch = "riscv64")] {
            function!("umcg_test_read": "ld a0, 0(a0)", "ret");
        }
    }
    unsafe extern "C" {
        fn umcg_test_read(at: usize) -> u64;
    }

    fn read(at: usize) -> impl FnMut() {
        move || {
            // SAFETY: the test tries this very read.
            black_box(unsafe { umcg_test_read(at) });
        }
    }

    #[test]
    fn what_faults_is_given_up_and_the_caller_goes_on() {
        crate::os::fault::install();
        let word = 7u64;
        let there = (&raw const word).expose_provenance();
        // The caller's registers are preserved.
        let mut sum = [
            black_box(1usize),
            black_box(2),
            black_box(3),
            black_box(4),
            black_box(5),
            black_box(6),
        ];
        let mut real = [black_box(0.5f64), black_box(1.5)];
        for round in 0..100 {
            // SAFETY: the calls own nothing.
            assert!(unsafe { call(&mut read(there)) });
            for nowhere in [0, 8, 1 << 62] {
                // SAFETY: as above.
                assert!(!unsafe { call(&mut read(nowhere)) });
            }
            sum.iter_mut().for_each(|sum| *sum += round);
            real.iter_mut().for_each(|real| *real += 1.0);
        }
        assert_eq!(
            (sum, real),
            ([4951, 4952, 4953, 4954, 4955, 4956], [100.5, 101.5])
        );
        assert!(local::attempt().is_null());
    }

    #[test]
    fn an_attempt_within_another_ends_alone() {
        crate::os::fault::install();
        let mut inner = [false; 2];
        let mut outer = || {
            // SAFETY: the calls own nothing.
            inner = [unsafe { call(&mut read(0)) }, unsafe { call(&mut || ()) }];
        };
        // SAFETY: as above.
        assert!(unsafe { call(&mut outer) });
        assert_eq!(inner, [false, true]);
    }
}
