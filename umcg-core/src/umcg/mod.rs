//! Servers, workers and events: the base of `umcg_ctl` and the safe types.
//!
//! | module | holds |
//! |---|---|
//! | `group` | servers and the workers whose events they collect |
//! | `idle` | the idle lists: events that wait for a server, servers that wait for an event, deadlines |
//! | `worker`, `server` | the two parties, and the switches between them |
//! | `thread` | workers that are pthreads, and their home threads |
//! | `adopted` | threads that are workers without knowing it; `adopt`, how they become that; `adoption`, their state at home |
//! | `carry` | faults of adopted threads, which go home |
//! | `summons` | why such a thread has to come home; `stay`, those that stay there |
//! | `requeue` | signals that are sent again |
//! | `guest` | the part of this crate in the state of a thread whose system calls are intercepted |
//! | `reach` | the program's memory, as such a thread reaches it |
//! | `asked` | the same where the kernel does not copy |
//! | `light` | workers that are uths, with storage of their own or without |
//! | `blocking` | the scope in which a worker may block; `helper`, the threads that light workers block on |
//! | `role` | the caller's role |
//! | `tick`, `preempt` | the timers of preemption; the handler of their signal |
//! | `stuck`, `stuck_request` | workers that the kernel keeps, and that are taken off their servers |
//! | `process` | forks, overflows and ends of threads |
//! | `operation` | the operations of the interface, by role of the caller |
//!
//! # The life of a thread worker
//!
//! A pthread registers as a worker (`UMCG_REGISTER_WORKER`), a server runs it, it blocks once, and
//! it unregisters.
//!
//! 1. `thread::register` takes a descriptor (recycled, never freed), prepares the *home loop* on a
//!    small stack, and enters the descriptor under the thread's tid into `WORKERS`.
//!    `thread::arrive` blocks the kernel thread's signals and switches from the worker's context to
//!    the home loop.
//! 2. The home loop posts WAKE: the worker stands in the queue of `idle` (state QUEUED), and one
//!    idle server is woken. The home thread sleeps on `go`.
//! 3. A server in `WAIT` collects the event: the worker is RUNNABLE, or HELD where the event
//!    becomes a `Ready`. The program decides to run it.
//! 4. The server wins the right (`Lists::claim` by tid, or `Lists::take` by token: RUNNING), sets
//!    the worker's thread pointer, and switches to its context (`Server::run`). `register` returns
//!    in the worker, now on the server's kernel thread.
//! 5. The worker waits. `Worker::leave` writes WAIT into the server's mail, sets the server's
//!    thread pointer, and switches back. The server *settles*: it makes the worker RUNNABLE or HELD
//!    again, and returns the event. This round trip touches no lock and no system call.
//! 6. Run again, the worker begins a blocking scope: it leaves with BLOCK. The server settles it
//!    (BLOCKED) and posts `go`; the home thread loads the worker's context. Its system calls are
//!    now its own. At the end of the scope it switches back to the home loop, which posts WAKE.
//! 7. It unregisters: it leaves with EXIT; the server settles, `go` is posted, and the flow goes on
//!    at home for good, as a plain thread.
//!
//! A light worker has no home: it is made HELD or with a WAKE posted, and blocks on a helper
//! thread. When it exits, the server that settles it recycles stack and descriptor. Where FSGSBASE
//! is missing, thread workers are `Staying`: steps 4 and 5 hand over by a futex, with the same
//! meaning.
//!
//! A worker that switches to another one (`CTX_SWITCH`) leaves without its server:
//! `Worker::leave_to` runs `publish` on the *new* worker's stack, and that posts WAIT for the old
//! one, which by then is wholly saved. States, invariants, races and proof: docs/protocols/umcg.md.

pub(crate) mod addressee;
pub(crate) mod adopt;
pub(crate) mod adopted;
pub(crate) mod adoption;
mod asked;
mod awake;
pub(crate) mod blocking;
pub(crate) mod carry;
pub(crate) mod group;
pub(crate) mod guest;
pub(crate) mod helper;
pub(crate) mod homes;
pub(crate) mod idle;
pub(crate) mod light;
pub(crate) mod operation;
pub(crate) mod preempt;
mod process;
pub mod reach;
pub(crate) mod request;
pub(crate) mod requeue;
mod role;
pub(crate) mod server;
pub(crate) mod stay;
pub(crate) mod stuck;
mod stuck_request;
mod summons;
pub(crate) mod thread;
pub(crate) mod tick;
pub(crate) mod worker;

use crate::base::table::RefTable;
pub(crate) use role::*;
use rustix::time::{ClockId, clock_gettime};
use worker::Worker;

/// The workers that a tid names.
pub(crate) static WORKERS: RefTable<Worker> = RefTable::new();

/// Nanoseconds of CLOCK_REALTIME.
pub(crate) fn clock() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000) + now.tv_nsec as u64
}
