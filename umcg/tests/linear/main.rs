//! Are operations that overlap as if one came after the other? Short histories of semaphores and
//! tubes are recorded, and each is explained by what its operations would do one at a time, or it
//! is wrong.
//!
//! Workers of both kinds and kernel threads do random things for a moment. What each asked for and
//! was told is kept with two numbers of one counter, before and after. Then [`checker`] looks for
//! an order that agrees with all of it. An operation that waits has two moments: it comes, and it
//! is served, or gives up; in between it stands in its queue, which is a part of the specification.
//! So the order of those that wait is checked as well, and that one who gives up has changed
//! nothing. That somebody stands there is known when it was seen: some only look.

mod checker;
#[allow(dead_code, reason = "shared with the stress of servers")]
#[path = "../stress/harness.rs"]
mod harness;
mod record;
#[allow(dead_code, reason = "shared with the stress of the runtime")]
#[path = "../stress/runtime.rs"]
mod runtime;
mod semaphores;
mod tubes;
mod wrong;
