//! Stacks, cut from slabs.
//!
//! ```text
//!   slab:   header page | guard | stack 0 | guard | stack 1 | …        one mapping, never unmapped
//!   stack:  guard (64 KiB) | base … usable … top | colour | spare page | next guard
//! ```
//!
//! - A slab costs one mapping however many stacks it holds, because the [guards](crate::guard) are
//!   markers in the page table, not mappings. Where the first guard of a slab cannot be a marker,
//!   the slab has no access at first. Each stack is made accessible when it is cut, and the
//!   remaining ranges are the guards: two mappings a stack. So where memory is locked as soon as it
//!   is mapped (`mlockall`), only stacks in use are locked.
//! - Slabs stay mapped for the life of the process. Data at the top of a stack can therefore be
//!   read at any later time: descriptors there are type-stable, and a signal handler may walk the
//!   list of slabs. Do not read stacks that were not cut yet.
//! - Slabs grow with the number of existing stacks, so that the list of slabs stays short.
//! - Tops are *coloured*: moved down by one of 8 multiples of 192 bytes. Otherwise the hot lines of
//!   all stacks would have the same address within their page and share a 64th of the cache's sets.
//! - The distance from one stack to the next is an odd number of pages. With a power of two, as a
//!   guard and a stack of 64 KiB make, all stacks would share a few sets of the second-level cache
//!   and of the TLB, and there would be only two colours. So there is a spare page above each
//!   stack, which is never touched.

mod class;
mod shelf;
mod slab;

pub use crate::guard::{GuardKind, kind as guard_kind};
pub use class::{CLASSES, MAX_SIZE, MIN_SIZE, SizeClass, top_of};
pub(crate) use shelf::{FreeList, exchange};
pub use shelf::{
    allocate, before_fork, forked, may_be_trimmed, release, release_memory, surplus, trim,
};
pub use slab::{StackLocation, each, find};

use core::ptr::NonNull;

const PAGE: usize = 4096;

/// Why there is no stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackError {
    /// No address space or memory (ENOMEM from the kernel).
    OutOfMemory,
    /// Larger than [`MAX_SIZE`].
    TooLarge,
    /// The kernel's pages are not of 4 KiB.
    PageSize,
    /// Guards cannot be markers here, and further ones would use up `vm.max_map_count`.
    TooManyMappings,
    /// The process locks all its memory (`mlockall`), and the limit of that (RLIMIT_MEMLOCK) is
    /// reached.
    Locked,
}

impl core::fmt::Display for StackError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            StackError::OutOfMemory => "no memory for a stack",
            StackError::TooLarge => "a stack may have at most 1 GiB",
            StackError::PageSize => "the kernel's pages are not of 4 KiB",
            StackError::TooManyMappings => {
                "more guarded stacks than vm.max_map_count allows (Linux 6.13 removes this bound, \
                 but for locked memory)"
            }
            StackError::Locked => {
                "no locked memory for a stack: the process locks all its memory, \
                and RLIMIT_MEMLOCK is reached"
            }
        })
    }
}

impl core::error::Error for StackError {}

/// A stack: the exclusive right to its memory. Dropping it leaks the memory; [`release`] or a pool
/// takes it back.
#[derive(Debug)]
#[must_use]
pub struct Stack {
    base: NonNull<u8>,
    class: SizeClass,
}

// SAFETY: a Stack is plain memory that it alone owns.
unsafe impl Send for Stack {}

impl Stack {
    /// The lowest usable address; the guard lies below.
    pub fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// The address just above the stack, 64-aligned.
    #[inline]
    pub fn top(&self) -> *mut u8 {
        top_of(self.base.as_ptr(), self.class)
    }

    /// Its size class.
    #[inline]
    pub fn class(&self) -> SizeClass {
        self.class
    }

    /// The parts that [`Stack::from_parts`] puts together again.
    #[inline]
    pub fn into_parts(self) -> (NonNull<u8>, SizeClass) {
        (self.base, self.class)
    }

    /// # Safety
    /// The parts came from [`Stack::into_parts`], once.
    #[inline]
    pub unsafe fn from_parts(base: NonNull<u8>, class: SizeClass) -> Stack {
        Stack { base, class }
    }
}

/// The most bytes that were ever in use on the stack at `base`, rounded to a page. These are the
/// bytes whose pages have been touched since the stack was new.
pub fn high_water(base: *mut u8, class: SizeClass) -> usize {
    let mut pages = [0u8; 64];
    let size = class.size();
    let mut at = 0;
    while at < size {
        let part = (size - at).min(pages.len() * PAGE);
        // SAFETY: the kernel checks the range, and `pages` has a byte for each of its pages.
        let failed =
            unsafe { libc::mincore(base.wrapping_add(at).cast(), part, pages.as_mut_ptr()) } != 0;
        if let (false, Some(first)) = (
            failed,
            pages[..part / PAGE].iter().position(|page| page & 1 == 1),
        ) {
            return size - at - first * PAGE;
        }
        at += part;
    }
    0
}
