//! The state that the kernel and the C library keep for the process and for each kernel thread, as
//! far as it concerns a flow that moves: signals, faults, forks, the ends of threads, fences in all
//! of them.
//!
//! Knows nothing of uths, servers and workers. Where these have to act, their rooms leave a
//! function here ([`fault::judge_by`], [`fork::Part`], [`thread_end::watch`]).

pub mod asymmetric;
pub(crate) mod attempt;
pub mod boundary;
pub(crate) mod elsewhere;
pub(crate) mod everywhere;
pub(crate) mod fatal;
pub(crate) mod fault;
pub(crate) mod fork;
pub mod guarded;
pub mod kernel_thread;
pub(crate) mod sanitizer;
pub(crate) mod signal;
pub(crate) mod symbols;
pub(crate) mod thread_end;
pub(crate) mod unwinder;
