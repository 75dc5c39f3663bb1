//! The foundations of the runtime. They know nothing of the rest.

pub(crate) mod clock;
pub(crate) mod here;
pub(crate) mod last;
pub(crate) mod per_server;
pub(crate) mod rank;
pub(crate) mod spin;
pub(crate) mod stack_size;
pub(crate) mod sync;
pub(crate) mod timed;
pub(crate) mod wheel;
pub(crate) mod word;
