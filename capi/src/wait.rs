//! Waiting for C. A call first does what needs no waiting. Only if it has to wait is it a point of
//! cancellation; the unwinding is caught here.

use crate::answer::{Errno, errno_of};
use libc::{ECANCELED, c_int};
use std::time::Instant;
use umcg::rt::Elapsed;
use umcg::rt::ffi::{self, Cancelled};

/// A value that is not a time: wait for ever.
pub(crate) const NO_TIMEOUT: u64 = 0;

/// A deadline of C's, as the runtime counts: never the greatest number.
pub(crate) fn deadline(nanoseconds: u64) -> u64 {
    if nanoseconds == NO_TIMEOUT {
        u64::MAX
    } else {
        nanoseconds
    }
}

/// A wait of any kind, as a point of cancellation.
pub(crate) fn interruptible<R>(wait: impl FnOnce() -> R) -> Result<R, c_int> {
    ffi::interruptible(wait).map_err(|Cancelled| ECANCELED)
}

/// Waits until a deadline, or as long as it takes, as a point of cancellation.
#[inline(never)]
pub(crate) fn wait<R, E: Errno>(
    deadline_ns: u64,
    wait: impl FnOnce(Option<Instant>) -> Result<R, E>,
) -> Result<R, c_int> {
    let deadline = (deadline_ns != NO_TIMEOUT).then(|| ffi::instant(deadline_ns));
    interruptible(|| wait(deadline))?.map_err(errno_of)
}

/// The same for waits without a result.
pub(crate) fn wait_until(
    deadline_ns: u64,
    for_ever: impl FnOnce(),
    until: impl FnOnce(Instant) -> Result<(), Elapsed>,
) -> Result<(), c_int> {
    wait(deadline_ns, |deadline| match deadline {
        None => {
            for_ever();
            Ok(())
        }
        Some(deadline) => until(deadline),
    })
}

/// Declares the forms without a deadline of functions that have one as their last argument.
macro_rules! for_ever {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $until:ident;)*) => {
        $(
            /// # Safety
            /// As the form with a deadline.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                // SAFETY: passed on.
                unsafe { $until($($argument,)* $crate::wait::NO_TIMEOUT) }
            }
        )*
    };
}

pub(crate) use for_ever;
