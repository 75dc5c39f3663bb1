//! Architectures without an engine: nothing is installed.

use crate::{Call, Config, Error, Look, Report};
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

/// See the module for x86-64.
#[must_use]
pub fn restarts(_pc: usize) -> bool {
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

/// No signal is the net's.
///
/// # Safety
///
/// None is needed.
pub unsafe fn on_sigsys(_information: *const libc::siginfo_t, _context: *mut libc::c_void) -> bool {
    false
}

/// Fails.
///
/// # Safety
///
/// None is needed.
pub unsafe fn arm_thread() -> Result<(), i32> {
    Err(libc::ENOSYS)
}

/// Does nothing.
pub fn disarm_thread() {}

/// No call is caught.
#[must_use]
pub fn is_caught(_call: &Call) -> bool {
    false
}

/// No signal is looked at.
///
/// # Safety
///
/// None is needed.
#[must_use]
pub unsafe fn is_refusal(_information: *const libc::siginfo_t) -> bool {
    false
}

/// Does nothing.
///
/// # Safety
///
/// None is needed.
pub unsafe fn call_again(_context: *mut libc::c_void) {}

/// Does nothing.
///
/// # Safety
///
/// None is needed.
pub unsafe fn show_place(_information: *mut libc::siginfo_t, _context: *const libc::c_void) {}

/// Does nothing.
///
/// # Safety
///
/// None is needed.
pub unsafe fn fail(_context: *mut libc::c_void, _error: i32) {}

/// None.
#[must_use]
pub fn signal_restorer() -> usize {
    0
}

/// Never made.
#[derive(Clone, Copy, Debug)]
pub enum Inside {}

impl Inside {
    /// Never called.
    #[must_use]
    pub fn is_at_call(&self) -> bool {
        match *self {}
    }
}

/// No context is the engine's.
///
/// # Safety
///
/// None is needed.
pub unsafe fn step_out(_context: *mut libc::c_void) -> Option<Inside> {
    None
}

/// Never called.
///
/// # Safety
///
/// None is needed.
pub unsafe fn step_in(_context: *mut libc::c_void, inside: Inside) {
    match inside {}
}

/// Nothing is saved.
#[must_use]
pub fn extended_size() -> usize {
    0
}

/// Saves nothing, which is all.
///
/// # Safety
///
/// None is needed.
pub unsafe fn save_extended(_area: *mut u8, _with_vectors: bool) -> bool {
    true
}

/// Restores nothing.
///
/// # Safety
///
/// None is needed.
pub unsafe fn restore_extended(_area: *const u8) {}

/// Does nothing.
///
/// # Safety
///
/// None.
pub unsafe fn clear_extended() {}

/// Does nothing.
pub fn clear_x87() {}

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
        let error = std::io::Error::last_os_error().raw_os_error();
        return -(error.unwrap_or(libc::EIO) as isize);
    }
    result as isize
}
