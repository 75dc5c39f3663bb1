//! abort(3) of threads of the library's own. The C library calls it in threads where a change of
//! credentials has failed, of which these are some. The program's handler runs there.

use super::mask::{change, only};
use crate::io::driver::place;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use umcg_core::context::way::nap;
use umcg_core::raw;

/// A thread that has not the program's descriptors wants to abort.
static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// A thread of the library's own, the caller, has called abort(3), and is in the handler. It is to
/// call the program's handler next. Does not return if another thread does so.
///
/// Several threads abort at once where a change of credentials fails. There is one abort natively,
/// and the program's handler runs once. So all but the first wait for the end of the process.
pub(super) fn begin() {
    static IS_ABORTING: AtomicBool = AtomicBool::new(false);
    if place::is_caller_apart() {
        // The handler may use the program's descriptors.
        IS_ASKED.store(true, Relaxed);
        raw::rouse_courier();
        wait_for_end();
    }
    if IS_ABORTING.swap(true, Relaxed) {
        wait_for_end();
    }
}

fn wait_for_end() -> ! {
    loop {
        nap(1_000_000);
    }
}

/// Called by the courier: aborts in place of the thread that has asked for it.
pub(in crate::intercept) fn abort_if_asked() {
    if IS_ASKED.load(Relaxed) {
        change(libc::SIG_UNBLOCK, only(libc::SIGABRT));
        std::process::abort();
    }
}
