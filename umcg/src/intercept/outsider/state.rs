//! The counts of outsiders that wait, and the words that they leave to the courier.
//!
//! - O1: *an outsider waits in the kernel*, and is counted meanwhile, by its word. A party that
//!   wakes a word in the table looks at the count after its change of the word, and wakes in the
//!   kernel, too, if there is one. The waiter counts itself before the kernel looks at the word.
//!   Words share counts, so a count may be another word's: then a wake in the kernel finds nobody.
//! - O2: *wake-ups of outsiders are made twice*: in the kernel, by themselves; and in the table, by
//!   the courier, which finds their words in `posted`. There all waiters of the word are woken,
//!   whatever their bits and the count: they look at their word. It is posted after its change: at
//!   once, as the caller has changed it; but after the call if the call itself changes it.
//! - O3: *a thread that slept before calls were intercepted* was never counted. As long as there
//!   may be one, each wake looks in the kernel, too.
//! - O4: *an outsider is not moved*, neither by a guest's call (`futex::kernel::beside`) nor by an
//!   outsider's: it would wait at one word, and be counted at another. It is woken in place of
//!   that.

use super::{is_idle, wake_all};
use crate::rt::sync::{AtomicBool, AtomicUsize, Ordering::*, give_way};
use std::mem::offset_of;
use umcg_core::call as make;
use umcg_core::raw;
use umcg_intercept::{Call, Next};

const COMMAND: usize = 127;
const PRIVATE: usize = libc::FUTEX_PRIVATE_FLAG as usize;
/// Of the hash by which words share counts.
pub(crate) const FACTOR: usize = 0x9e37_79b9_7f4a_7c15;

/// What a futex call of private words does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordCall {
    /// It waits for one word.
    Wait,
    /// It waits for several.
    WaitForList,
    /// It wakes or moves waiters.
    Wake,
}

/// Whether this is a futex call for private words, other than those of priority inheritance.
#[inline(always)]
pub(crate) fn word_call(call: &Call) -> Option<WordCall> {
    match call.number as libc::c_long {
        libc::SYS_futex if call.arguments[1] & PRIVATE != 0 => match command(call) {
            libc::FUTEX_WAIT | libc::FUTEX_WAIT_BITSET => Some(WordCall::Wait),
            libc::FUTEX_WAKE
            | libc::FUTEX_WAKE_BITSET
            | libc::FUTEX_WAKE_OP
            | libc::FUTEX_REQUEUE
            | libc::FUTEX_CMP_REQUEUE => Some(WordCall::Wake),
            _ => None,
        },
        libc::SYS_futex_waitv => Some(WordCall::WaitForList),
        _ => None,
    }
}

#[inline(always)]
fn command(call: &Call) -> libc::c_int {
    (call.arguments[1] & COMMAND) as libc::c_int
}

/// Of outsiders, with so many counts, and so many places for words.
pub(crate) struct Outsiders<const COUNTS: usize, const PLACES: usize> {
    /// How many wait in the kernel, for words with this index.
    waiting: [AtomicUsize; COUNTS],
    /// How many wait for lists of words.
    lists: AtomicUsize,
    /// There may be threads that sleep in the kernel for a word, and were never counted.
    has_uncounted: AtomicBool,
    /// Words that outsiders have woken, for the courier; 0 for a free place.
    posted: [AtomicUsize; PLACES],
    /// Whether there is a courier. Before that nobody waits in the table.
    has_courier: AtomicBool,
}

impl<const COUNTS: usize, const PLACES: usize> Outsiders<COUNTS, PLACES> {
    /// Where [`Outsiders::is_waited_for`] looks, for code that does the same with few registers:
    /// the counts, that of lists, and the byte for threads that were never counted.
    pub(super) const FIELDS: [usize; 3] = [
        offset_of!(Self, waiting),
        offset_of!(Self, lists),
        offset_of!(Self, has_uncounted),
    ];

    pub(super) const fn new() -> Self {
        Outsiders {
            waiting: [const { AtomicUsize::new(0) }; COUNTS],
            lists: AtomicUsize::new(0),
            has_uncounted: AtomicBool::new(false),
            posted: [const { AtomicUsize::new(0) }; PLACES],
            has_courier: AtomicBool::new(false),
        }
    }

    /// A call of an outsider, if it is about a private word. None if the kernel is just to make it,
    /// with the arguments that it has then.
    pub(super) fn pass(&self, call: &mut Call) -> Option<Next> {
        match word_call(call)? {
            WordCall::Wake if command(call) == libc::FUTEX_WAKE_OP => self.operate(call),
            WordCall::Wake => {
                self.post(call.arguments[0]);
                wake_in_place_of_moving(call);
                None
            }
            which if call.step == 0 => {
                self.begin_wait(which, call.arguments[0]);
                Some(Next::Again)
            }
            which => {
                self.end_wait(which, call.arguments[0]);
                Some(Next::Return)
            }
        }
    }

    /// A call that changes a word of the caller's, and wakes waiters of another one, too.
    fn operate(&self, call: &Call) -> Option<Next> {
        if call.step == 0 {
            return Some(Next::Again);
        }
        if call.result >= 0 {
            let [first, .., second, _] = call.arguments;
            self.post(first);
            self.post(second);
        }
        Some(Next::Return)
    }

    fn count_of(&self, which: WordCall, word: usize) -> &AtomicUsize {
        match which {
            WordCall::WaitForList => &self.lists,
            _ => &self.waiting[((word >> 2).wrapping_mul(FACTOR) >> 56) % COUNTS],
        }
    }

    pub(super) fn begin_wait(&self, which: WordCall, word: usize) {
        // ORDERING(outsider.1): SeqCst, pairs with outsider.2: counted before the kernel looks at
        // the word.
        self.count_of(which, word).fetch_add(1, SeqCst);
    }

    pub(super) fn end_wait(&self, which: WordCall, word: usize) {
        self.count_of(which, word).fetch_sub(1, Relaxed);
    }

    pub(super) fn set_uncounted(&self, are_there: bool) {
        self.has_uncounted.store(are_there, Relaxed);
    }

    pub(super) fn has_courier(&self) {
        self.has_courier.store(true, Relaxed);
    }

    /// Leaves a word to the courier. Async-signal-safe, and takes no lock.
    fn post(&self, word: usize) {
        if !self.has_courier.load(Relaxed) || is_idle(word) {
            return; // nobody waits in the table
        }
        loop {
            let free = |place: &&AtomicUsize| {
                // ORDERING(posted.1): Release, pairs with posted.2: the change of the word is seen.
                place.compare_exchange(0, word, Release, Relaxed).is_ok()
            };
            if self.posted.iter().any(|place| free(&place)) {
                return raw::rouse_courier();
            }
            give_way(); // the courier is about to empty it
        }
    }

    /// The courier's part: wakes these words in the table.
    pub(super) fn take_posted(&self) {
        for place in &self.posted {
            // ORDERING(posted.2): Acquire, pairs with posted.1.
            let word = place.swap(0, Acquire);
            if word != 0 {
                wake_all(word);
            }
        }
    }

    /// Wakes up to so many outsiders, at least one, of a word that has been changed.
    #[inline]
    pub(super) fn wake(&self, word: usize, count: usize, bits: u32) -> usize {
        if !self.is_waited_for(word) {
            return 0;
        }
        let operation = libc::FUTEX_WAKE_BITSET as usize | PRIVATE;
        let count = count.min(i32::MAX as usize);
        // SAFETY: only the word's address counts.
        let result = unsafe {
            make(
                libc::SYS_futex,
                [word, operation, count, 0, 0, bits as usize],
            )
        };
        usize::try_from(result).unwrap_or(0)
    }

    fn is_waited_for(&self, word: usize) -> bool {
        // ORDERING(outsider.2): pairs with outsider.1. The table's wake has passed a full fence, or
        // a locked operation, since the caller's change of the word.
        self.count_of(WordCall::Wait, word).load(Relaxed) != 0
            || self.lists.load(Relaxed) != 0
            || self.has_uncounted.load(Relaxed)
    }
}

/// A call that would move outsiders wakes them.
fn wake_in_place_of_moving(call: &mut Call) {
    if !matches!(command(call), libc::FUTEX_REQUEUE | libc::FUTEX_CMP_REQUEUE) {
        return;
    }
    let [_, _, count, others, ..] = &mut call.arguments;
    // Negative counts are an error, which the kernel finds.
    let (woken, moved) = (*count as i32, *others as i32);
    if woken >= 0 && moved >= 0 {
        (*count, *others) = (woken.saturating_add(moved) as usize, 0);
    }
}
