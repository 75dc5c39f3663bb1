//! Waiting: how a worker or thread stops, and is made to go on.
//!
//! | module | holds |
//! |---|---|
//! | `park` | the protocol by which one known party stops and is woken |
//! | `queue` | the same for many parties in queues, and for one party in many queues |
//! | `joined` | the word in which a worker's end is waited for |
//! | `deadline`, `expire` | waits that end at a time |
//! | `cancel`, `interrupt` | waits that are cut short |
//! | `cut` | the same for the waits of foreign system calls, by signals |
//! | `yielding` | giving way to others |
//! | `second_look` | giving way before a wait for many, and looking again |
//!
//! Nothing waits but by parking, or in one kind of queue. Joining, sleeping, scopes, futures,
//! sockets: each is a loop of look, make a handle known, look again, park. Where many wait for
//! whatever comes, they stand in queues. So there are two protocols to prove, one place for
//! deadlines and one for cancellation.

pub(crate) mod cancel;
#[cfg_attr(
    not(feature = "intercept"),
    allow(dead_code, reason = "for the waits of foreign system calls")
)]
pub(crate) mod cut;
pub(crate) mod deadline;
pub(crate) mod expire;
pub(crate) mod interrupt;
pub(crate) mod joined;
pub(crate) mod park;
pub(crate) mod queue;
mod second_look;
pub(crate) mod yielding;

pub(crate) use queue::*;
pub(crate) use second_look::second_look;
