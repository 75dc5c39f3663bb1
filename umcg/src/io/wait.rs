//! The interface of the runtime that input and output use. They use nothing else of it.

use crate::rt::base::clock;
use crate::rt::task::Handle;
use crate::rt::wait::park::{self, park_for, park_shielded};
use std::time::Instant;

/// The reason that a dump shows for a waiting worker.
pub(crate) type Reason = &'static &'static str;

/// No deadline. Deadlines are nanoseconds of the monotonic clock.
pub(crate) const NEVER: u64 = u64::MAX;

/// An instant as a deadline.
pub(crate) fn nanos(instant: Instant) -> u64 {
    clock::nanos(instant)
}

/// The moment that many nanoseconds from now.
pub(crate) fn after(nanoseconds: u64) -> u64 {
    clock::now().saturating_add(nanoseconds)
}

/// Parks the caller; may return without a reason. A point of cancellation: may unwind.
#[inline]
pub(crate) fn park(reason: Reason) {
    park_for(reason);
}

/// Like [`park()`], until `deadline` at most. False if the deadline has passed.
#[inline]
pub(crate) fn park_until(reason: Reason, deadline: u64) -> bool {
    if deadline == NEVER {
        park_for(reason);
        return true;
    }
    park::park_until(reason, deadline)
}

/// Parks the caller, which must not unwind here, until `deadline` at most.
pub(crate) fn park_shielded_until(reason: Reason, deadline: u64) {
    if deadline == NEVER {
        park_shielded(reason);
    } else {
        park::park_shielded_until(reason, deadline);
    }
}

/// Makes a party that parks here check its condition again.
pub(crate) fn wake(handle: Handle) {
    park::wake(handle.task());
}
