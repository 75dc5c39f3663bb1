//! Sleeping on words that processes share. The models replace this by their own.

use crate::futex::shared;
use crate::rt::sync::{AtomicU32, is_alone};
use crate::rt::{server, yield_now};
use umcg_core::context::way::nap;

/// How often a waiter checks before it sleeps.
const LOOKS: u32 = 200;

/// Nanoseconds between two checks of a lock whose holder may be dead.
const PAUSE: u32 = 200_000;

/// Wakes the threads that sleep on the word.
pub(super) fn wake(word: &AtomicU32) {
    shared::wake(word, 1);
}

/// Sleeps while the word has this value, until `until` at most; may return earlier. A point of
/// cancellation. Switches.
pub(super) fn sleep(word: &AtomicU32, expected: u32, until: u64) {
    let _ = shared::wait_until(word, expected, until);
}

/// How often to check before sleeping. 0 for a worker, whose server has other workers to run, and
/// where no other thread can be running.
pub(super) fn looks() -> u32 {
    if is_alone() || server::current_task().is_some() {
        0
    } else {
        LOOKS
    }
}

/// Lets other workers run, if the caller is one. A point of cancellation. Switches.
pub(super) fn give_way() {
    if server::current_task().is_some() {
        yield_now();
    }
}

/// Lets the holder of a lock run. It may need the caller's own processor.
pub(super) fn pause() {
    nap(PAUSE);
}
