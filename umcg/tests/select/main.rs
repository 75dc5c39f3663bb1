//! Waiting for the first of many: by its public interface, over numbers of servers and both kinds
//! of workers, and from kernel threads.

mod descriptors;
mod ends;
mod fairness;
mod moments;
mod objects;
mod second_looks;
mod semaphores;
mod sets;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;
mod times;
