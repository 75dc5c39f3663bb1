//! The parts of the mechanism: links and tables of descriptors, deadlines, locks and futexes, where
//! descriptors lie, and memory that may be refused. Knows nothing of threads' roles, and uses no
//! module but its own.

pub(crate) mod call;
pub(crate) mod granted;
pub(crate) mod link;
pub(crate) mod page_offset;
pub(crate) mod scarce;
pub(crate) mod sync;
pub(crate) mod table;
pub(crate) mod timer;
pub(crate) mod uncancelled;
