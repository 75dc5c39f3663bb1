//! The switch on riscv64 (lp64d).
//!
//! A suspended context lives in its [`Context`], not on its stack:
//!
//! ```text
//!   Context            + 0   pc   where to continue
//!                      + 8   sp   its stack pointer, 16-aligned as it always is here
//!                      +16   fp   s0, the frame pointer, which the compiler does not let asm name
//!                      +24   bp   s1, LLVM's base pointer, likewise
//! ```
//!
//! All other registers are declared clobbered, ra and fs0 to fs11 among them, so the compiler saves
//! only those that hold something. gp is the same in the whole process; only `set_thread_pointer`
//! moves tp. Nothing is pushed, so the unwind tables of the function around the switch hold inside
//! it too. They are wrong for one instruction only, between the load of `sp` and the jump.
//!
//! The jump goes by t2. A jump by ra or t0 would pop the return-stack predictor, although no call
//! matches it. Of the others, t2 is the one with which control-flow integrity (Zicfilp) allows a
//! jump to a place without a landing pad.

use crate::Context;
use core::arch::{asm, global_asm};

// The first frame of every context. An undefined return address is how the unwind tables say
// "nothing above". `prepare` put the entry function in s1 and its argument in s0. If a function was
// injected before the first instruction ran, an unwinder looks one byte before the return address:
// at the `nop`.
global_asm!(
    ".pushsection .text.umcg_context_first_frame,\"ax\",@progbits",
    ".p2align 4",
    ".cfi_startproc",
    ".cfi_undefined ra",
    "nop",
    ".hidden umcg_context_first_frame",
    ".globl umcg_context_first_frame",
    ".type umcg_context_first_frame,@function",
    "umcg_context_first_frame:",
    "mv a0, s0",
    "li s0, 0", // ends the frame-pointer chain
    "jalr s1",
    "unimp", // an `EntryFn` does not return
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
            "lla t0, 2f",
            "sd t0, 0(a0)",
            "sd sp, 8(a0)",
            "sd s0, 16(a0)",
            "sd s1, 24(a0)",
            "ld t2, 0(a1)",
            "ld s0, 16(a1)",
            "ld s1, 24(a1)",
            "ld sp, 8(a1)",
            "jr t2",
            "2:",
            inout("a0") from => _, inout("a1") to => _,
            out("t0") _, out("t2") _,
            out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _,
            out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            out("fs0") _, out("fs1") _, out("fs2") _, out("fs3") _, out("fs4") _, out("fs5") _,
            out("fs6") _, out("fs7") _, out("fs8") _, out("fs9") _, out("fs10") _, out("fs11") _,
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
    // s1 keeps `to` meanwhile.
    unsafe {
        asm!(
            "lla t0, 2f",
            "sd t0, 0(a0)",
            "sd sp, 8(a0)",
            "sd s0, 16(a0)",
            "sd s1, 24(a0)",
            "ld s0, 16(a1)",
            "ld sp, 8(a1)",
            "mv s1, a1",
            "mv a0, a3",
            "jalr a2",
            "ld t2, 0(s1)",
            "ld s1, 24(s1)",
            "jr t2",
            "2:",
            inout("a0") from => _, inout("a1") to => _, inout("a2") f => _, inout("a3") arg => _,
            out("t0") _, out("t2") _,
            out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _,
            out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            out("fs0") _, out("fs1") _, out("fs2") _, out("fs3") _, out("fs4") _, out("fs5") _,
            out("fs6") _, out("fs7") _, out("fs8") _, out("fs9") _, out("fs10") _, out("fs11") _,
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
    // suspended: ra, which every suspended flow counts as clobbered, holds that place as the return
    // address.
    unsafe {
        asm!(
            "lla t0, 2f",
            "sd t0, 0(a0)",
            "sd sp, 8(a0)",
            "sd s0, 16(a0)",
            "sd s1, 24(a0)",
            "ld ra, 0(a1)",
            "ld s0, 16(a1)",
            "ld s1, 24(a1)",
            "ld sp, 8(a1)",
            "mv a0, a3",
            "jr a2",
            "2:",
            inout("a0") from => _, inout("a1") to => _, inout("a2") f => _, inout("a3") arg => _,
            out("t0") _,
            out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _,
            out("s7") _, out("s8") _, out("s9") _, out("s10") _, out("s11") _,
            out("fs0") _, out("fs1") _, out("fs2") _, out("fs3") _, out("fs4") _, out("fs5") _,
            out("fs6") _, out("fs7") _, out("fs8") _, out("fs9") _, out("fs10") _, out("fs11") _,
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
            "ld t2, 0(a1)",
            "ld s0, 16(a1)",
            "ld s1, 24(a1)",
            "ld sp, 8(a1)",
            "jr t2",
            in("a1") to,
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
            "la.tls.ie {v}, umcg_local",
            "add {v}, {v}, tp",
            "ld {v}, {off}({v})",
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
            "la.tls.ie {t}, umcg_local",
            "add {t}, {t}, tp",
            "sd {v}, {off}({t})",
            t = out(reg) _, v = in(reg) value, off = const I * 8,
            options(nostack, preserves_flags),
        );
    }
}

/// See [`crate::local::is_access`]: the instruction before adds `tp`.
pub(crate) fn is_local_access(pc: usize, load: impl Fn(usize) -> Option<u32>) -> bool {
    /// `add x0, x0, tp` without its other registers.
    const ADD: u32 = 0x0040_0033;
    const ADD_MASK: u32 = 0xfff0_707f;
    /// `c.add x0, tp` likewise.
    const SHORT: u32 = 0x9012;
    const SHORT_MASK: u32 = 0xf07f;
    load(pc.wrapping_sub(4))
        .is_some_and(|code| code & ADD_MASK == ADD || code >> 16 & SHORT_MASK == SHORT)
}

/// The offset from the thread pointer to the local words.
#[inline(always)]
pub(crate) fn local_offset() -> isize {
    let offset;
    // SAFETY: reads a constant that the linker wrote.
    unsafe {
        asm!(
            "la.tls.ie {}, umcg_local",
            out(reg) offset,
            options(nostack, preserves_flags, readonly),
        )
    };
    offset
}

/// Whether user code may read and write the thread pointer itself: always, `tp` is a general
/// register.
pub(crate) fn thread_pointer_writable() -> bool {
    true
}

/// The thread pointer.
#[inline(always)]
pub(crate) fn thread_pointer() -> usize {
    let tp;
    // SAFETY: reads a register. Not `pure`: each switch may change the value.
    unsafe { asm!("mv {}, tp", out(reg) tp, options(nostack, preserves_flags, readonly)) };
    tp
}

/// # Safety
/// As [`crate::set_thread_pointer`].
#[inline(always)]
pub(crate) unsafe fn set_thread_pointer(tp: usize) {
    // SAFETY: the caller vouches for `tp`.
    unsafe { asm!("mv tp, {}", in(reg) tp, options(nostack, preserves_flags)) };
}
