//! The registers that a system call preserves and a switch does not.

use std::mem::MaybeUninit;
use umcg_intercept::{clear_x87, restore_extended, save_extended};

/// The most bytes that [`umcg_intercept::extended_size`] tells.
const MOST: usize = 2048;

#[repr(C, align(64))]
struct Area([u8; MOST]);

/// Calls `f`, which may switch, and preserves the registers that the entry stub has not saved:
/// control words, and the upper parts of vector registers if the site needs them, as
/// [`Call::keeps_vectors`](umcg_intercept::Call::keeps_vectors) tells.
///
/// Not inlined: a caller would have the area on its stack all the time, and the hook calls itself
/// while it is inside. A thread may have a stack of 16 KiB.
#[inline(never)]
pub(super) extern "C" fn preserved<R>(keeps_vectors: bool, f: impl FnOnce() -> R) -> R {
    let mut area = MaybeUninit::<Area>::uninit();
    let at = area.as_mut_ptr().cast::<u8>();
    // SAFETY: an area of the right size and alignment. The site tells what code there relies on.
    unsafe { save_extended(at, keeps_vectors) };
    let result = f();
    // SAFETY: just saved there. Flows that switch away leave the x87 clean, and so do those that
    // end.
    unsafe { restore_extended(at) };
    result
}

/// Calls `f`, which may use the C library, on a guest's kernel thread. The guest's errno stays.
pub(super) fn errno_kept<R>(f: impl FnOnce() -> R) -> R {
    // SAFETY: no arguments.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the calling thread's own.
    let before = unsafe { errno.read() };
    let result = f();
    // SAFETY: as above.
    unsafe { errno.write(before) };
    result
}

/// Like [`preserved`], among flows that switch by a function call, and leave these registers to
/// each other as they are.
pub(super) fn preserved_among_calls<R>(keeps_vectors: bool, f: impl FnOnce() -> R) -> R {
    preserved(keeps_vectors, || {
        let result = f();
        clear_x87();
        result
    })
}

/// Whether the area is large enough here, and all registers are known.
pub(super) fn is_enough() -> bool {
    umcg_intercept::extended_size() <= MOST
}
