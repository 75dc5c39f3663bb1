//! The C interface, declared in `include/umcg.h`, `include/umcg/*.h` and `include/uth.h`, whose
//! comments are its manual.
//!
//! Every function of `ctl` and `uth` turns its arguments into those of one function of `umcg-core`,
//! and that function's error into `errno` or an abort. The other modules do the same for the crate
//! `umcg`; `rt` adds C's counterpart of its sockets. Mistakes that a C caller can make, and that
//! Rust's types or `unsafe` contracts rule out, are checked here. `answer`, `object` and `wait` are
//! their common parts.

mod answer;
mod ctl;
mod futex;
mod notice;
mod nt;
mod object;
mod pthread;
mod rt;
mod segment;
mod select;
mod sem;
mod sync;
mod tube;
mod uth;
mod wait;

use libc::{E2BIG, EINVAL};
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Display;
use std::io::Write;

/// Sets `errno` of the calling thread, or of the worker whose context this is.
///
/// Never inlined: the address of `errno` must be looked up anew after any call that may have
/// switched.
#[inline(never)]
pub(crate) fn set_errno(error: i32) {
    // SAFETY: gives the address of the calling thread's errno.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *errno = error };
}

/// `errno` as [`set_errno`] would set it.
#[inline(never)]
pub(crate) fn errno() -> i32 {
    // SAFETY: as in `set_errno`.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    unsafe { *errno }
}

/// Sets `errno`, and returns the value that tells the caller to look at it.
#[cold]
pub(crate) fn failed<T>(error: i32, result: T) -> T {
    set_errno(error);
    result
}

/// # Safety
/// `text` is null or a string.
pub(crate) unsafe fn string(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: passed on.
    Some(
        unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
    )
}

/// A non-empty array of C's.
///
/// # Safety
/// `items` is null, or points to `n` of them, as long as the caller uses them.
pub(crate) unsafe fn array<'a, T>(items: *const T, n: c_int) -> Result<&'a [T], c_int> {
    let len = usize::try_from(n).unwrap_or(0);
    if items.is_null() || !items.is_aligned() || len == 0 {
        return Err(EINVAL);
    }
    // SAFETY: by the contract.
    Ok(unsafe { std::slice::from_raw_parts(items, len) })
}

/// An array from C whose items are addresses.
///
/// # Safety
/// As `array`; each is null, or the address of an object that stays valid as long as the caller
/// uses it.
pub(crate) unsafe fn references<'a, T>(
    items: *const *const T,
    n: c_int,
) -> Result<&'a [&'a T], c_int> {
    // SAFETY: passed on.
    let pointers = unsafe { array(items, n) }?;
    if pointers.iter().any(|item| item.is_null()) {
        return Err(EINVAL);
    }
    // SAFETY: none is null, and by the contract they are addresses of such; a reference is laid out
    // as a pointer.
    Ok(unsafe { &*(std::ptr::from_ref(pointers) as *const [&T]) })
}

/// Copies a structure of the caller's, which begins with its own size, over `default`. Members that
/// the caller does not know keep their default. Members that this library does not know must be
/// zero.
///
/// # Safety
/// `given` is null, or points to a size and that many bytes. All bytes make a valid T.
pub(crate) unsafe fn versioned<T: Copy>(default: T, given: *const T) -> Result<T, c_int> {
    let mut own = default;
    if given.is_null() {
        return Ok(own);
    }
    // SAFETY: by the contract.
    let size = unsafe { given.cast::<usize>().read() };
    if size < size_of::<usize>() {
        return Err(EINVAL);
    }
    // SAFETY: by the contract.
    let bytes = unsafe { std::slice::from_raw_parts(given.cast::<u8>(), size) };
    if bytes.iter().skip(size_of::<T>()).any(|byte| *byte != 0) {
        return Err(E2BIG);
    }
    let known = size.min(size_of::<T>());
    // SAFETY: both have this size.
    unsafe {
        bytes
            .as_ptr()
            .copy_to_nonoverlapping((&raw mut own).cast(), known)
    };
    Ok(own)
}

/// Ends the process over a misuse of `function`, which has no way to return an error.
#[cold]
pub(crate) fn misused(function: &str, what: impl Display) -> ! {
    let _ = std::io::stderr().write_all(format!("umcg: {function}: {what}\n").as_bytes());
    std::process::abort()
}
