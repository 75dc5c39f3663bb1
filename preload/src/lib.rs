//! The library that `umcg run` loads into a program.
//!
//! Its constructor runs before those of the program and its other libraries. It leads all system
//! calls to [`umcg::intercept`], which schedules the program's threads in user mode. The settings
//! come from the environment, as `umcg run` writes them (docs/environment.md).

#![allow(missing_docs, reason = "nothing is for other crates")]

mod heap;
mod settings;

use settings::Environment;
use std::ffi::{c_char, c_int};

/// Called by the dynamic linker.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) = begin;

/// # Safety
/// The dynamic linker calls it once, with the arguments and the environment, in the process's only
/// thread.
unsafe extern "C" fn begin(
    _count: c_int,
    _arguments: *const *const c_char,
    environment: *const *const c_char,
) {
    // SAFETY: by the contract.
    let settings = match unsafe { Environment::new(environment) }.settings() {
        Ok(Some(settings)) => settings,
        Ok(None) => return,
        Err(wrong) => {
            return umcg_core::say(format_args!("run: {wrong}; the program runs natively"));
        }
    };
    // SAFETY: by the contract.
    match unsafe { umcg::intercept::begin(settings) } {
        Ok(()) => heap::prepare(),
        Err(error) => umcg_core::say(format_args!("run: {error}; the program runs natively")),
    }
}
