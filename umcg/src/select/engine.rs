//! Waiting for the first of many: the one loop under altsems, talt and `select`.
//!
//! All are tried first, without standing anywhere. Then the caller stands in the queues of all, with one claim, and looks at each once more when it enters: what can be served then is
//! taken if nobody has claimed the caller meanwhile. Whoever claims it first serves it; then it leaves the other queues, which are as if it had never been there. No lock is held
//! across two of them.
//!
//! In which order they are tried and entered decides among those that are ready at once: from a start that moves on each time that is fair, from the first it is a
//! preference.

use crate::rt::wait::{self, ClaimedList, End, Place, Source, Waiter};
use std::sync::atomic::{AtomicUsize, Ordering::*};

/// What is waited for, by index.
pub(crate) trait Set {
    fn len(&self) -> usize;

    /// Whose queue it is; none for what nobody serves, like a time.
    fn source(&self, index: usize) -> Option<&dyn Source>;

    /// The place for that queue.
    fn place(&self, index: usize) -> &Place;

    /// What the source is told of the caller.
    fn note(&self, _index: usize) -> usize {
        0
    }

    /// All are going to be waited for. Returns when one is done by itself, in nanoseconds.
    fn prepare(&self) -> u64 {
        u64::MAX
    }

    /// The caller was served, with this note. False when that was no more than a hint, and all is to be looked at again.
    fn finish(&self, index: usize, note: usize) -> bool;
}

/// Another start each time; that two threads get the same now and then does not matter.
pub(crate) fn rotation(len: usize) -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let next = NEXT.load(Relaxed);
    NEXT.store(next.wrapping_add(1), Relaxed);
    if len == 0 { 0 } else { next % len }
}

fn rotated(len: usize, start: usize) -> impl Iterator<Item = usize> {
    (start..len).chain(0..start)
}

/// The first that can be served at once, from `start` on.
pub(crate) fn try_any(set: &impl Set, start: usize) -> Option<usize> {
    rotated(set.len(), start).find(|index| {
        let note = set.source(*index).and_then(|source| source.serve_now(set.note(*index)));
        note.is_some_and(|note| set.finish(*index, note))
    })
}

/// Waits for the first, until `deadline` at most. A point of cancellation if it has to wait. Switches.
pub(crate) fn any(set: &impl Set, start: usize, reason: &'static &'static str, deadline: u64) -> Option<usize> {
    loop {
        if let Some(index) = try_any(set, start) {
            return Some(index);
        }
        let enter = |waiter: &Waiter, served: &mut ClaimedList| enter_all(set, start, waiter, served);
        let leave = |served: &mut ClaimedList| leave_all(set, served);
        let deadline = deadline.min(set.prepare());
        let End::Served(index) = wait::many(reason, deadline, enter, leave) else { return None };
        if set.finish(index, set.place(index).note.get()) {
            return Some(index);
        }
    }
}

pub(crate) fn leave_all(set: &impl Set, served: &mut ClaimedList) {
    for index in 0..set.len() {
        if let Some(source) = set.source(index) {
            source.leave(set.place(index), served);
        }
    }
}

/// False when the caller has claimed itself, for what was there.
pub(crate) fn enter_all(set: &impl Set, start: usize, waiter: &Waiter, served: &mut ClaimedList) -> bool {
    for index in rotated(set.len(), start) {
        let Some(source) = set.source(index) else { continue };
        let place = set.place(index);
        place.begin(waiter, index, set.note(index));
        let mut is_mine = false;
        let mut claim = || {
            is_mine = waiter.claim_itself(index);
            is_mine
        };
        source.enter_or_claim(place, &mut claim, served);
        if is_mine {
            return false;
        }
        if waiter.is_claimed() {
            break;
        }
    }
    true
}
