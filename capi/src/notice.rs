//! `umcg.h`: whether blocking that no scope announces is noticed.

use crate::answer::answer;
use rustix::io::Errno;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The program does not want it.
static IS_OFF: AtomicBool = AtomicBool::new(false);

/// A worker registers: blocking is noticed from here on, unless the program does not want that.
pub(crate) fn begin_unless_told() {
    if !IS_OFF.load(Relaxed) {
        // Where it is impossible, scopes announce blocking as before.
        let _ = begin();
    }
}

#[cfg(target_arch = "x86_64")]
fn begin() -> Result<(), Errno> {
    umcg::intercept::notice_blocking().map_err(|_| Errno::OPNOTSUPP)
}

#[cfg(not(target_arch = "x86_64"))]
fn begin() -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

#[cfg(target_arch = "x86_64")]
fn has_begun() -> bool {
    umcg::intercept::notices_blocking()
}

#[cfg(not(target_arch = "x86_64"))]
fn has_begun() -> bool {
    false
}

#[unsafe(no_mangle)]
extern "C" fn umcg_notice_blocking(on: c_int) -> c_int {
    let result = match (on != 0, has_begun()) {
        (true, true) => Ok(()),
        (true, false) => begin(),
        (false, true) => Err(Errno::BUSY),
        (false, false) => {
            IS_OFF.store(true, Relaxed);
            Ok(())
        }
    };
    answer(result)
}
