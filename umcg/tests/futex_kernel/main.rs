//! futex(2) and futex_waitv(2) in user mode, beside those of the kernel that the tests run on: the
//! same calls on both sides, with the same results.
//!
//! `errors` makes every combination of bad and good arguments; `sequences` runs random operations
//! of a few waiters. The other modules are about the library's side alone: waits that are cut,
//! crowds of workers and threads at the same words, and figures (`--ignored --nocapture`).
#![cfg(feature = "intercept")]

mod crowds;
mod cuts;
mod errors;
mod figures;
mod sequences;
mod side;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;
