//! Deadlines. Who is about to wait arms no timer: the model has a thread that revokes, or unparks,
//! once the clock has gone on, and then too late perhaps.

use rustix::thread::Timespec;
use std::time::{Duration, Instant};

/// As the library's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

pub(crate) fn nanos(_: Instant) -> u64 {
    unreachable!("models count in numbers")
}

pub(crate) fn after(_: Duration) -> u64 {
    unreachable!("models count in numbers")
}

pub(crate) fn now() -> u64 {
    crate::system::now()
}

pub(crate) fn timespec(deadline: u64) -> Option<Timespec> {
    (deadline != u64::MAX).then_some(Timespec(deadline))
}

pub(crate) fn with_deadline(deadline: u64, wait: impl FnOnce(u64) -> bool) -> bool {
    wait(deadline)
}

pub(crate) fn alarm(_: &mut std::mem::MaybeUninit<()>, _: u64) {}

/// The time is this from now on, and the timer of what the task waits for looks at that.
pub(crate) fn pass(task: &'static super::task::Task, to: u64) {
    crate::system::advance(to);
    super::wait::revoke(task);
}
