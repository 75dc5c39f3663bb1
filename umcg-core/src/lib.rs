//! The mechanism under umcg: underlying threads, servers, workers.
//!
//! This crate says what happens and leaves safety to its callers where speed asks for it; the crate
//! `umcg` puts safe types above.

mod apart;
mod assembly;
pub mod asymmetric;
pub mod boundary;
pub mod ctl;
mod elsewhere;
mod everywhere;
mod fatal;
mod fault;
mod fork;
mod granted;
pub mod guarded;
mod identity;
mod link;
mod os;
mod overflow;
pub mod raw;
mod sanitizer;
pub mod storage;
mod symbols;
mod sync;
mod table;
mod thread_end;
mod timer;
mod umcg;
mod uncancelled;
pub mod uth;

pub use fatal::{fatal, say};
pub use granted::{Granted, granted};
pub use umcg_context as context;
pub use uncancelled::Uncancelled;

/// Handlers of signals.
pub mod signal {
    pub use crate::os::signal::{Function, install, without};
}

/// The calling kernel thread, or the thread worker whose context this is, ends.
fn thread_ended() {
    umcg::operation::thread_ended();
    uth::thread_ended();
}
