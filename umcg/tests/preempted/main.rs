//! Ticks at every moment: no worker is taken off with a lock of the C library's, and a worker that
//! is taken off goes on as if nothing had come.
//!
//! The signal of the tick is sent by hand. Here it comes at random moments, while workers are in
//! the C library: from outside, several at a time and tens of thousands a second. In [`stepped`] it
//! comes before each instruction of a sequence. Each test is a process of its own.
//!
//! `UMCG_STRESS_SECONDS`: for how long each test with random moments goes on, 1 where not given.

#![cfg(target_os = "linux")]

mod beneath;
mod child;
mod library;
mod report;
#[cfg(target_arch = "x86_64")]
mod stepped;
mod storm;

use std::hint::black_box;
use std::io::Write;
use std::ptr::null_mut;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering::*};
use storm::Shape;

/// malloc: its locks are the process's.
#[test]
fn inside_malloc() {
    let allocate = || {
        let all: Vec<Vec<u8>> = (0..64)
            .map(|size| Vec::with_capacity(1040 + size * 97))
            .collect();
        drop(black_box(all));
    };
    storm::survives(
        "inside_malloc",
        Shape {
            servers: 1,
            workers: 64,
            ranked: false,
        },
        allocate,
    );
    storm::survives(
        "inside_malloc",
        Shape {
            servers: 2,
            workers: 8,
            ranked: true,
        },
        allocate,
    );
}

/// stdio: one lock for each stream, which knows its owner.
#[test]
fn inside_stdio() {
    let print = || {
        // SAFETY: C strings that live.
        let null = unsafe { libc::fopen(c"/dev/null".as_ptr(), c"w".as_ptr()) };
        assert!(!null.is_null());
        for number in 0..50 {
            // SAFETY: an open stream, and arguments that fit the format.
            unsafe {
                libc::fprintf(
                    null,
                    c"%d %s %f\n".as_ptr(),
                    number,
                    c"word".as_ptr(),
                    0.5f64,
                )
            };
        }
        // SAFETY: opened above.
        unsafe { libc::fclose(null) };
        // SAFETY: all streams, each under its lock.
        unsafe { libc::fflush(std::ptr::null_mut()) };
    };
    storm::survives(
        "inside_stdio",
        Shape {
            servers: 1,
            workers: 8,
            ranked: false,
        },
        print,
    );
    storm::survives(
        "inside_stdio",
        Shape {
            servers: 2,
            workers: 8,
            ranked: true,
        },
        print,
    );
}

/// The loader: `dlopen` of a library that is there already, and symbols.
#[test]
fn inside_the_loader() {
    let load = || {
        // SAFETY: the C library is loaded, and has no constructor to run again.
        let library = unsafe { libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_NOW) };
        if !library.is_null() {
            // SAFETY: an open library.
            assert!(!unsafe { libc::dlsym(library, c"malloc".as_ptr()) }.is_null());
            // SAFETY: as above; no thread uses it after.
            unsafe { libc::dlclose(library) };
        }
    };
    storm::survives(
        "inside_the_loader",
        Shape {
            servers: 1,
            workers: 8,
            ranked: false,
        },
        load,
    );
    storm::survives(
        "inside_the_loader",
        Shape {
            servers: 2,
            workers: 8,
            ranked: true,
        },
        load,
    );
}

/// Something that may be preempted: a worker that is nearly always in the C library keeps its
/// server.
fn compute() {
    (0..2000u64).for_each(|n| _ = black_box(n));
}

// A loop whose unwind tables say that its caller's frame is found by a register which holds no
// address. Above its stack pointer there is an address in the C library, so that its callers are
// looked at.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".pushsection .text.umcg_test_astray,\"ax\",@progbits",
    ".globl umcg_test_astray",
    ".type umcg_test_astray,@function",
    "umcg_test_astray:",
    ".cfi_startproc",
    "push rbx",
    "push rdi",
    "mov ebx, 8",
    ".cfi_def_cfa rbx, 16",
    "mov ecx, 4000",
    "2:",
    "dec ecx",
    "jnz 2b",
    ".cfi_def_cfa rsp, 24",
    "pop rdi",
    "pop rbx",
    ".cfi_def_cfa rsp, 8",
    "ret",
    ".cfi_endproc",
    ".popsection",
);

/// The frame to which wrong tables lead the unwinder is not there: a worker is not preempted for a
/// while, and goes on.
#[test]
#[cfg(target_arch = "x86_64")]
fn where_unwind_tables_are_wrong() {
    unsafe extern "C" {
        fn umcg_test_astray(address: usize);
    }
    let stray = || {
        // SAFETY: only computes.
        unsafe { umcg_test_astray(libc::getpid as *const () as usize) };
        compute();
    };
    storm::survives(
        "where_unwind_tables_are_wrong",
        Shape {
            servers: 1,
            workers: 8,
            ranked: false,
        },
        stray,
    );
    storm::survives(
        "where_unwind_tables_are_wrong",
        Shape {
            servers: 2,
            workers: 8,
            ranked: true,
        },
        stray,
    );
}

/// A callback of the loader's runs under its lock.
#[test]
fn beneath_the_loaders_lock() {
    unsafe extern "C" fn count(
        _: *mut libc::dl_phdr_info,
        _: usize,
        count: *mut libc::c_void,
    ) -> i32 {
        // SAFETY: the number below.
        unsafe { *count.cast::<u64>() += 1 };
        // Long enough for a tick.
        (0..200u64).for_each(|n| _ = black_box(n));
        0
    }
    let list = || {
        let mut objects = 0u64;
        // SAFETY: the callback gets its number, and does not unwind.
        unsafe { libc::dl_iterate_phdr(Some(count), (&raw mut objects).cast()) };
        assert!(objects > 0);
        compute();
    };
    storm::survives(
        "beneath_the_loaders_lock",
        Shape {
            servers: 1,
            workers: 8,
            ranked: false,
        },
        list,
    );
    storm::survives(
        "beneath_the_loaders_lock",
        Shape {
            servers: 2,
            workers: 8,
            ranked: true,
        },
        list,
    );
}

/// Others wait in the kernel for the worker that `pthread_once` has called.
#[test]
fn beneath_once() {
    unsafe extern "C" {
        fn pthread_once(once: *const AtomicI32, routine: extern "C" fn()) -> i32;
    }
    extern "C" fn routine() {
        (0..2000u64).for_each(|n| _ = black_box(n));
    }
    static ONCE: AtomicPtr<AtomicI32> = AtomicPtr::new(null_mut());
    let once = || {
        let mut current = ONCE.load(Acquire);
        if !current.is_null() {
            // SAFETY: zero at first, as PTHREAD_ONCE_INIT is; never freed.
            assert_eq!(unsafe { pthread_once(current, routine) }, 0);
        }
        let next = Box::into_raw(Box::new(AtomicI32::new(0)));
        compute();
        if ONCE
            .compare_exchange(current, next, AcqRel, Relaxed)
            .is_err()
        {
            current = next;
            // SAFETY: no other thread has seen it.
            drop(unsafe { Box::from_raw(current) });
        }
    };
    storm::survives(
        "beneath_once",
        Shape {
            servers: 1,
            workers: 8,
            ranked: false,
        },
        once,
    );
}

/// A handler of the program's that blocks nothing, on the worker's own stack.
#[test]
fn in_a_handler() {
    static HANDLERS: AtomicI32 = AtomicI32::new(0);
    extern "C" fn handler(_: i32) {
        // One at a time, as there is one server.
        assert_eq!(HANDLERS.fetch_add(1, Relaxed), 0);
        (0..2000u64).for_each(|n| _ = black_box(n));
        HANDLERS.fetch_sub(1, Relaxed);
    }
    let raise = || {
        static INSTALL: Once = Once::new();
        // Others would wait for a worker that is taken off in there.
        umcg::critical(|| {
            INSTALL.call_once(|| storm::handle(libc::SIGUSR1, handler, libc::SA_NODEFER))
        });
        storm::raise(libc::SIGUSR1);
        compute();
    };
    storm::survives(
        "in_a_handler",
        Shape {
            servers: 1,
            workers: 8,
            ranked: false,
        },
        raise,
    );
}

/// Unwinding.
#[test]
fn inside_the_unwinder() {
    fn deep(n: u32) {
        let _owned = Box::new(n);
        if n == 0 {
            std::panic::resume_unwind(Box::new(11u8));
        }
        deep(black_box(n) - 1);
    }
    let unwind = || {
        let panic = std::panic::catch_unwind(|| deep(20)).unwrap_err();
        assert_eq!(*panic.downcast::<u8>().unwrap(), 11);
    };
    storm::survives(
        "inside_the_unwinder",
        Shape {
            servers: 1,
            workers: 8,
            ranked: false,
        },
        unwind,
    );
    storm::survives(
        "inside_the_unwinder",
        Shape {
            servers: 2,
            workers: 8,
            ranked: true,
        },
        unwind,
    );
}

/// A lock of the language's library under one of the C library's.
#[test]
fn inside_a_write_to_a_file() {
    let write = || {
        let mut null = std::fs::File::create("/dev/null").unwrap();
        for number in 0..50 {
            writeln!(null, "{number} {:?}", black_box(0.5)).unwrap();
        }
    };
    storm::survives(
        "inside_a_write_to_a_file",
        Shape {
            servers: 1,
            workers: 8,
            ranked: false,
        },
        write,
    );
}
