//! The benches behind `umcg bench`: each sets ours beside the peers, side by side in one run.
//!
//! A bench is a list of [`harness::Case`]s. The [`harness`] runs them in alternating rounds on pinned threads and turns what they
//! measured into one [`harness::Report`], which can be printed as a table, as JSON or as a picture. A bench therefore only says
//! what one round of each side does; see [`switch`] for the smallest example.

pub mod harness;
pub mod rt;
pub mod switch;
pub mod sync;
pub mod uth;
