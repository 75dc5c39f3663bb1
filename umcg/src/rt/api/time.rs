//! Time for programs: `sleep`, and calls that are cut short by a `timeout`.

use super::global;
use crate::rt::base::clock::{Elapsed, after, nanos, now};
use crate::rt::engine::server;
use crate::rt::task::Handle;
use crate::rt::wait::{cancel, deadline, park};
use std::time::{Duration, Instant};

/// Stops the caller for `duration`; other workers run meanwhile. A plain thread sleeps in the
/// kernel. Switches. A point of cancellation.
pub fn sleep(duration: Duration) {
    sleep_nanos(after(duration));
}

/// Stops the caller until `deadline`. Otherwise as [`sleep`].
pub fn sleep_until(deadline: Instant) {
    sleep_nanos(nanos(deadline));
}

fn sleep_nanos(deadline: u64) {
    while now() < deadline {
        park::park_until(&"sleep", deadline);
    }
}

/// Calls `f`. If `f` waits at any time after `duration` has passed, that wait ends by unwinding to
/// here: destructors run, and the result is [`Elapsed`]. Computing without waiting is not cut
/// short, unless `f` calls [`checkpoint`](crate::rt::checkpoint).
///
/// # Errors
/// [`Elapsed`].
///
/// Waits that are no points of cancellation run to their end, and `f` unwinds later:
/// [`sync::Mutex::lock`](crate::sync::Mutex) and the locks like it (`try_lock_for` ends in time),
/// the end of a [`scope`](crate::rt::scope()), which waits for its workers, and calls that block in
/// the kernel in [`blocking`](crate::blocking).
///
/// An unwinding through a `std::sync::Mutex` guard or a `LazyLock` poisons it: see
/// [`shielded`](crate::rt::shielded()), in which no wait is cut short.
///
/// Waits are not cut short either in destructors that run while the caller unwinds, or at a
/// worker's end: those of worker-locals and thread-locals, of a result that is not wanted, of a
/// function that was never called. There `f` runs to its end however long that takes, and the
/// result is `Ok`, as it is in `shielded`. Limit such waits by deadlines of their own
/// (`park_timeout`, `recv_timeout`).
///
/// For a plain thread the global runtime keeps the time.
///
/// # Panics
/// For more than 60 nested timeouts, and if the global runtime is needed and cannot be started.
pub fn timeout<T>(duration: Duration, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    timeout_nanos(after(duration), f)
}

/// Like [`timeout`], with the moment at which the time is over.
///
/// # Errors
/// As [`timeout`].
///
/// # Panics
/// As [`timeout`].
pub fn timeout_at<T>(deadline: Instant, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    timeout_nanos(nanos(deadline), f)
}

fn timeout_nanos<T>(deadline: u64, f: impl FnOnce() -> T) -> Result<T, Elapsed> {
    let running = server::running();
    let outside = match &running {
        Some(_) => None,
        None => match global::shared_of_caller() {
            Ok(shared) => Some(shared),
            Err(error) => panic!(
                "timeout: nobody keeps the time, as the global runtime could not be started: \
                 {error}"
            ),
        },
    };
    let task = running
        .as_ref()
        .map_or_else(|| Handle::current().task(), server::Running::task);
    let Some(scope) = cancel::open(task) else {
        drop(running);
        panic!("timeout: too many within each other");
    };
    let mut result = None;
    let body = || result = Some(std::panic::catch_unwind(std::panic::AssertUnwindSafe(f)));
    match (running, outside) {
        (Some(running), _) => deadline::armed(running, scope, deadline, body),
        (None, Some(shared)) => deadline::armed_outside(shared, task, scope, deadline, body),
        (None, None) => unreachable!("a caller is on a server or not"),
    };
    cancel::close(task, scope);
    match result {
        Some(Ok(value)) => Ok(value),
        Some(Err(payload)) => match payload.downcast::<cancel::Unwinding>() {
            Ok(unwinding) if unwinding.0 == scope => Err(Elapsed),
            Ok(unwinding) => std::panic::resume_unwind(unwinding),
            Err(payload) => std::panic::resume_unwind(payload),
        },
        None => Err(Elapsed),
    }
}
