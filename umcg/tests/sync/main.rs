//! Synchronisation, by its public interface: workers of both kinds over numbers of servers, workers
//! in blocking scopes, and plain threads, together.

mod altsems;
mod barriers;
mod condvars;
mod events;
mod forms;
mod mutexes;
mod objects;
mod once;
mod parties;
mod rwlocks;
mod semaphores;
mod sequential;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;
mod types;
mod wait_groups;
