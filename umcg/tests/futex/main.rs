//! Futexes, by their public interface: workers of both kinds over numbers of servers, and plain
//! threads, together.

mod many;
mod parties;
mod shared;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;
mod words;
