//! What input and output need of the runtime, and all they use of it.

use crate::rt::base::clock;
use crate::rt::task::Handle;
use crate::rt::wait::park::{self, park_for, park_shielded};
use std::time::Instant;

/// What a dump says of a worker that waits.
pub(crate) type Reason = &'static &'static str;

/// No deadline. Deadlines are nanoseconds of the monotonic clock.
pub(crate) const NEVER: u64 = u64::MAX;

/// An instant as a deadline.
pub(crate) fn nanos(instant: Instant) -> u64 {
    clock::nanos(instant)
}

/// So many nanoseconds from now.
pub(crate) fn after(nanoseconds: u64) -> u64 {
    clock::now().saturating_add(nanoseconds)
}

/// Parks the caller, perhaps for nothing. A point of cancellation: may unwind.
#[inline]
pub(crate) fn park(reason: Reason) {
    park_for(reason);
}

/// Likewise, until `deadline` at most. False when that has passed.
#[inline]
pub(crate) fn park_until(reason: Reason, deadline: u64) -> bool {
    if deadline == NEVER {
        park_for(reason);
        return true;
    }
    park::park_until(reason, deadline)
}

/// Parks the caller, who must not unwind here, until `deadline` at most.
pub(crate) fn park_shielded_until(reason: Reason, deadline: u64) {
    if deadline == NEVER {
        park_shielded(reason);
    } else {
        park::park_shielded_until(reason, deadline);
    }
}

/// Has a party that parks here look again.
pub(crate) fn wake(handle: Handle) {
    park::wake(handle.task());
}
