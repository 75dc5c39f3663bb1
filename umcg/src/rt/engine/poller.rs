//! The driver of input and output, as the engine knows it: an idle server sleeps in it.

use std::any::Any;
use std::time::Duration;

/// A runtime's driver.
pub(crate) trait Poller: Send + Sync {
    /// Whether a poll may find anything.
    fn has_sources(&self) -> bool;

    /// Takes the kernel's events and makes waiters go on. If `asleep` returns true, waits for
    /// events until `timeout` (`None`: for ever; zero: not at all) or [`Poller::wake`]. `asleep` is
    /// called once `wake` would end the wait. False if another thread polls, or the driver belongs
    /// to a process that this one was forked from.
    fn poll_while(&self, timeout: Option<Duration>, asleep: &mut dyn FnMut() -> bool) -> bool;

    /// [`Poller::poll_while`], with an `asleep` that is always true.
    fn poll(&self, timeout: Option<Duration>) -> bool {
        self.poll_while(timeout, &mut || true)
    }

    /// Ends the poll that waits now, or else the next one.
    fn wake(&self);

    /// The runtime ends: waiters try again without this driver.
    fn close(&self);

    /// Whether the driver was made before a fork whose child this process is.
    fn is_left_behind(&self) -> bool;

    /// The driver itself, for input and output.
    fn as_any(&self) -> &dyn Any;
}
