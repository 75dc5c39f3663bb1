//! Functions of the C library that this library defines in front of them.

use crate::begin::before_thread;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

type Start = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Create = unsafe extern "C" fn(
    *mut libc::pthread_t,
    *const libc::pthread_attr_t,
    Start,
    *mut c_void,
) -> c_int;
type StartC11 = unsafe extern "C" fn(*mut c_void) -> c_int;
type CreateC11 = unsafe extern "C" fn(*mut libc::pthread_t, StartC11, *mut c_void) -> c_int;

/// A function of the C library's, looked up once: a look-up takes the lock of the dynamic linker,
/// which another thread may hold in a constructor that waits for the caller.
struct Function {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Function {
    const fn new(name: &'static CStr) -> Function {
        Function {
            name,
            at: AtomicPtr::new(null_mut()),
        }
    }

    /// Null if there is none.
    fn get(&self) -> *mut c_void {
        let known = self.at.load(Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: a C string; the next object in the order of the search.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(found, Relaxed);
        found
    }
}

type Clock = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> c_int;

static CREATE: Function = Function::new(c"pthread_create");
static CREATE_C11: Function = Function::new(c"thrd_create");
static CLOCK: Function = Function::new(c"clock_gettime");

/// Looks all functions up, while the process has one thread.
pub(crate) fn prepare() {
    CREATE.get();
    CREATE_C11.get();
    CLOCK.get();
}

/// Makes a thread by the C library's function. False if it cannot.
///
/// # Safety
/// The first argument is room for the thread's name.
pub(crate) unsafe fn create(
    thread: *mut libc::pthread_t,
    body: extern "C" fn(*mut c_void) -> *mut c_void,
) -> bool {
    let function = CREATE.get();
    if function.is_null() {
        return false;
    }
    // SAFETY: the function has this type.
    let create = unsafe { transmute::<*mut c_void, Create>(function) };
    // SAFETY: by the contract; no attributes, no argument.
    unsafe { create(thread, null(), body, null_mut()) == 0 }
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
    let function = CREATE.get();
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
    let function = CREATE_C11.get();
    if function.is_null() {
        return ERROR;
    }
    // SAFETY: the function has this type.
    let create = unsafe { transmute::<*mut c_void, CreateC11>(function) };
    // SAFETY: passed on.
    unsafe { create(thread, start, argument) }
}

/// clock_gettime(2). The clock of a thread is asked for by a system call that the library sees: the
/// C library's own function asks the vDSO, which makes a call of its own.
///
/// # Safety
/// As for the C library's.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, time: *mut libc::timespec) -> c_int {
    let function = if clock < 0 || clock == libc::CLOCK_THREAD_CPUTIME_ID {
        null_mut()
    } else {
        CLOCK.get()
    };
    if function.is_null() {
        // SAFETY: passed on; the kernel checks the address.
        return unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) } as c_int;
    }
    // SAFETY: the function has this type.
    let read = unsafe { transmute::<*mut c_void, Clock>(function) };
    // SAFETY: passed on.
    unsafe { read(clock, time) }
}
