//! Futexes, by their public interface: workers of both kinds over numbers of servers, and plain threads, together.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the light workers here keep nothing across a switch that they must not")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "as above")]

mod many;
mod parties;
mod shared;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;
mod words;
