//! State that the kernel keeps for a thread: `docs/identity.md` has a row for each, and here is a
//! test for each row.

mod carriers;
mod credentials;
mod crowd;
mod helpers;
mod rows;
mod rseq;
mod shortage;
#[allow(dead_code, reason = "not all of it is used here")]
#[path = "../rt/support.rs"]
mod support;
