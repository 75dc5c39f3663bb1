//! The mechanism under umcg: underlying threads, servers, workers.
//!
//! This crate says what happens and leaves safety to its callers where speed asks for it; the crate `umcg` puts safe types above.

mod fault;
mod table;
mod thread_end;
pub mod uth;

pub use umcg_context as context;

/// The calling kernel thread, or the thread worker whose context this is, ends.
fn thread_ended() {
    uth::thread_ended();
}
