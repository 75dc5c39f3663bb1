//! Are operations that overlap as if one came after the other? Short histories of semaphores and
//! tubes are recorded. Each must be explained by the effects of its operations one at a time, or it
//! is wrong.
//!
//! Workers of both kinds and kernel threads do random things for a moment. Each question and its
//! answer is kept with two numbers of one counter, before and after. Then [`checker`] looks for an
//! order that agrees with all of it. An operation that waits has two moments: it comes, and it is
//! served, or gives up. In between it stands in its queue, which is a part of the specification. So
//! the order of the waiters is checked as well, and that a waiter which gives up has changed
//! nothing. A waiter is known to stand there when it was seen: some parties only look.

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
