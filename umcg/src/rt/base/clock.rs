//! The clock of deadlines: nanoseconds of CLOCK_MONOTONIC in 64 bits; `u64::MAX` is never.

use crate::error::texts;
use rustix::thread::Timespec;
use rustix::time::{ClockId, clock_gettime};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Now, in nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Now, as an instant.
#[inline]
pub(crate) fn instant_now() -> Instant {
    Instant::now()
}

/// One moment on both clocks, as close as a few readings can bring them. The number is not before
/// the instant.
fn origin() -> (Instant, u64) {
    static ORIGIN: OnceLock<(Instant, u64)> = OnceLock::new();
    const CLOSE: u64 = 1_000;
    // Under Valgrind, and where reading the clock is a system call, no two readings are close.
    const LOOKS: usize = 100;
    *ORIGIN.get_or_init(|| {
        let mut best = (u64::MAX, Instant::now(), now());
        for _ in 0..LOOKS {
            let (before, instant, after) = (now(), Instant::now(), now());
            if after - before < best.0 {
                best = (after - before, instant, after);
            }
            if best.0 < CLOSE {
                break;
            }
        }
        (best.1, best.2)
    })
}

/// An instant in nanoseconds. An instant that is too far away is never.
pub(crate) fn nanos(instant: Instant) -> u64 {
    let (origin, nanos) = origin();
    match instant.checked_duration_since(origin) {
        Some(since) => u64::try_from(since.as_nanos())
            .unwrap_or(u64::MAX)
            .saturating_add(nanos),
        None => {
            nanos.saturating_sub(u64::try_from((origin - instant).as_nanos()).unwrap_or(u64::MAX))
        }
    }
}

/// The instant at `at` nanoseconds.
pub(crate) fn instant(at: u64) -> Instant {
    let (origin, nanos) = origin();
    match at.checked_sub(nanos) {
        Some(after) => origin + Duration::from_nanos(after),
        None => origin - Duration::from_nanos(nanos - at),
    }
}

/// The moment `timeout` from now.
pub(crate) fn after(timeout: Duration) -> u64 {
    u64::try_from(timeout.as_nanos())
        .unwrap_or(u64::MAX)
        .saturating_add(now())
}

/// The time until `deadline`; none for never.
pub(crate) fn until(deadline: u64) -> Option<Duration> {
    (deadline != u64::MAX).then(|| Duration::from_nanos(deadline.saturating_sub(now())))
}

/// The moment in the kernel's form; none for never.
pub(crate) fn timespec(deadline: u64) -> Option<Timespec> {
    let spec = Timespec {
        tv_sec: (deadline / 1_000_000_000) as i64,
        tv_nsec: (deadline % 1_000_000_000) as _,
    };
    (deadline != u64::MAX).then_some(spec)
}

/// Error: the time was over before the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

texts! {
    Elapsed {
        Elapsed => "the time was over before the work was done",
    }
}
