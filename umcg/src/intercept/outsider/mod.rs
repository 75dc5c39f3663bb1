//! Private words, and flows that do not wait in the table of words: the library's own threads,
//! flows inside this layer, plain threads of a program that uses the library, and waits for locks
//! that the C library needs for itself.
//!
//! Such a flow waits in the kernel. If it may have locks of the library's, it does not wake in the
//! table either. The protocol is in [`state`], which its model has, too.

mod state;

use crate::futex::kernel::{is_idle, wake_all};
pub(super) use state::{FACTOR, WordCall, word_call};
use umcg_intercept::{Call, Next};

/// The number of counts.
pub(super) const COUNTS: usize = 256;

pub(super) static OUTSIDERS: state::Outsiders<COUNTS, 64> = state::Outsiders::new();
/// In it: the counts, that of lists, and the byte for threads that were never counted.
pub(super) const FIELDS: [usize; 3] = state::Outsiders::<COUNTS, 64>::FIELDS;

/// A call of an outsider, if it is about a private word. None if the kernel is just to make it,
/// with the arguments that it has then.
pub(super) fn pass(call: &mut Call) -> Option<Next> {
    OUTSIDERS.pass(call)
}

/// The caller is about to wait for the word in the kernel.
pub(super) fn begin_wait(which: WordCall, word: usize) {
    OUTSIDERS.begin_wait(which, word);
}

/// The caller's wait in the kernel is over.
pub(super) fn end_wait(which: WordCall, word: usize) {
    OUTSIDERS.end_wait(which, word);
}

/// Sets whether there may be threads that sleep in the kernel for a word, and were never counted:
/// then each wake looks there.
pub(super) fn set_uncounted(are_there: bool) {
    OUTSIDERS.set_uncounted(are_there);
}

/// From here on there is a courier.
pub(super) fn has_courier() {
    OUTSIDERS.has_courier();
}

/// The courier's part: wakes the words that outsiders have woken in the table.
pub(super) fn take_posted() {
    OUTSIDERS.take_posted();
}

/// Wakes up to so many outsiders of the word that have one of these bits, once the word is changed
/// and the table's waiters are woken. Returns how many.
#[inline]
pub(super) fn wake(word: usize, count: usize, bits: u32) -> usize {
    OUTSIDERS.wake(word, count, bits)
}
