//! The courier of a program that uses the library: a kernel thread that wakes words in the table
//! for flows that must not do so themselves (O2).

use super::outsider;
use std::io;
use umcg_core::{raw, signal};

/// Starts the courier.
///
/// # Errors
/// The system gives no thread.
pub(super) fn begin() -> io::Result<()> {
    let courier = std::thread::Builder::new().name("umcg-courier".to_owned());
    signal::without(|| courier.spawn(carry))?;
    outsider::has_courier();
    Ok(())
}

fn carry() {
    loop {
        let _ = raw::next_called(u64::MAX);
        outsider::take_posted();
    }
}
