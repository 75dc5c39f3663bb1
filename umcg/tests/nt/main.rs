//! The objects of NT, by their public interface: workers of both kinds over numbers of servers,
//! workers in blocking scopes, and plain threads, together.

mod alone;
mod crowds;
mod forked;
mod mutexes;
#[allow(dead_code, reason = "shared with the tests of synchronisation")]
#[path = "../sync/parties.rs"]
mod parties;
mod sequential;
#[allow(dead_code, reason = "shared with the tests of the runtime")]
#[path = "../rt/support.rs"]
mod support;
mod timers;
mod waits;

use std::num::NonZeroU32;
use umcg::nt::{BorrowedHandle, Wait, WaitError, Woken};

/// An owner of the caller's.
fn id(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

/// Takes one object if it is signaled.
fn poll(object: BorrowedHandle<'_>) -> Result<Woken, WaitError> {
    Wait::any(&[object]).try_wait()
}

const TAKEN: Result<Woken, WaitError> = Ok(Woken::Object(0));
const LATE: Result<Woken, WaitError> = Err(WaitError::TimedOut);
