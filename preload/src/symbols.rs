//! Functions of the C library that this library defines in front of them.

use crate::begin::before_thread;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;

type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    Start,
    *mut c_void,
) -> c_int;
type StartC11 = unsafe extern "C" fn(*mut c_void) -> c_int;
type CreateC11 = unsafe extern "C" fn(*mut libc::pthread_t, StartC11, *mut c_void) -> c_int;

/// The C library's function of this name.
fn next(name: &CStr) -> *mut c_void {
    // SAFETY: a C string; the next object in the order of the search.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// pthread_create(3).
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    before_thread();
    let function = next(c"pthread_create");
    if function.is_null() {
        return libc::EAGAIN;
    }
    // SAFETY: the function has this type.
    let create = unsafe { transmute::<*mut c_void, Create>(function) };
    // SAFETY: passed on.
    unsafe { create(thread, attributes, start, argument) }
}

/// thrd_create(3).
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn thrd_create(
    thread: *mut libc::pthread_t,
    start: StartC11,
    argument: *mut c_void,
) -> c_int {
    /// `thrd_error`.
    const ERROR: c_int = 2;
    before_thread();
    let function = next(c"thrd_create");
    if function.is_null() {
        return ERROR;
    }
    // SAFETY: the function has this type.
    let create = unsafe { transmute::<*mut c_void, CreateC11>(function) };
    // SAFETY: passed on.
    unsafe { create(thread, start, argument) }
}
