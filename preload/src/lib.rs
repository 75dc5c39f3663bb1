//! The library that `umcg run` loads into a program.
//!
//! When the program makes its first thread, the library leads all system calls to
//! [`umcg::intercept`], which schedules the program's threads in user mode. Until then nothing is
//! changed: a program without threads pays for the loading of the library only.
//!
//! The first thread is noticed at `pthread_create` and `thrd_create`, which the library defines in
//! front of the C library's. A thread that comes about otherwise (by clone(2), or made by the C
//! library for itself) is not: it runs natively, and so does all of the program then, since a
//! process that has several threads is left alone.
//!
//! Rejected: to begin in the constructor. Finding the sites of system calls takes 3 ms.

#![allow(missing_docs, reason = "nothing is for other crates")]

mod begin;
mod destructors;
mod heap;
mod linker;
mod rseq;
mod settings;
mod symbols;

use settings::Environment;
use std::ffi::{c_char, c_int};
use umcg_memory as _;

/// Called by the dynamic linker.
#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) = loaded;

/// # Safety
/// The dynamic linker calls it, with the arguments and the environment.
unsafe extern "C" fn loaded(
    _count: c_int,
    _arguments: *const *const c_char,
    environment: *const *const c_char,
) {
    symbols::prepare();
    // The program may change its environment before it makes a thread.
    // SAFETY: by the contract.
    begin::keep(unsafe { Environment::new(environment) }.settings());
}
