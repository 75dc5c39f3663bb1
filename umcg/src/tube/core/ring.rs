//! The word of a tube: its bits, and the first and the number of the messages in the ring.
//!
//! ```text
//!   63       62           35 34            7   6 5   4       3      2        1         0
//!  | LOCKED | first message | how many (28) | - - | CALLS | HELD | CLOSED | SENDERS | RECEIVERS |
//! ```
//!
//! The bit LOCKED is that of [`word`](crate::rt::word). The numbers wrap at the tube's capacity.

pub(crate) const RECEIVERS: u64 = 1;
pub(crate) const SENDERS: u64 = 1 << 1;
pub(crate) const CLOSED: u64 = 1 << 2;
pub(crate) const HELD: u64 = 1 << 3;
pub(crate) const CALLS: u64 = 1 << 4;
const LEN: u32 = 7;
const ONE: u64 = 1 << LEN;
const HEAD: u32 = 35;
/// The most that a tube has room for.
pub(crate) const MOST: usize = (1 << (HEAD - LEN)) - 1;

/// How many messages are in the ring.
#[inline(always)]
pub(super) fn len(word: u64) -> usize {
    (word >> LEN) as usize & MOST
}

/// The place of the first one.
#[inline(always)]
pub(super) fn head(word: u64) -> usize {
    (word >> HEAD) as usize
}

/// The place behind the last one.
#[inline(always)]
pub(super) fn tail(word: u64, capacity: usize) -> usize {
    let tail = head(word) + len(word);
    if tail >= capacity {
        tail - capacity
    } else {
        tail
    }
}

/// The word after a message has come to the end.
#[inline(always)]
pub(super) fn with_last(word: u64) -> u64 {
    word + ONE
}

/// The word after the last message has gone.
#[inline(always)]
pub(super) fn without_last(word: u64) -> u64 {
    word - ONE
}

/// The word after the first message has gone.
#[inline(always)]
pub(super) fn without_first(word: u64, capacity: usize) -> u64 {
    let word = word - ONE;
    let next = head(word) + 1;
    if next == capacity {
        word & ((1 << HEAD) - 1)
    } else {
        word + (1 << HEAD)
    }
}

/// The word after a message has come before all others.
#[inline(always)]
pub(super) fn with_first(word: u64, capacity: usize) -> u64 {
    let first = head(word).checked_sub(1).unwrap_or(capacity - 1);
    (word & ((1 << HEAD) - 1)) + ONE + ((first as u64) << HEAD)
}
