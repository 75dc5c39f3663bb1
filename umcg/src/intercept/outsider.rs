//! Private words, and flows that do not wait in the table of words: the library's own threads,
//! flows inside this layer, plain threads of a program that uses the library, and waits for locks
//! that the C library needs for itself.
//!
//! Such a flow waits in the kernel. If it may have locks of the library's, it does not wake in the
//! table either.
//!
//! - O1: *it waits in the kernel*, and is counted meanwhile, by its word. A party that wakes a word
//!   in the table looks at the count after its change of the word, and wakes in the kernel, too, if
//!   there is one. The waiter counts itself before the kernel looks at the word. Words share
//!   counts, so a count may be another word's: then a wake in the kernel finds nobody.
//! - O3: *a thread that slept before calls were intercepted* was never counted. As long as there
//!   may be one, each wake looks in the kernel, too ([`set_uncounted`]).
//! - O2: *wake-ups of the library's are made twice*: in the kernel, by itself; and in the table, by
//!   the courier, which finds them in [`POSTED`]. A waiter that is woken for both takes no harm, as
//!   it looks at its word.

use crate::futex::kernel;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use umcg_core::call as make;
use umcg_core::raw;
use umcg_intercept::{Call, Next};

const COMMAND: usize = 127;
const PRIVATE: usize = libc::FUTEX_PRIVATE_FLAG as usize;
const EVERYONE: usize = i32::MAX as usize;

/// How many counts there are.
const COUNTS: usize = 256;

/// How many outsiders wait in the kernel, for words with this index.
static WAITING: [AtomicUsize; COUNTS] = [const { AtomicUsize::new(0) }; COUNTS];
/// How many wait for lists of words.
static LISTS: AtomicUsize = AtomicUsize::new(0);

/// There may be threads that sleep in the kernel for a word, and were never counted.
static HAS_UNCOUNTED: AtomicBool = AtomicBool::new(false);

/// Words that outsiders have woken, for the courier; 0 for a free place.
static POSTED: [AtomicUsize; 64] = [const { AtomicUsize::new(0) }; 64];
/// Whether there is a courier. Before that nobody waits in the table.
static HAS_COURIER: AtomicBool = AtomicBool::new(false);

/// What a futex call of private words does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordCall {
    /// It waits for one word.
    Wait,
    /// It waits for several.
    WaitForList,
    /// It wakes or moves waiters.
    Wake,
}

/// Whether this is a futex call for private words, other than those of priority inheritance.
#[inline(always)]
pub(super) fn word_call(call: &Call) -> Option<WordCall> {
    match call.number as libc::c_long {
        libc::SYS_futex if call.arguments[1] & PRIVATE != 0 => {
            match (call.arguments[1] & COMMAND) as i32 {
                libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Some(WordCall::Wait),
                libc::FUTEX_WAKE
                | libc::FUTEX_WAKE_BITSET
                | libc::FUTEX_WAKE_OP
                | libc::FUTEX_REQUEUE
                | libc::FUTEX_CMP_REQUEUE => Some(WordCall::Wake),
                _ => None,
            }
        }
        libc::SYS_futex_waitv => Some(WordCall::WaitForList),
        _ => None,
    }
}

/// A call of an outsider, if it is about a private word. None if the kernel is just to make it.
pub(super) fn pass(call: &mut Call) -> Option<Next> {
    match word_call(call)? {
        WordCall::Wake => {
            let [word, operation, .., second, _] = call.arguments;
            post(word);
            if (operation & COMMAND) as i32 == libc::FUTEX_WAKE_OP {
                post(second);
            }
            None
        }
        which if call.step == 0 => {
            begin_wait(which, call.arguments[0]);
            Some(Next::Again)
        }
        which => {
            end_wait(which, call.arguments[0]);
            Some(Next::Return)
        }
    }
}

fn count_of(which: WordCall, word: usize) -> &'static AtomicUsize {
    const MULTIPLIER: usize = 0x9e37_79b9_7f4a_7c15;
    match which {
        WordCall::WaitForList => &LISTS,
        _ => &WAITING[(word >> 2).wrapping_mul(MULTIPLIER) >> 56 & (COUNTS - 1)],
    }
}

/// The caller is about to wait for the word in the kernel.
pub(super) fn begin_wait(which: WordCall, word: usize) {
    // ORDERING(outsider.1): SeqCst, pairs with outsider.2: counted before the kernel looks at the
    // word.
    count_of(which, word).fetch_add(1, SeqCst);
}

/// The caller's wait in the kernel is over.
pub(super) fn end_wait(which: WordCall, word: usize) {
    count_of(which, word).fetch_sub(1, Relaxed);
}

/// Sets whether there may be threads that sleep in the kernel for a word, and were never counted:
/// then each wake looks there.
pub(super) fn set_uncounted(are_there: bool) {
    HAS_UNCOUNTED.store(are_there, Relaxed);
}

/// From here on there is a courier.
pub(super) fn has_courier() {
    HAS_COURIER.store(true, Relaxed);
}

/// Leaves a word to the courier. Async-signal-safe, and takes no lock.
fn post(word: usize) {
    if !HAS_COURIER.load(Relaxed) || kernel::is_idle(word) {
        return; // nobody waits in the table
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

/// The courier's part: wakes these words in the table.
pub(super) fn take_posted() {
    for place in &POSTED {
        // ORDERING(posted.2): Acquire, pairs with posted.1.
        let word = place.swap(0, Acquire);
        if word != 0 {
            kernel::wake_all(word);
        }
    }
}

/// The caller has changed the word and made this call, which wakes, in the table, where it has
/// found so many waiters: wakes outsiders, too. Returns how many.
#[inline]
pub(super) fn wake_too(arguments: &[usize; 6], woken: usize) -> usize {
    let [word, operation, count, second_count, second, _] = *arguments;
    let count = match (operation & COMMAND) as i32 {
        libc::FUTEX_WAKE_OP => {
            return wake_in_kernel(word, count) + wake_in_kernel(second, second_count);
        }
        // Those that the call would move do not look at the other word: they wake, and look again.
        libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE => EVERYONE,
        _ => count.saturating_sub(woken),
    };
    wake_in_kernel(word, count)
}

#[inline]
fn wake_in_kernel(word: usize, count: usize) -> usize {
    if count == 0 || !is_waited_for(word) {
        return 0;
    }
    let operation = libc::FUTEX_WAKE as usize | PRIVATE;
    // SAFETY: only the word's address counts.
    let result = unsafe { make(libc::SYS_futex, [word, operation, count, 0, 0, 0]) };
    usize::try_from(result).unwrap_or(0)
}

fn is_waited_for(word: usize) -> bool {
    // ORDERING(outsider.2): pairs with outsider.1. The table's wake has passed a full fence, or a
    // locked operation, since the caller's change of the word.
    count_of(WordCall::Wait, word).load(Relaxed) != 0
        || LISTS.load(Relaxed) != 0
        || HAS_UNCOUNTED.load(Relaxed)
}
