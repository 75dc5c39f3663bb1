//! Ends the process with one line that says why. For failures that can neither be repaired nor
//! reported to a caller.

use std::fmt;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Whether a thread prints the reason already.
static IS_TOLD: AtomicBool = AtomicBool::new(false);

/// Writes `umcg: …; aborting` on standard error, and ends the process by SIGABRT.
#[cold]
#[inline(never)]
pub fn fatal(why: fmt::Arguments<'_>) -> ! {
    end(|| say(why))
}

/// As [`fatal`], async-signal-safe, on little stack. A line that is too long is cut.
#[cold]
#[inline(never)]
#[cfg_attr(
    not(target_env = "gnu"),
    allow(dead_code, reason = "for glibc's way of changing credentials")
)]
pub(crate) fn in_handler<const PARTS: usize>(why: [&str; PARTS]) -> ! {
    end(|| {
        let (mut line, mut len) = ([0u8; 192], 0);
        for part in ["umcg: "].into_iter().chain(why).chain(["; aborting\n"]) {
            let room = &mut line[len..];
            let fits = part.len().min(room.len());
            room[..fits].copy_from_slice(&part.as_bytes()[..fits]);
            len += fits;
        }
        // SAFETY: the bytes are the line's.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), len) };
    })
}

fn end(tell: impl FnOnce()) -> ! {
    if IS_TOLD.swap(true, Relaxed) {
        // Another thread prints the reason, and ends the process.
        std::thread::sleep(Duration::from_secs(1));
    } else {
        tell();
    }
    std::process::abort()
}

/// Writes the same line, where other code ends the process.
#[cold]
#[inline(never)]
pub fn say(why: fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_all(format!("umcg: {why}; aborting\n").as_bytes());
}
