//! `umcg/sync.h`: C's names for everything in `umcg::sync` except semaphores.
//!
//! Objects are parts of the caller's data. The C tests check that zeros, and the header's
//! initialisers, are objects.

mod barrier;
mod condvar;
pub(crate) mod event;
mod mutex;
mod objects;
mod once;
mod rwlock;
mod wait_group;
