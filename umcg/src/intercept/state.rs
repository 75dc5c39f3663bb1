//! The registers that a system call preserves and a switch does not.

use std::arch::asm;
use std::mem::MaybeUninit;

#[repr(C, align(64))]
struct Area([u8; 4096]);

/// Calls `f`, which may switch, and preserves the registers.
#[inline]
pub(super) fn preserved<R>(f: impl FnOnce() -> R) -> R {
    let mut area = MaybeUninit::<Area>::uninit();
    // SAFETY: the header is zeroed as the instruction asks.
    unsafe { area.as_mut_ptr().cast::<u8>().add(512).write_bytes(0, 64) };
    // SAFETY: an area of the right size and alignment.
    unsafe { asm!("xsave64 [{}]", in(reg) area.as_mut_ptr(), in("eax") -1, in("edx") -1) };
    let result = f();
    // SAFETY: just saved there.
    unsafe { asm!("xrstor64 [{}]", in(reg) area.as_mut_ptr(), in("eax") -1, in("edx") -1) };
    result
}
