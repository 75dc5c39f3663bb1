//! The memory of a segment: words that other processes write too. The models replace this by their
//! own.

use crate::rt::sync::{AtomicU32, AtomicU64};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{NonNull, null_mut};

/// A shared mapping of a file. No memory outside it is ever touched: each access checks its bounds.
pub(super) struct Memory {
    file: OwnedFd,
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: its words are atomic.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// The first `len` bytes of the file, which has at least that many.
    pub(super) fn map(file: OwnedFd, len: usize) -> io::Result<Memory> {
        // SAFETY: at an address that the kernel chooses, so nothing else is touched.
        let base = unsafe {
            mmap(
                null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &file,
                0,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Memory { file, base, len })
    }

    pub(super) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The word at this offset.
    #[inline]
    pub(super) fn u32(&self, at: usize) -> &AtomicU32 {
        let word = self.at(at, size_of::<AtomicU32>()).cast();
        // SAFETY: within the mapping, aligned, and it lives as long as `self`. All other accesses
        // are atomic, or made by another process.
        unsafe { word.as_ref() }
    }

    /// The double word at this offset.
    #[inline]
    pub(super) fn u64(&self, at: usize) -> &AtomicU64 {
        let word = self.at(at, size_of::<AtomicU64>()).cast();
        // SAFETY: as above.
        unsafe { word.as_ref() }
    }

    /// `count` double words from this offset on.
    #[inline]
    pub(super) fn u64s(&self, at: usize, count: usize) -> &[AtomicU64] {
        let first = self.u64(at);
        assert!(
            count <= (self.len - at) / size_of::<AtomicU64>(),
            "outside the segment"
        );
        // SAFETY: all of them are within the mapping. Otherwise as for the first.
        unsafe { std::slice::from_raw_parts(first, count) }
    }

    #[inline]
    fn at(&self, at: usize, size: usize) -> NonNull<u8> {
        assert!(
            at % size == 0 && at < self.len && size <= self.len - at,
            "outside the segment"
        );
        // SAFETY: just checked; the mapping is one object.
        unsafe { self.base.add(at) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: no reference into it is left. It cannot fail: `map` made it.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.len) };
    }
}
