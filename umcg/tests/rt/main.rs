//! The runtime, by its public interface: each test over several numbers of servers and both kinds
//! of workers.
//!
//! `support` has the loop over those, the watchdog, and the checks at the end of each: no workers
//! left, and no threads.

#![allow(clippy::useless_vec, reason = "what is tested there is the allocator")]

mod aborts;
mod adapting;
mod anywhere;
mod dumps;
mod fairness;
mod faulty_schedulers;
mod futures;
mod joins;
mod kernel;
mod lives;
mod locals;
mod no_global;
mod parks;
mod preemption;
mod processes;
mod runtimes;
mod schedulers;
mod scopes;
mod shortages;
mod sleeps;
mod stacks;
mod stalls;
#[path = "../strace/mod.rs"]
mod strace;
mod support;
mod syscalls;
mod timeouts;
