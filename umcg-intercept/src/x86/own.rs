//! The engine's own arena: a part of the object that the engine is linked into, with an unwind
//! table.
//!
//! A handler may show a context in a trampoline as that of the site: see [`step`](super::step).
//! That is too late for a second signal, which comes before the first instruction of a handler, or
//! after its last one. The C library cancels threads by such a signal, and unwinds all below.
//!
//! So trampolines lie here if their sites are in reach. Those of the C library are, if the engine
//! is part of a shared object: the dynamic linker puts them side by side. Unwinders find the site
//! by themselves: they go from the pc down to the descriptor, which its mark ends, and on from
//! there as [`Site::original`] does.
//!
//! Rejected: tables written at run time (`__register_frame`): those of one copy of one unwinder,
//! and no debugger's.

use super::raw;
use crate::call::Site;
use core::arch::global_asm;
use core::mem::offset_of;
use core::ops::Range;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Pages that are never used take no memory. The C library's own trampolines take 50 KiB.
const LENGTH: usize = 512 << 10;

/// How much is in use.
static USED: AtomicUsize = AtomicUsize::new(0);

global_asm!(
    ".pushsection .bss.umcg_intercept_trampolines,\"aw\",@nobits",
    ".p2align 12",
    ".hidden umcg_intercept_trampolines",
    ".globl umcg_intercept_trampolines",
    ".type umcg_intercept_trampolines,@function",
    "umcg_intercept_trampolines:",
    ".cfi_startproc",
    ".cfi_def_cfa rsp, 0",
    // The caller's address, as behind a call, so that unwinders look one byte before it.
    ".cfi_escape 0x16, 16, 78", // rip is the value of:
    ".cfi_escape 0x80, 0, 0x12, 0x09, 0xf8, 0x1a, 0x38, 0x22", // pc, (pc & -8) + 8
    // Down by eight, until there is a mark.
    ".cfi_escape 0x38, 0x1c, 0x12, 0x06, 0x38, 0x25",
    ".cfi_escape 0x0e, 0x73, 0x69, 0x74, 0x65, 0x2d, 0x2d, 0x3e, 0, 0x2e",
    ".cfi_escape 0x28, 0xed, 0xff",
    // Words 16 and 24 bytes before it, less two: next, and pc - tail.
    ".cfi_escape 0x12, 0x38, 0x1c, 0x06, 0x17, 0x48, 0x1c, 0x06, 0x17, 0x16, 0x1c",
    // Of instructions before the call: next + 19 + the distance.
    ".cfi_escape 0x12, 0x09, 0xec, 0x2d, 0x28, 18, 0",
    // Of the way to the call: next - 1.
    ".cfi_escape 0x12, 0x32, 0x2d, 0x28, 18, 0",
    // Of the one behind it: next + 1.
    ".cfi_escape 0x12, 0x39, 0x2d, 0x28, 18, 0",
    // Of those that follow: next - 8 + the distance.
    ".cfi_escape 0x38, 0x1c, 0x22, 0x2f, 15, 0",
    ".cfi_escape 0x43, 0x22, 0x22, 0x2f, 9, 0",
    ".cfi_escape 0x13, 0x31, 0x1c, 0x2f, 3, 0",
    ".cfi_escape 0x13, 0x31, 0x22",
    ".zero {length}",
    ".cfi_endproc",
    ".size umcg_intercept_trampolines, . - umcg_intercept_trampolines",
    ".popsection",
    length = const LENGTH,
);

const _: () = assert!(size_of::<Site>() == 32);
const _: () = assert!(offset_of!(Site, next) == 0);
const _: () = assert!(offset_of!(Site, tail) == 16);
const _: () = assert!(offset_of!(Site, mark) == 25);
const _: () = assert!(matches!(&Site::MARK, b"site-->"));

unsafe extern "C" {
    fn umcg_intercept_trampolines();
}

/// The whole of it.
pub(super) fn all() -> Range<usize> {
    let start = umcg_intercept_trampolines as *const () as usize;
    start..start + LENGTH
}

/// Takes pages from which all code in `reach` can be jumped to: zeroed and writable.
pub(super) fn take(length: usize, reach: &Range<usize>) -> Option<usize> {
    let all = all();
    if all.start < reach.start || all.end > reach.end {
        return None;
    }
    let used = USED
        .fetch_update(Relaxed, Relaxed, |used| {
            Some(used + length).filter(|&end| end <= LENGTH)
        })
        .ok()?;
    Some(all.start + used)
}

/// Takes back what [`take`] gave. It is used again if nothing was taken since. False if the pages
/// are others.
pub(super) fn give_back(pages: &Range<usize>) -> bool {
    let all = all();
    if !all.contains(&pages.start) {
        return false;
    }
    let writable = libc::PROT_READ | libc::PROT_WRITE;
    if raw::protect(pages.clone(), writable).is_ok() {
        // SAFETY: whole pages of ours, writable, which nothing uses any more.
        unsafe { core::ptr::write_bytes(pages.start as *mut u8, 0, pages.len()) };
        let [start, end] = [pages.start, pages.end].map(|at| at - all.start);
        let _ = USED.compare_exchange(end, start, Relaxed, Relaxed);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::x86::raw::PAGE;

    #[test]
    fn pages_are_taken_within_reach_and_used_again() {
        let everywhere = 0..usize::MAX;
        let start = take(PAGE, &everywhere).unwrap();
        let pages = start..start + PAGE;
        // SAFETY: a page that was just taken.
        let page = unsafe { core::slice::from_raw_parts_mut(start as *mut u8, PAGE) };
        assert!(page.iter().all(|&byte| byte == 0));
        page.fill(0xcc);
        raw::protect(pages.clone(), libc::PROT_READ | libc::PROT_EXEC).unwrap();
        assert!(give_back(&pages));
        assert_eq!(take(2 * PAGE, &everywhere), Some(start));
        // SAFETY: as above.
        let page = unsafe { core::slice::from_raw_parts(start as *const u8, PAGE) };
        assert!(page.iter().all(|&byte| byte == 0), "as a new one");
        assert_eq!(take(LENGTH, &everywhere), None, "as much is not left");
        assert_eq!(take(PAGE, &(0..all().end - 1)), None);
        assert_eq!(take(PAGE, &(all().start + 1..usize::MAX)), None);
        let end = all().end;
        assert!(!give_back(&(end..end + PAGE)), "others");
        assert!(give_back(&(start..start + 2 * PAGE)));
    }
}
