//! The end of the process with one line that says why: for what can neither be mended nor reported to a caller.

use std::fmt;
use std::io::Write;

/// Writes `umcg: …; aborting` on standard error, and ends the process by SIGABRT.
#[cold]
#[inline(never)]
pub fn fatal(why: fmt::Arguments<'_>) -> ! {
    // One write, so that lines of several threads do not mix.
    let _ = std::io::stderr().write_all(format!("umcg: {why}; aborting\n").as_bytes());
    std::process::abort()
}
