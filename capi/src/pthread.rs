//! Two facts about a full worker that the C library cannot give: its stack, and on which processors
//! it may run. The C library asks the kernel, by a thread id that only the C library knows.
//!
//! In the shared library these stand in the place of the C library's functions (`build-lib.sh`), as
//! garbage collectors, runtimes of languages and the like ask those.

use libc::{ESRCH, RTLD_NEXT, cpu_set_t, pthread_attr_t, pthread_t};
use std::ffi::{CStr, c_int};
use umcg_core::context::{guard, stack};

type GetAttributes = unsafe extern "C" fn(pthread_t, *mut pthread_attr_t) -> c_int;
type GetAffinity = unsafe extern "C" fn(pthread_t, usize, *mut cpu_set_t) -> c_int;

/// The C library's function of this name, which comes after this library's.
fn next(name: &CStr) -> Option<usize> {
    // SAFETY: a C string; a handle that dlsym knows.
    let address = unsafe { libc::dlsym(RTLD_NEXT, name.as_ptr()) };
    (!address.is_null()).then(|| address.expose_provenance())
}

fn is_caller(thread: pthread_t) -> bool {
    // SAFETY: no precondition.
    thread == unsafe { libc::pthread_self() }
}

/// `pthread_getattr_np`, which works in full workers too, of the caller.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_pthread_getattr_np(
    thread: pthread_t,
    attributes: *mut pthread_attr_t,
) -> c_int {
    let Some(theirs) = next(c"pthread_getattr_np") else {
        return libc::ENOSYS;
    };
    // SAFETY: the C library's function of this name has this type.
    let theirs = unsafe { std::mem::transmute::<usize, GetAttributes>(theirs) };
    // SAFETY: passed on.
    let status = unsafe { theirs(thread, attributes) };
    let here = std::ptr::from_ref(&status).addr();
    match stack::find(here) {
        // SAFETY: passed on; a call that failed has left nothing.
        Some(place) if status == ESRCH && is_caller(thread) => unsafe {
            describe(&place, attributes)
        },
        _ => status,
    }
}

/// # Safety
/// There is room for attributes.
unsafe fn describe(place: &stack::StackLocation, attributes: *mut pthread_attr_t) -> c_int {
    // SAFETY: passed on.
    let status = unsafe { libc::pthread_attr_init(attributes) };
    if status != 0 {
        return status;
    }
    // SAFETY: zero is an empty set.
    let mut cpus: cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: room for a set.
    let known = unsafe { libc::sched_getaffinity(0, size_of::<cpu_set_t>(), &mut cpus) } == 0;
    // SAFETY: initialised above; the stack is that of the caller.
    let status =
        unsafe { libc::pthread_attr_setstack(attributes, place.base.cast(), place.class.size()) };
    // SAFETY: as above.
    unsafe { libc::pthread_attr_setguardsize(attributes, guard::SIZE) };
    // SAFETY: as above.
    unsafe { libc::pthread_attr_setdetachstate(attributes, libc::PTHREAD_CREATE_DETACHED) };
    if known {
        // SAFETY: as above.
        unsafe { libc::pthread_attr_setaffinity_np(attributes, size_of::<cpu_set_t>(), &cpus) };
    }
    if status != 0 {
        // SAFETY: as above.
        unsafe { libc::pthread_attr_destroy(attributes) };
    }
    status
}

/// `pthread_getaffinity_np`, which works in full workers too, of the caller: for the kernel thread
/// that carries it.
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn umcg_pthread_getaffinity_np(
    thread: pthread_t,
    bytes: usize,
    cpus: *mut cpu_set_t,
) -> c_int {
    let Some(theirs) = next(c"pthread_getaffinity_np") else {
        return libc::ENOSYS;
    };
    // SAFETY: the C library's function of this name has this type.
    let theirs = unsafe { std::mem::transmute::<usize, GetAffinity>(theirs) };
    // SAFETY: passed on.
    let status = unsafe { theirs(thread, bytes, cpus) };
    if status != ESRCH || !is_caller(thread) {
        return status;
    }
    // SAFETY: passed on.
    if unsafe { libc::sched_getaffinity(0, bytes, cpus) } == 0 {
        0
    } else {
        crate::errno()
    }
}
