//! The switch on x86-64 (System V ABI).
//!
//! A suspended context lives in its [`Context`], not on its stack:
//!
//! ```text
//!   Context            + 0   pc   where to continue
//!                      + 8   sp   its stack pointer, 16-aligned as before a call
//!                      +16   fp   rbp, which the compiler does not let asm name
//!                      +24   bp   rbx, LLVM's base pointer, likewise
//! ```
//!
//! All other registers are declared clobbered, so the compiler saves only those that hold
//! something: a switch in a plain loop saves none. Nothing is pushed, so the unwind tables of the
//! function around the switch hold inside it too. They are wrong for an instruction or two only,
//! between the loads of `rsp` and the jump.
//!
//! The switch jumps and does not use `ret`: the asm is inlined, so there is no call that a `ret`
//! would match. The return-stack predictor therefore stays in step with the calls around. A `call`
//! that `switch_with` makes returns by its own `ret`.

use crate::Context;
use core::arch::{asm, global_asm};

// The first frame of every context. An undefined return address is how the unwind tables say
// "nothing above". `prepare` put the entry function in rbx and its argument in rbp.
global_asm!(
    ".pushsection .text.umcg_context_first_frame,\"ax\",@progbits",
    ".p2align 4",
    ".hidden umcg_context_first_frame",
    ".globl umcg_context_first_frame",
    ".type umcg_context_first_frame,@function",
    "umcg_context_first_frame:",
    ".cfi_startproc",
    ".cfi_undefined rip",
    "mov rdi, rbp",
    "xor ebp, ebp", // ends the frame-pointer chain
    // A call without the return-stack predictor. An `EntryFn` does not return, and each such call
    // would put the returns of the next flow out of step.
    "lea rax, [rip + 1f]",
    "push rax",
    "jmp rbx",
    "1:",
    "ud2",
    ".cfi_endproc",
    ".size umcg_context_first_frame, . - umcg_context_first_frame",
    ".popsection",
);

/// # Safety
/// As [`crate::switch`].
#[inline(always)]
pub(crate) unsafe fn switch(from: *mut Context, to: *const Context) {
    // SAFETY: the caller vouches for both contexts; every register that the other side may change
    // is saved or clobbered.
    unsafe {
        asm!(
            "lea rax, [rip + 2f]",
            "mov [rdi], rax",
            "mov [rdi + 8], rsp",
            "mov [rdi + 16], rbp",
            "mov [rdi + 24], rbx",
            "mov rsp, [rsi + 8]",
            "mov rbp, [rsi + 16]",
            "mov rbx, [rsi + 24]",
            "jmp [rsi]",
            "2:",
            inout("rdi") from => _, inout("rsi") to => _, out("rax") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// # Safety
/// As [`crate::switch_with`].
#[inline(always)]
pub(crate) unsafe fn switch_with(
    from: *mut Context,
    to: *const Context,
    f: unsafe extern "C" fn(*mut ()),
    arg: *mut (),
) {
    // SAFETY: as `switch`; `f` runs on the stack of `to`, below everything that is live there, and
    // rbx keeps `to` meanwhile.
    unsafe {
        asm!(
            "lea rax, [rip + 2f]",
            "mov [rdi], rax",
            "mov [rdi + 8], rsp",
            "mov [rdi + 16], rbp",
            "mov [rdi + 24], rbx",
            "mov rsp, [rsi + 8]",
            "mov rbp, [rsi + 16]",
            "mov rbx, rsi",
            "mov rdi, rcx",
            "call rdx",
            "mov rax, [rbx]",
            "mov rbx, [rbx + 24]",
            "jmp rax",
            "2:",
            inout("rdi") from => _, inout("rsi") to => _, inout("rdx") f => _,
            inout("rcx") arg => _, out("rax") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// # Safety
/// As [`crate::inject`].
#[inline(always)]
pub(crate) unsafe fn inject(
    from: *mut Context,
    to: *const Context,
    f: unsafe extern "C" fn(*mut ()),
    arg: *mut (),
) {
    // SAFETY: as `switch`; `f` is entered as if `to` had called it at the place where it was
    // suspended.
    unsafe {
        asm!(
            "lea rax, [rip + 2f]",
            "mov [rdi], rax",
            "mov [rdi + 8], rsp",
            "mov [rdi + 16], rbp",
            "mov [rdi + 24], rbx",
            "mov rsp, [rsi + 8]",
            "mov rbp, [rsi + 16]",
            "mov rbx, [rsi + 24]",
            "push qword ptr [rsi]",
            "mov rdi, rcx",
            "jmp rdx",
            "2:",
            inout("rdi") from => _, inout("rsi") to => _, inout("rdx") f => _,
            inout("rcx") arg => _, out("rax") _,
            out("r12") _, out("r13") _, out("r14") _, out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

/// # Safety
/// As [`crate::resume`].
#[inline(always)]
pub(crate) unsafe fn resume(to: *const Context) -> ! {
    // SAFETY: the caller vouches for `to`, and the old stack is not used again.
    unsafe {
        asm!(
            "mov rsp, [rsi + 8]",
            "mov rbp, [rsi + 16]",
            "mov rbx, [rsi + 24]",
            "jmp [rsi]",
            in("rsi") to,
            options(noreturn),
        );
    }
}

/// Reads word `I` of this thread's local words.
#[inline(always)]
pub(crate) fn local_get<const I: usize>() -> *mut () {
    let value;
    // SAFETY: reads an aligned word of this thread's TLS block. Not `pure`: the compiler must read
    // it anew after every switch.
    unsafe {
        asm!(
            "mov {v}, qword ptr [rip + umcg_local@gottpoff]",
            "mov {v}, qword ptr fs:[{v} + {off}]",
            v = out(reg) value, off = const I * 8,
            options(nostack, preserves_flags, readonly),
        );
    }
    value
}

/// Writes word `I` of this thread's local words.
#[inline(always)]
pub(crate) fn local_set<const I: usize>(value: *mut ()) {
    // SAFETY: writes an aligned word of this thread's TLS block that only this module names.
    unsafe {
        asm!(
            "mov {t}, qword ptr [rip + umcg_local@gottpoff]",
            "mov qword ptr fs:[{t} + {off}], {v}",
            t = out(reg) _, v = in(reg) value, off = const I * 8,
            options(nostack, preserves_flags),
        );
    }
}

/// See [`crate::local::is_access`].
pub(crate) fn is_local_access(_pc: usize, _load: impl Fn(usize) -> Option<u32>) -> bool {
    false
}

/// The offset from the thread pointer to the local words.
#[inline(always)]
pub(crate) fn local_offset() -> isize {
    let offset;
    // SAFETY: reads a constant that the linker wrote.
    unsafe {
        asm!(
            "mov {}, qword ptr [rip + umcg_local@gottpoff]",
            out(reg) offset,
            options(nostack, preserves_flags, readonly),
        )
    };
    offset
}

/// Whether user code may read and write the thread pointer itself (FSGSBASE, Linux 5.9).
pub(crate) fn thread_pointer_writable() -> bool {
    const HWCAP2_FSGSBASE: libc::c_ulong = 1 << 1;
    // SAFETY: getauxval reads a vector that the kernel gave the process.
    unsafe { libc::getauxval(libc::AT_HWCAP2) & HWCAP2_FSGSBASE != 0 }
}

/// The thread pointer, which the ABI keeps at its own address.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let tp;
    // SAFETY: the word at fs:0 points to itself on every x86-64 thread (ELF TLS, variant II).
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) tp, options(nostack, preserves_flags, readonly))
    };
    tp
}

/// # Safety
/// As [`crate::set_thread_pointer`].
#[inline(always)]
pub(crate) unsafe fn set_thread_pointer(tp: usize) {
    // SAFETY: the caller checked `thread_pointer_writable` and vouches for `tp`.
    unsafe { asm!("wrfsbase {}", in(reg) tp, options(nostack, preserves_flags)) };
}
