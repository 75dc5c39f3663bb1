//! The switch on aarch64 (AAPCS64).
//!
//! A suspended context lives in its [`Context`], not on its stack:
//!
//! ```text
//!   Context            + 0   pc   where to continue
//!                      + 8   sp   its stack pointer, 16-aligned as it always is here
//!                      +16   fp   x29, the frame pointer, which the compiler does not let asm name
//!                      +24   bp   x19, LLVM's base pointer, likewise
//! ```
//!
//! All other registers are declared clobbered, x30 and the whole of v8 to v15 among them, so the
//! compiler saves only those that hold something. x18 belongs to the platform and is never touched.
//! Nothing is pushed, so the unwind tables of the function around the switch hold inside it too.
//! They are wrong for one instruction only, between the write of `sp` and the branch.
//!
//! The switch uses `br x16`, not `ret`: there is no call that a `ret` would match, so the
//! return-stack predictor stays in step with the calls around. A branch by x16 or x17 may land on
//! `bti c` as well as on `bti j`, so contexts run in pages that are guarded by BTI. The landing
//! pads are hints: they do nothing on a CPU without BTI.
//!
//! Pointer authentication needs no code here: return addresses are signed with the `sp` of their
//! frame, and a context never moves to another stack. `pc` is not signed: it is no less safe than
//! the `sp` beside it.

use crate::Context;
use core::arch::{asm, global_asm};

// The first frame of every context. An undefined return address is how the unwind tables say
// "nothing above". `prepare` put the entry function in x19 and its argument in x29. If a function
// was injected before the first instruction ran, an unwinder looks one byte before the return
// address: at the `nop`.
global_asm!(
    ".pushsection .text.umcg_context_first_frame,\"ax\",%progbits",
    ".p2align 4",
    ".cfi_startproc",
    ".cfi_undefined x30",
    "nop",
    ".hidden umcg_context_first_frame",
    ".globl umcg_context_first_frame",
    ".type umcg_context_first_frame,%function",
    "umcg_context_first_frame:",
    "hint #38", // bti jc
    "mov x0, x29",
    "mov x29, xzr", // ends the frame-pointer chain
    "blr x19",
    "brk #1", // an `EntryFn` does not return
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
            "adr x9, 2f",
            "mov x10, sp",
            "stp x9, x10, [x0]",
            "stp x29, x19, [x0, #16]",
            "ldp x16, x10, [x1]",
            "ldp x29, x19, [x1, #16]",
            "mov sp, x10",
            "br x16",
            "2:",
            "hint #36", // bti j
            inout("x0") from => _, inout("x1") to => _,
            out("x9") _, out("x10") _, out("x16") _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _,
            out("x24") _, out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
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
    // x19 keeps `to` meanwhile.
    unsafe {
        asm!(
            "adr x9, 2f",
            "mov x10, sp",
            "stp x9, x10, [x0]",
            "stp x29, x19, [x0, #16]",
            "ldp x10, x29, [x1, #8]",
            "mov sp, x10",
            "mov x19, x1",
            "mov x0, x3",
            "blr x2",
            "ldr x16, [x19]",
            "ldr x19, [x19, #24]",
            "br x16",
            "2:",
            "hint #36", // bti j
            inout("x0") from => _, inout("x1") to => _, inout("x2") f => _, inout("x3") arg => _,
            out("x9") _, out("x10") _, out("x16") _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _,
            out("x24") _, out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
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
    // suspended: x30, which every suspended flow counts as clobbered, holds that place as the
    // return address.
    unsafe {
        asm!(
            "adr x9, 2f",
            "mov x10, sp",
            "stp x9, x10, [x0]",
            "stp x29, x19, [x0, #16]",
            "ldp x30, x10, [x1]",
            "ldp x29, x19, [x1, #16]",
            "mov sp, x10",
            "mov x0, x3",
            "mov x16, x2", // a function's own landing pad admits a branch by x16, but not by x2
            "br x16",
            "2:",
            "hint #36", // bti j
            inout("x0") from => _, inout("x1") to => _, inout("x2") f => _, inout("x3") arg => _,
            out("x9") _, out("x10") _, out("x16") _,
            out("x20") _, out("x21") _, out("x22") _, out("x23") _,
            out("x24") _, out("x25") _, out("x26") _, out("x27") _, out("x28") _,
            clobber_abi("C"),
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
            "ldp x16, x10, [x1]",
            "ldp x29, x19, [x1, #16]",
            "mov sp, x10",
            "br x16",
            in("x1") to,
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
            "adrp {t}, :gottprel:umcg_local",
            "ldr {t}, [{t}, :gottprel_lo12:umcg_local]",
            "mrs {v}, tpidr_el0",
            "add {v}, {v}, {t}",
            "ldr {v}, [{v}, #{off}]",
            t = out(reg) _, v = out(reg) value, off = const I * 8,
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
            "adrp {t}, :gottprel:umcg_local",
            "ldr {t}, [{t}, :gottprel_lo12:umcg_local]",
            "mrs {p}, tpidr_el0",
            "add {p}, {p}, {t}",
            "str {v}, [{p}, #{off}]",
            t = out(reg) _, p = out(reg) _, v = in(reg) value, off = const I * 8,
            options(nostack, preserves_flags),
        );
    }
}

/// See [`crate::local::is_access`]: `mrs` is one of the two instructions before.
pub(crate) fn is_local_access(pc: usize, load: impl Fn(usize) -> Option<u32>) -> bool {
    /// `mrs x0, tpidr_el0`; the register is in the low bits.
    const MRS: u32 = 0xd53b_d040;
    [4, 8]
        .into_iter()
        .any(|back| load(pc.wrapping_sub(back)).is_some_and(|code| code & !31 == MRS))
}

/// The offset from the thread pointer to the local words.
#[inline(always)]
pub(crate) fn local_offset() -> isize {
    let offset;
    // SAFETY: reads a constant that the linker wrote.
    unsafe {
        asm!(
            "adrp {t}, :gottprel:umcg_local",
            "ldr {t}, [{t}, :gottprel_lo12:umcg_local]",
            t = out(reg) offset,
            options(nostack, preserves_flags, readonly),
        );
    }
    offset
}

/// Whether user code may read and write the thread pointer itself: always, `tpidr_el0` is a user
/// register.
pub(crate) fn thread_pointer_writable() -> bool {
    true
}

/// The thread pointer.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let tp;
    // SAFETY: reads a register. Not `pure`: each switch may change the value.
    unsafe { asm!("mrs {}, tpidr_el0", out(reg) tp, options(nostack, preserves_flags, readonly)) };
    tp
}

/// # Safety
/// As [`crate::set_thread_pointer`].
#[inline(always)]
pub(crate) unsafe fn set_thread_pointer(tp: usize) {
    // SAFETY: the caller vouches for `tp`.
    unsafe { asm!("msr tpidr_el0, {}", in(reg) tp, options(nostack, preserves_flags)) };
}
