//! Servers, workers and events: the base of `umcg_ctl` and the safe types.
//!
//! | module | holds |
//! |---|---|
//! | `group` | servers and the workers whose events they collect |
//! | `idle` | the idle lists: events that wait for a server, servers that wait for an event, deadlines |
//! | `worker`, `server` | the two parties, and the switches between them |
//! | `thread` | workers that are pthreads, and their home threads |
//! | `light` | workers that are uths, with storage of their own or without |
//! | `blocking` | the scope in which a worker may block; `helper`, the threads that light workers block on |
//! | `role` | the caller's role |
//! | `tick`, `preempt` | the timers of preemption; the handler of their signal |
//! | `process` | forks, overflows and ends of threads |
//! | `operation` | the operations of the interface, by role of the caller |

pub(crate) mod blocking;
pub(crate) mod group;
pub(crate) mod helper;
pub(crate) mod idle;
pub(crate) mod light;
pub(crate) mod operation;
pub(crate) mod preempt;
mod process;
mod role;
pub(crate) mod server;
pub(crate) mod thread;
pub(crate) mod tick;
pub(crate) mod worker;

use crate::base::table::Table;
pub(crate) use role::*;
use rustix::time::{ClockId, clock_gettime};
use worker::Worker;

/// The workers that a tid names.
pub(crate) static WORKERS: Table<Worker> = Table::new();

/// Nanoseconds of CLOCK_REALTIME.
pub(crate) fn clock() -> u64 {
    let now = clock_gettime(ClockId::Realtime);
    (now.tv_sec as u64).wrapping_mul(1_000_000_000) + now.tv_nsec as u64
}
