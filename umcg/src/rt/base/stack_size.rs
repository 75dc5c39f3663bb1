//! The sizes of the workers' stacks.
//!
//! 256 KiB is what ordinary crates need where they are built without optimisation, with some room
//! to spare: compiling a regex and a tree of JSON 64 deep take more than 128, a handshake of rustls
//! 64. (`ci/ordinary` runs them.) Pages that are not touched take no memory, but page tables do: an
//! idle worker costs some 400 bytes more than with 64 KiB.

use umcg_core::context::stack::{MIN_SIZE, StackError};
use umcg_core::raw::SizeClass;

/// Bytes of a worker's stack by default.
pub(crate) const DEFAULT: usize = 256 << 10;

/// Bytes that the library itself takes, for a function that does hardly anything but wait. Its
/// frames are larger without optimisation.
const LEAST: usize = if cfg!(debug_assertions) {
    32 << 10
} else {
    MIN_SIZE
};

/// The class of stacks with room for `bytes` bytes.
pub(crate) fn class(bytes: usize) -> Result<SizeClass, StackError> {
    SizeClass::for_size(bytes.max(LEAST)).ok_or(StackError::TooLarge)
}
