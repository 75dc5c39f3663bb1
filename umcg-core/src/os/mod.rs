//! What the kernel keeps by kernel thread, and a flow that moves has to deal with. Uses no module
//! but its own.

pub(crate) mod attempt;
pub(crate) mod signal;
pub(crate) mod unwinder;
