//! Whether the dynamic linker's lock is free.
//!
//! A library's constructor may make the program's first thread, in the midst of dlopen(3). The
//! caller has the linker's lock then, and threads of this library would wait for it at their begin:
//! they look at the objects that are loaded. So a thread that does nothing else asks for the lock
//! first.

use crate::symbols;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::{from_ref, null_mut};
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The asking thread has had the lock.
static IS_DONE: AtomicU32 = AtomicU32::new(0);

/// Why there can be no threads, if so. After two seconds the caller has the lock.
pub(crate) fn obstacle() -> Option<&'static str> {
    const LONGEST: libc::time_t = 2;
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: room for the thread's name, and a function without arguments.
    if !unsafe { symbols::create(thread.as_mut_ptr(), ask) } {
        return Some("a thread cannot be made");
    }
    // SAFETY: written by a call that has succeeded.
    let thread = unsafe { thread.assume_init() };
    let mut end = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, end.as_mut_ptr()) };
    // SAFETY: this clock exists.
    let mut end = unsafe { end.assume_init() };
    end.tv_sec += LONGEST;
    // ORDERING(linker.1): Acquire, pairs with linker.2.
    while IS_DONE.load(Acquire) == 0 {
        // Signals of the program's cut the wait.
        if !wait_until(&end) {
            break;
        }
    }
    // ORDERING(linker.1): Acquire, as above.
    if IS_DONE.load(Acquire) == 0 {
        // It ends when it has had the lock.
        // SAFETY: a thread that nobody joins.
        unsafe { libc::pthread_detach(thread) };
        return Some("a library makes the first thread while it is loaded");
    }
    // SAFETY: a thread that ends at once.
    unsafe { libc::pthread_join(thread, null_mut()) };
    None
}

/// Waits for the asking thread. False if the time has come.
fn wait_until(end: &libc::timespec) -> bool {
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: a word that lives for ever, and a time.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            IS_DONE.as_ptr(),
            operation,
            0,
            from_ref(end),
            null_mut::<u32>(),
            libc::FUTEX_BITSET_MATCH_ANY,
        )
    };
    result == 0 || std::io::Error::last_os_error().raw_os_error() != Some(libc::ETIMEDOUT)
}

extern "C" fn ask(_argument: *mut c_void) -> *mut c_void {
    // A name that is found, so that no memory is taken for an error.
    // SAFETY: a C string.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"dlsym".as_ptr()) };
    // ORDERING(linker.2): Release, pairs with linker.1.
    IS_DONE.store(1, Release);
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: only the word's address counts.
    unsafe { libc::syscall(libc::SYS_futex, IS_DONE.as_ptr(), operation, 1) };
    null_mut()
}
