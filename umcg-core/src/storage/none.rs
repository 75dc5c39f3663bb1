//! Used where there are no blocks: with another C library, another architecture, or a sanitizer
//! that keeps state of its own for each thread.

use super::{Header, StorageError};
use std::convert::Infallible;
use std::ptr::NonNull;

/// There is none.
pub(super) struct Glibc(Infallible);

pub(super) fn get() -> Result<&'static Glibc, StorageError> {
    Err(StorageError::Unavailable(
        if cfg!(any(umcg_asan, umcg_tsan)) {
            "a sanitizer keeps state of its own for each thread"
        } else if cfg!(not(target_env = "gnu")) {
            "the C library is not glibc"
        } else {
            "not on this architecture"
        },
    ))
}

impl Glibc {
    pub(super) fn stride(&self) -> usize {
        match self.0 {}
    }

    pub(super) fn ensure_threaded(&self) -> Result<(), StorageError> {
        match self.0 {}
    }

    /// # Safety
    /// Never called.
    pub(super) unsafe fn make(&self, _place: *mut u8, _tid: u32) -> *mut Header {
        match self.0 {}
    }

    /// # Safety
    /// Never called.
    pub(super) unsafe fn begin(&self, _header: NonNull<Header>) {
        match self.0 {}
    }

    /// # Safety
    /// Never called.
    pub(super) unsafe fn finish(&self, _header: NonNull<Header>) {
        match self.0 {}
    }
}

pub(super) fn before_fork() {}

/// # Safety
/// None is needed.
pub(super) unsafe fn forked() {}
