//! Waiting for the first of many: by its public interface, over numbers of servers and both kinds of workers, and from kernel threads.

#![allow(clippy::undocumented_unsafe_blocks, reason = "the light workers here keep nothing across a switch that they must not")]
#![allow(clippy::multiple_unsafe_ops_per_block, reason = "as above")]

mod descriptors;
mod ends;
mod objects;
mod semaphores;
mod sets;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;
mod times;
