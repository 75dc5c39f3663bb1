//! The end of the process with one line that says why: for what can neither be mended nor reported to a caller.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Writes `umcg: …; aborting` on standard error, and ends the process by SIGABRT.
#[cold]
#[inline(never)]
pub fn fatal(why: fmt::Arguments<'_>) -> ! {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    if IS_TOLD.swap(true, Relaxed) {
        // Another thread tells why, and ends the process.
        std::thread::sleep(Duration::from_secs(1));
    } else {
        say(why);
    }
    std::process::abort()
}

/// Writes the same line, where somebody else ends the process.
#[cold]
#[inline(never)]
pub fn say(why: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("umcg: {why}; aborting\n").as_bytes());
}
