//! Running a runtime: the loop of its servers, their sleep, its watch, and the reports of both.

mod adapt;
pub(crate) mod deadlock;
pub(crate) mod dump;
mod fault;
pub(crate) mod idle;
pub(crate) mod inactive;
pub(crate) mod kernel_call;
mod preempt;
pub(crate) mod quit;
pub(crate) mod registry;
mod spread;
pub(crate) mod stall;
mod standby;
pub(crate) mod symbols;
pub(crate) mod threads;
pub(crate) mod trim;
pub(crate) mod turns;
pub(crate) mod watch;
