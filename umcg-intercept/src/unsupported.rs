//! Architectures without an engine: nothing is installed.

use crate::{Config, Error, Look, Report};
use core::ops::Range;

/// Fails.
///
/// # Safety
///
/// None is needed.
pub unsafe fn install(_config: Config) -> Result<Report, Error> {
    Err(Error::Unsupported)
}

/// Finds nothing.
pub fn look_again() -> Look {
    Look::default()
}

/// Does nothing.
pub fn forget(_range: Range<usize>) {}

/// Nothing was found.
#[must_use]
pub fn report() -> Report {
    Report::default()
}

/// No code is the engine's.
#[must_use]
pub fn is_inside(_pc: usize) -> bool {
    false
}

/// No trap is the engine's.
///
/// # Safety
///
/// None is needed.
pub unsafe fn on_trap(_context: *mut libc::c_void) -> bool {
    false
}

/// Makes a system call, by way of the C library.
///
/// # Safety
///
/// As the call itself.
pub unsafe fn raw_syscall(number: usize, arguments: [usize; 6]) -> isize {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the caller vouches for the call.
    let result = unsafe { libc::syscall(number as libc::c_long, a, b, c, d, e, f) };
    if result == -1 {
        // SAFETY: the calling thread's own.
        return -(unsafe { *libc::__errno_location() } as isize);
    }
    result as isize
}
