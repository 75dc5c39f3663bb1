//! What an idle server sleeps in: the driver of input and output, as the engine knows it.

use std::any::Any;
use std::time::Duration;

/// A runtime's driver.
pub(crate) trait Poller: Send + Sync {
    /// Whether a poll may find anything.
    fn has_sources(&self) -> bool;

    /// Takes what the kernel has to say, and makes waiters go on. Waits for that until `timeout`
    /// (`None`: for ever; zero: not at all) or [`Poller::wake`], but only if `asleep` says so,
    /// which is asked once `wake` would end the wait. False when another thread polls, or the
    /// driver is that of a process this one was forked from.
    fn poll_while(&self, timeout: Option<Duration>, asleep: &mut dyn FnMut() -> bool) -> bool;

    /// [`Poller::poll_while`] without a question.
    fn poll(&self, timeout: Option<Duration>) -> bool {
        self.poll_while(timeout, &mut || true)
    }

    /// Ends a poll that waits: the one that is under way, or else the next one.
    fn wake(&self);

    /// The runtime ends: waiters try again, elsewhere.
    fn close(&self);

    /// Whether it was made before a fork whose child this is.
    fn is_left_behind(&self) -> bool;

    /// The driver itself, for input and output.
    fn as_any(&self) -> &dyn Any;
}
