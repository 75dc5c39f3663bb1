//! Whether the dynamic linker's lock is free.
//!
//! A library's constructor may make the program's first thread, in the midst of dlopen(3). The
//! caller has the linker's lock then, and threads of this library would wait for it before they do
//! anything: Rust registers the destructors of their thread-locals there. So a thread that does
//! nothing else asks for the lock first.

use crate::symbols;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering::*};

/// The asking thread has had the lock.
static IS_DONE: AtomicU32 = AtomicU32::new(0);

/// False, after this many seconds, if the caller has the lock.
pub(crate) fn is_free() -> bool {
    const LONGEST: libc::time_t = 2;
    let mut thread = MaybeUninit::<libc::pthread_t>::uninit();
    // SAFETY: room for the thread's name, and a function without arguments.
    if !unsafe { symbols::create(thread.as_mut_ptr(), ask) } {
        return false;
    }
    // SAFETY: written by a call that has succeeded.
    let thread = unsafe { thread.assume_init() };
    let time = libc::timespec {
        tv_sec: LONGEST,
        tv_nsec: 0,
    };
    // ORDERING(linker.1): Acquire, pairs with linker.2.
    if IS_DONE.load(Acquire) == 0 {
        let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: a word that lives for ever, and a length of time.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                IS_DONE.as_ptr(),
                operation,
                0,
                &raw const time,
            )
        };
    }
    // ORDERING(linker.1): Acquire, as above.
    if IS_DONE.load(Acquire) == 0 {
        // It ends when it has had the lock.
        // SAFETY: a thread that nobody joins.
        unsafe { libc::pthread_detach(thread) };
        return false;
    }
    // SAFETY: a thread that ends at once.
    unsafe { libc::pthread_join(thread, null_mut()) == 0 }
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
