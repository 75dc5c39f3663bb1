//! Guards: the range below each stack, where every access faults.
//!
//! | kind | made by | costs |
//! |---|---|---|
//! | marker | `MADV_GUARD_INSTALL` (Linux 6.13), in the page table | no mapping |
//! | protection | pages without access | two mappings a stack |
//!
//! A guard is [`SIZE`] bytes of address space. C compilers leave out stack probes unless they are
//! asked for, so a frame may reach that far below the stack pointer without touching anything in
//! between. It then ends in the guard, not in the next stack.
//!
//! Markers are refused by kernels that do not know them, and for memory that is locked
//! (`mlockall`). The library finds out about both one guard at a time, so a program may lock its
//! memory at any moment. Guards by protection are bounded, so that half of `vm.max_map_count` stays
//! free for the rest of the program.

use core::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use rustix::fd::IntoRawFd;
use rustix::fs::{Mode, OFlags, open};

/// Bytes of a guard.
pub const SIZE: usize = 64 << 10;

const MADV_GUARD_INSTALL: libc::c_int = 102;
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

/// How guards are made on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum GuardKind {
    /// No guard was made yet.
    Unknown,
    /// Markers in the page table: no mapping, no bound.
    Marker,
    /// Pages without access: two mappings a stack.
    Protection,
}

/// Further guards by protection would use up `vm.max_map_count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyMappings;

/// The kind of the last guard.
static KIND: AtomicU8 = AtomicU8::new(GuardKind::Unknown as u8);
const NOT_COUNTED: usize = usize::MAX;
/// How many more guards may be made by protection; [`NOT_COUNTED`] before the first.
static PROTECTIONS_LEFT: AtomicUsize = AtomicUsize::new(NOT_COUNTED);

/// How the last guard was made. `UMCG_NO_GUARD_INSTALL` in the environment forbids markers.
pub fn kind() -> GuardKind {
    match KIND.load(Relaxed) {
        1 => GuardKind::Marker,
        2 => GuardKind::Protection,
        _ => GuardKind::Unknown,
    }
}

/// Makes a guard of markers. Returns false where the kernel refuses that, or the environment
/// forbids it.
///
/// # Safety
/// The guard's pages are empty and belong to the caller.
pub(crate) unsafe fn mark(guard: *mut u8) -> bool {
    // SAFETY: reads the environment.
    let forbidden = kind() != GuardKind::Marker
        && unsafe { !libc::getenv(c"UMCG_NO_GUARD_INSTALL".as_ptr()).is_null() };
    // SAFETY: by the contract.
    let marked =
        !forbidden && unsafe { libc::madvise(guard.cast(), SIZE, MADV_GUARD_INSTALL) } == 0;
    if marked {
        KIND.store(GuardKind::Marker as u8, Relaxed);
    }
    marked
}

/// The right to make one guard by protection.
pub(crate) fn count_protection() -> Result<(), TooManyMappings> {
    if PROTECTIONS_LEFT.load(Relaxed) == NOT_COUNTED {
        let _ =
            PROTECTIONS_LEFT.compare_exchange(NOT_COUNTED, max_map_count() / 4, Relaxed, Relaxed);
    }
    let taken = PROTECTIONS_LEFT.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
    taken
        .map(|_| KIND.store(GuardKind::Protection as u8, Relaxed))
        .map_err(|_| TooManyMappings)
}

/// Gives the right back when no guard was made.
pub(crate) fn uncount_protection() {
    PROTECTIONS_LEFT.fetch_add(1, Relaxed);
}

/// Makes a guard of pages that were accessible. Returns false where the kernel refuses that.
///
/// # Safety
/// As [`mark`].
pub(crate) unsafe fn protect(guard: *mut u8) -> bool {
    // SAFETY: by the contract.
    if unsafe { libc::mprotect(guard.cast(), SIZE, libc::PROT_NONE) } != 0 {
        return false;
    }
    // Drops pages that were locked in memory before. Failure (older than Linux 5.18) only keeps
    // them.
    // SAFETY: by the contract.
    unsafe { libc::madvise(guard.cast(), SIZE, MADV_DONTNEED_LOCKED) };
    true
}

/// `vm.max_map_count`, or the kernel's default where it cannot be read.
fn max_map_count() -> usize {
    const DEFAULT: usize = 65_530;
    let mut text = [0u8; 24];
    // Do not read it through the C library, where `pthread_cancel` may end the calling thread.
    let Ok(fd) = open(
        c"/proc/sys/vm/max_map_count",
        OFlags::RDONLY | OFlags::CLOEXEC,
        Mode::empty(),
    ) else {
        return DEFAULT;
    };
    let read = rustix::io::read(&fd, &mut text).unwrap_or(0);
    // SAFETY: our own descriptor, closed once.
    unsafe { rustix::io::close(fd.into_raw_fd()) };
    let digits = text
        .iter()
        .take(read)
        .take_while(|byte| byte.is_ascii_digit());
    match digits.fold(0usize, |n, byte| n * 10 + usize::from(byte - b'0')) {
        0 => DEFAULT,
        n => n,
    }
}
