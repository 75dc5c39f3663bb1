//! A runtime as programs see it: its builder and owner, making workers, waiting for their end.

pub(crate) mod body;
pub(crate) mod builder;
pub(crate) mod count;
pub(crate) mod end;
pub(crate) mod ending;
pub mod ffi;
pub(crate) mod future;
pub(crate) mod global;
pub(crate) mod join;
pub(crate) mod local;
pub(crate) mod making;
pub(crate) mod names;
pub(crate) mod on_thread;
pub(crate) mod owner;
pub(crate) mod scope;
pub(crate) mod spawn;
pub(crate) mod time;
