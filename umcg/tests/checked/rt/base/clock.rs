//! The clock, as the checker has it.

use crate::checker::kernel;
use rustix::thread::Timespec;
use std::time::{Duration, Instant};

/// As the library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

pub(crate) fn nanos(_: Instant) -> u64 {
    unreachable!("models count in numbers")
}

pub(crate) fn instant(_: u64) -> Instant {
    unreachable!("models count in numbers")
}

pub(crate) fn now() -> u64 {
    kernel::now()
}

/// As the library's: a model does not wait for it.
pub(crate) fn instant_now() -> Instant {
    Instant::now()
}

pub(crate) fn after(duration: Duration) -> u64 {
    now() + duration.as_nanos() as u64
}

pub(crate) fn timespec(deadline: u64) -> Option<Timespec> {
    (deadline != u64::MAX).then_some(Timespec(deadline))
}

/// The deadline itself rather than the time until then: the model's clock would go on meanwhile, by
/// any amount.
pub(crate) fn until(deadline: u64) -> Option<Duration> {
    (deadline != u64::MAX).then(|| Duration::from_nanos(deadline))
}
