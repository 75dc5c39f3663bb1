//! The sources' `std`: atomics and cells of the checker's.

pub(crate) mod atomic;
pub(crate) mod cell;
pub(crate) mod pool;
pub(crate) mod turns;
