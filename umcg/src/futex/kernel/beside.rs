//! Wake-ups of waiters in the table, and of *others* beside it, which sleep in the kernel for the
//! same words (`intercept::outsider`).
//!
//! - B1: *the waiters in the table come first*. What they leave of a count is for the others, with
//!   the same bits. So a call wakes as many as the kernel would, whatever they wait in.
//! - B2: *the others are looked for last*: the word has been changed, and the table has passed a
//!   full fence since. One of the others that comes later finds the changed word.
//! - B3: *others are not moved*. They are woken in place of that, and look again.
//!
//! The function that wakes others gets a word, a count that is not 0, and bits. It returns how many
//! it has woken.

use super::super::table::Requeued;
use super::single::{self, ALL, Compared, OpError, WakeOp, at_least_one};

/// There are no others.
pub(super) fn nobody(_: usize, _: usize, _: u32) -> usize {
    0
}

/// [`single::wake`], and others.
#[inline]
pub(crate) fn wake(
    address: usize,
    count: i32,
    bits: u32,
    others: impl Fn(usize, usize, u32) -> usize,
) -> usize {
    let woken = single::wake(address, count, bits);
    match at_least_one(count).saturating_sub(woken) {
        0 => woken,
        left => woken + others(address, left, bits),
    }
}

/// [`single::wake_op`], and others. Returns how many were woken.
pub(crate) fn wake_op(
    first: (usize, i32),
    second: (usize, i32),
    op: WakeOp,
    others: impl Fn(usize, usize, u32) -> usize,
) -> Result<usize, OpError> {
    let done = single::wake_op(first, second, op)?;
    let rest = |(address, count): (usize, i32), woken: usize| match at_least_one(count)
        .saturating_sub(woken)
    {
        0 => 0,
        left => others(address, left, ALL),
    };
    let here = rest(first, done.here);
    let there = done.there.map_or(0, |woken| rest(second, woken));
    Ok(done.woken() + here + there)
}

/// [`single::requeue`], and others.
pub(crate) fn requeue(
    from: (usize, Option<u32>),
    to: usize,
    counts: (usize, usize),
    others: impl Fn(usize, usize, u32) -> usize,
) -> Compared {
    let compared = single::requeue(from, to, counts);
    let Compared::Done(done) = compared else {
        return compared;
    };
    let left = (counts.0 + counts.1).saturating_sub(done.woken + done.moved);
    let woken = match left {
        0 => 0,
        left => others(from.0, left, ALL),
    };
    Compared::Done(Requeued {
        woken: done.woken + woken,
        ..done
    })
}
