//! The runtime: `spawn` a worker, and let servers see to the rest.
//!
//! A [`Runtime`] is a number of kernel threads, its servers, each of which asks a [`Scheduler`] for
//! a worker, runs it until it waits, and asks again. It is built on this crate's own servers and
//! workers; a program could have written it.
//!
//! | module | holds |
//! |---|---|
//! | `builder`, `owner`, `global` | the runtime as its owner has it, and the one of whoever has none |
//! | `threads` | its kernel threads, and its end |
//! | `spawn`, `scope`, `join`, `ending` | making workers, and waiting for their end |
//! | `park`, `handle` | how a worker or thread stops, and who makes it go on |
//! | `wait`, `spin` | the same for who stands in queues, and the lock of a queue |
//! | `last` | the rule for code of the program's that runs inside an operation: wakers, destructors |
//! | `time`, `wheel` | deadlines: `sleep`, `timeout` |
//! | `cancel` | asking a worker to end |
//! | `server`, `runtime`, `idle`, `watch` | the servers' loop, what they share, their sleep, and who looks after those that are stuck |
//! | `stall`, `kernel_call` | reports of workers that keep their server, and the call of the kernel they are in |
//! | `scheduler`, `runnable`, `per_server`, `here` | who runs next, and what schedulers are made of |
//! | `task`, `names` | the descriptor of a worker; its name in messages |
//! | `on_thread` | full workers where they have to be threads |
//! | `local`, `future` | worker-locals, and futures |
//! | `dump`, `symbols`, `quit` | what all workers are doing, in a text for people; on SIGQUIT |

mod builder;
mod cancel;
mod dump;
mod ending;
#[doc(hidden)]
pub mod foreign;
mod future;
mod global;
mod handle;
mod here;
mod idle;
mod join;
mod kernel_call;
pub(crate) mod last;
mod local;
pub(crate) mod names;
mod on_thread;
mod owner;
pub(crate) mod park;
mod per_server;
mod quit;
mod rank;
mod runnable;
mod runtime;
pub mod scheduler;
mod scope;
pub(crate) mod server;
mod spawn;
pub(crate) mod spin;
mod stack_size;
mod stall;
mod symbols;
pub(crate) mod sync;
mod task;
mod threads;
pub(crate) mod time;
mod trim;
pub(crate) mod wait;
mod watch;
pub(crate) mod wheel;

pub use crate::io::driver::DriverKind;
pub use builder::RuntimeBuilder;
pub use cancel::{checkpoint, shielded};
pub use ending::Ending;
pub use future::{block_on, spawn_future};
pub use global::global;
pub(crate) use global::with_driver;
pub use handle::Handle;
pub use here::Here;
pub use join::{JoinError, JoinHandle};
pub use local::WorkerLocal;
pub use owner::{Runtime, RuntimeHandle};
pub use park::{hand_over, park, park_deadline, park_timeout};
pub use per_server::{Load, PerServer};
pub use quit::{dump_all, dump_on_quit};
pub use runnable::{Queue, Runnable};
pub use scheduler::{Scheduler, Wake, Why};
pub use scope::{Scope, ScopedJoinHandle, scope};
pub use server::yield_now;
pub use spawn::{Builder, SpawnError, spawn, spawn_light};
pub use stall::{Stall, StallCause};
pub use time::{Elapsed, sleep, sleep_until, timeout, timeout_at};
pub use trim::trim;
