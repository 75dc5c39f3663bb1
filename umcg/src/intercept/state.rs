//! The registers that a system call preserves and a switch does not.

use std::mem::MaybeUninit;
use umcg_intercept::{clear_extended, restore_extended, save_extended};

/// The most bytes that [`umcg_intercept::extended_size`] tells.
const MOST: usize = 2048;

#[repr(C, align(64))]
struct Area([u8; MOST]);

/// Calls `f`, which may switch, and preserves the registers that the entry stub has not saved:
/// control words, and the upper parts of vector registers.
///
/// Not inlined: a caller would have the area on its stack all the time, and the hook calls itself
/// while it is inside. A thread may have a stack of 16 KiB.
#[inline(never)]
pub(super) fn preserved<R>(f: impl FnOnce() -> R) -> R {
    let mut area = MaybeUninit::<Area>::uninit();
    let at = area.as_mut_ptr().cast::<u8>();
    // SAFETY: an area of the right size and alignment.
    unsafe { save_extended(at) };
    let result = f();
    // SAFETY: just saved there.
    unsafe { restore_extended(at) };
    result
}

/// The same among flows that switch by a function call, and leave these registers to each other as
/// they are.
pub(super) fn preserved_among_calls<R>(f: impl FnOnce() -> R) -> R {
    preserved(|| {
        let result = f();
        // SAFETY: nothing of this function's needs them.
        unsafe { clear_extended() };
        result
    })
}

/// The caller's flow ends: the next one here finds these registers as [`preserved`] leaves them.
#[inline(never)]
pub(super) fn give_up() {
    let mut area = MaybeUninit::<Area>::uninit();
    // SAFETY: an area of the right size and alignment.
    unsafe { save_extended(area.as_mut_ptr().cast()) };
}

/// Whether the area is large enough here, and all registers are known.
pub(super) fn is_enough() -> bool {
    umcg_intercept::extended_size() <= MOST
}
