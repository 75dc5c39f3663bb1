//! Destructors of the library's thread-locals.
//!
//! Rust's standard library gives them to the C library, by `__cxa_thread_atexit_impl`. That one
//! takes the dynamic linker's lock, and memory of the program's allocator, which reserves 64 MiB of
//! addresses for each new thread that asks. A thread of this library needs neither if the function
//! is found here: the list is in the thread's own storage, and a key of pthreads has it run.
//!
//! The destructors run after those of C++ and with those of keys, the last one first. Those of the
//! first thread do not run: it ends with the process.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    // Not for the program.
    ".hidden __cxa_thread_atexit_impl",
    ".weak __cxa_thread_atexit_impl", // as the standard library asks for it
    ".type __cxa_thread_atexit_impl,@function",
    "__cxa_thread_atexit_impl:",
    "jmp {register}",
    ".size __cxa_thread_atexit_impl, . - __cxa_thread_atexit_impl",
    register = sym register,
);

type Destructor = unsafe extern "C" fn(*mut c_void);

/// The most thread-locals with destructors that a thread may use. There are some five.
const MOST: usize = 24;

/// A thread's list. It has no destructor of its own.
struct List {
    entries: UnsafeCell<[Option<(Destructor, *mut c_void)>; MOST]>,
    count: Cell<usize>,
}

thread_local! {
    static LIST: List = const {
        List { entries: UnsafeCell::new([None; MOST]), count: Cell::new(0) }
    };
}

/// The key whose destructor runs the list, and one; 0 if there is none yet.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the key, of which one is left. Called before there is a second thread.
pub(crate) fn prepare() {
    let mut key = 0;
    // SAFETY: room for the key, and a function that takes what is stored.
    if unsafe { libc::pthread_key_create(&raw mut key, Some(run)) } == 0 {
        KEY.store(key + 1, Relaxed);
    }
}

/// Not 0 if the destructor will not run.
extern "C" fn register(destructor: Destructor, argument: *mut c_void, _: *mut c_void) -> c_int {
    let Some(key) = KEY.load(Relaxed).checked_sub(1) else {
        return libc::ENOMEM;
    };
    LIST.with(|list| {
        let count = list.count.get();
        // SAFETY: the thread's own, and no reference lives on.
        let entries = unsafe { &mut *list.entries.get() };
        let Some(place) = entries.get_mut(count) else {
            return libc::ENOMEM;
        };
        *place = Some((destructor, argument));
        list.count.set(count + 1);
        // SAFETY: the key exists. Anything but null is told of.
        unsafe { libc::pthread_setspecific(key, std::ptr::from_ref(list).cast()) }
    })
}

/// The end of a thread, told by pthreads. A destructor may use thread-locals that are new, too.
unsafe extern "C" fn run(_: *mut c_void) {
    LIST.with(|list| {
        while let Some(last) = list.count.get().checked_sub(1) {
            list.count.set(last);
            // SAFETY: as above.
            let entry = unsafe { (*list.entries.get())[last].take() };
            if let Some((destructor, argument)) = entry {
                // SAFETY: as was registered; the storage is still there.
                unsafe { destructor(argument) };
            }
        }
    });
}
