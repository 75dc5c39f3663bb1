//! The runtime: `spawn` a worker, and let servers see to the rest.
//!
//! A [`Runtime`] is a number of kernel threads, its servers. Each server asks a [`Scheduler`] for a
//! worker, runs it until it waits, and asks again. It is built on the servers and workers that this
//! crate offers to programs; a program could have written it.
//!
//! A room imports only rooms below it:
//!
//! | room | holds |
//! |---|---|
//! | `api` | runtimes as their owners have them; making workers, waiting for their end, scopes, futures |
//! | `run` | the servers' loop, their sleep, the watch, dumps and reports |
//! | `wait` | how a worker or thread stops and goes on: parking, queues, deadlines, cancellation |
//! | `engine` | the state of a runtime and of a server: the running worker, the hop to the next one, waking servers |
//! | `scheduler` | which worker runs next |
//! | `task` | the descriptor of a worker or thread, and the right to run it |
//! | `base` | clock, locks, timer wheel, proofs of place |

pub(crate) mod api;
pub(crate) mod base;
pub(crate) mod engine;
pub(crate) mod run;
pub mod scheduler;
pub(crate) mod task;
pub(crate) mod wait;

pub(crate) use base::timed::timed;
pub(crate) use base::{clock as time, last, spin, sync, word};
pub(crate) use engine::server;

pub use crate::io::driver::DriverKind;
pub use api::builder::RuntimeBuilder;
pub use api::ending::Ending;
#[doc(hidden)]
pub use api::ffi;
pub use api::future::{block_on, spawn_future};
pub use api::global::global;
pub use api::join::{JoinError, JoinHandle};
pub use api::local::WorkerLocal;
pub use api::making::{Builder, SpawnError};
pub use api::owner::{Runtime, RuntimeHandle};
pub use api::scope::{Scope, ScopedJoinHandle, scope};
pub use api::spawn::{spawn, spawn_light};
pub use api::time::{sleep, sleep_until, timeout, timeout_at};
pub use base::clock::Elapsed;
pub use base::here::Here;
pub use base::per_server::{Load, PerServer};
pub use engine::stalls::{Stall, StallCause};
pub use run::quit::{dump_all, dump_on_quit};
pub use run::trim::trim;
pub use scheduler::{Scheduler, Wake, Why};
pub use task::{Handle, Queue, Runnable};
pub use wait::cancel::{checkpoint, shielded};
pub use wait::park::{hand_over, park, park_deadline, park_timeout};
pub use wait::yielding::yield_now;
