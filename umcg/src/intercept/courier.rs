//! The courier of a program that uses the library: a kernel thread that wakes words in the table
//! for flows that must not do so themselves (O2).

use super::outsider;
use std::io;
use umcg_core::{kernel_thread, raw, signal};

/// Starts the courier.
///
/// # Errors
/// The system gives no thread.
pub(super) fn begin() -> io::Result<()> {
    signal::without(|| kernel_thread::spawn("umcg-courier", carry))?;
    outsider::has_courier();
    Ok(())
}

fn carry() {
    loop {
        let _ = raw::next_called(u64::MAX);
        outsider::take_posted();
    }
}
