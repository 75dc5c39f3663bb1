//! The virtual clock.

use crate::machine::{self, Cause};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time 0, as an instant.
fn origin() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now)
}

pub(crate) fn now() -> u64 {
    machine::spend(Cause::Calls, |costs| costs.clock);
    machine::now()
}

pub(crate) fn instant_now() -> Instant {
    instant(now())
}

pub(crate) fn instant(at: u64) -> Instant {
    origin() + Duration::from_nanos(at)
}

pub(crate) fn after(duration: Duration) -> u64 {
    now().saturating_add(duration.as_nanos() as u64)
}

/// The deadline itself rather than the time until then.
pub(crate) fn until(deadline: u64) -> Option<Duration> {
    timespec(deadline).map(Duration::from_nanos)
}

/// In place of the kernel's form.
pub(crate) fn timespec(deadline: u64) -> Option<u64> {
    (deadline != u64::MAX).then_some(deadline)
}
