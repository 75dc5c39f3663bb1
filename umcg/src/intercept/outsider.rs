//! Threads that are no guests, and private words: the library's own threads, guests inside this
//! layer, and handlers of the C library's that run on any of them.
//!
//! Such a thread may need a lock of the C library, or free one. It can be anywhere in the library's
//! own code, with its locks taken. So it neither waits in the table of words nor wakes there:
//!
//! - O1: *it waits in the kernel*, and is counted meanwhile. A guest that wakes a word looks at the
//!   count after its change of the word, and wakes in the kernel, too, if there is one. The waiter
//!   counts itself before the kernel looks at the word.
//! - O2: *its wake-ups are made twice*: in the kernel, by itself; and in the table, by the courier,
//!   which finds them in [`POSTED`]. A waiter that is woken for both takes no harm, as it looks at
//!   its word.

use super::run;
use std::sync::atomic::{AtomicUsize, Ordering::*};
use umcg_core::call as make;
use umcg_core::raw;
use umcg_intercept::{Call, Next};

const COMMAND: usize = 127;
const PRIVATE: usize = libc::FUTEX_PRIVATE_FLAG as usize;

/// How many outsiders wait in the kernel.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// Words that outsiders have woken, for the courier; 0 for a free place.
static POSTED: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];

/// A call of an outsider, if it is about a private word. None if the kernel is just to make it.
pub(super) fn pass(call: &mut Call) -> Option<Next> {
    let [word, operation, ..] = call.arguments;
    if call.number as libc::c_long != libc::SYS_futex || operation & PRIVATE == 0 {
        return None;
    }
    match ((operation & COMMAND) as i32, call.step) {
        (libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET, 0) => {
            // ORDERING(outsider.1): SeqCst, pairs with outsider.2: counted before the kernel looks
            // at the word.
            WAITING.fetch_add(1, SeqCst);
            Some(Next::Again)
        }
        (libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET, _) => {
            WAITING.fetch_sub(1, Relaxed);
            Some(Next::Return)
        }
        (
            libc::FUTEX_WAKE
            | libc::FUTEX_WAKE_BITSET
            | libc::FUTEX_WAKE_OP
            | libc::FUTEX_REQUEUE
            | libc::FUTEX_CMP_REQUEUE,
            _,
        ) => {
            post(word);
            None
        }
        _ => None,
    }
}

/// Leaves a word to the courier. Async-signal-safe, and takes no lock.
fn post(word: usize) {
    if !run::is_begun() {
        return; // no guest waits in the table
    }
    loop {
        let free = |place: &&AtomicUsize| {
            // ORDERING(posted.1): Release, pairs with posted.2: the change of the word is seen.
            place.compare_exchange(0, word, Release, Relaxed).is_ok()
        };
        if POSTED.iter().any(|place| free(&place)) {
            return raw::rouse_courier();
        }
        // The courier is about to empty it.
        // SAFETY: no arguments.
        unsafe { make(libc::SYS_sched_yield, [0; 6]) };
    }
}

/// The courier's part: calls `wake` with each word.
pub(super) fn take_posted(wake: impl Fn(usize)) {
    for place in &POSTED {
        // ORDERING(posted.2): Acquire, pairs with posted.1.
        let word = place.swap(0, Acquire);
        if word != 0 {
            wake(word);
        }
    }
}

/// A guest has changed the word and woken it in the table: wakes outsiders, too.
pub(super) fn wake_too(arguments: [usize; 6]) {
    // ORDERING(outsider.2): pairs with outsider.1. The table's wake has passed a full fence, or a
    // locked operation, since the guest's change of the word.
    if WAITING.load(Relaxed) != 0 {
        let [word, _, count, ..] = arguments;
        let operation = libc::FUTEX_WAKE as usize | PRIVATE;
        // SAFETY: only the word's address counts.
        unsafe { make(libc::SYS_futex, [word, operation, count, 0, 0, 0]) };
    }
}
