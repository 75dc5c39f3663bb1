//! How large the stacks of workers are.
//!
//! 256 KiB is what ordinary crates need where they are built without optimisation, with some room
//! besides: compiling a regex and a tree of JSON 64 deep take more than 128, a handshake of rustls
//! 64. (`ci/ordinary` runs them.) Pages that are not touched are no memory, but page tables are: an
//! idle worker costs some 400 bytes more than with 64 KiB.

use umcg_core::context::stack::{MIN_SIZE, StackError};
use umcg_core::raw::Class;

/// Bytes of a worker's stack where nothing is said.
pub(crate) const DEFAULT: usize = 256 << 10;

/// So much the library itself takes, for a function that does hardly anything but wait. Its frames
/// are larger without optimisation.
const LEAST: usize = if cfg!(debug_assertions) {
    32 << 10
} else {
    MIN_SIZE
};

/// The stacks for so many bytes.
pub(crate) fn class(bytes: usize) -> Result<Class, StackError> {
    Class::for_size(bytes.max(LEAST)).ok_or(StackError::TooLarge)
}
