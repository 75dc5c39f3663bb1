//! The servers and the state of a runtime, as far as every wait needs them: who runs, how a worker
//! leaves its server for the next one, how one becomes ready, who is woken for it.
//!
//! The loop of the servers, which looks at deadlines and files, is above all that waits:
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
