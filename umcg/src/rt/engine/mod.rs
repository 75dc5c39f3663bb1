//! The servers and the state of a runtime, as far as every wait needs them: the running worker, how
//! a worker leaves its server for the next one, how a worker becomes ready, which server is woken
//! for it.
//!
//! The loop of the servers, which checks deadlines and files, is above everything that waits:
//! [`run`](crate::rt::run).

pub(crate) mod lack;
pub(crate) mod poller;
pub(crate) mod runtime;
pub(crate) mod server;
pub(crate) mod sleepers;
pub(crate) mod stalls;
pub(crate) mod threads;
pub(crate) mod timers;
pub(crate) mod watch;
