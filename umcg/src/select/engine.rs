//! Waiting for the first of many: the one loop under altsems, talt and `select`.
//!
//! All are tried first, without standing anywhere. Then the caller stands in the queues of all,
//! with one claim, and looks at each once more when it enters: what can be served then is taken if
//! nobody has claimed the caller meanwhile. Whoever claims it first serves it; then it leaves the
//! other queues, which are as if it had never been there. No lock is held across two of them.
//!
//! In which order they are tried and entered decides among those that are ready at once: see
//! [`order`](super::order).
//!
//! - E1: *nothing was there* is true of one moment. To try them one after the other does not show
//!   that, as what one looks for may move from those that follow to those before. So who finds
//!   nothing, and does not wait, stands in the queues of all and then claims itself, for nothing:
//!   from the last place to that claim none of them had anything, or somebody would have claimed
//!   the caller. What is found at once pays nothing for that.
//! - E2: *the lowest* is likewise not found by trying one after the other: of the first alone one
//!   knows that there is none before it. Any other is taken by who stands in the queues of all
//!   those before.

use super::order::{self, LookOrder};
use crate::rt::wait::{self, ClaimedList, Place, SelectQueue, WaitEnd, Waiter};

/// What is waited for, by index.
pub(crate) trait Alternatives {
    fn len(&self) -> usize;

    /// Whose queue it is; none for what nobody serves, like a time.
    fn queue(&self, index: usize) -> Option<&dyn SelectQueue>;

    /// What tells it from others, for a [`LookOrder`].
    #[inline]
    fn key(&self, index: usize) -> usize {
        self.queue(index)
            .map_or(0, |queue| (&raw const *queue).addr())
    }

    /// The place for that queue.
    fn place(&self, index: usize) -> &Place;

    /// What the queue is told of the caller. Does not unwind.
    fn note(&self, _index: usize) -> usize {
        0
    }

    /// All are going to be waited for. Returns when one is done by itself, in nanoseconds. Whatever
    /// does not hold is to be said here, or when it is tried: what follows must not unwind.
    fn prepare(&self) -> u64 {
        u64::MAX
    }

    /// It has no state that the process knows, and so no moment that it shares with others (E1).
    fn is_elsewhere(&self, _index: usize) -> bool {
        false
    }

    /// The caller was served, with this note. False when that was no more than a hint, and all is
    /// to be looked at again.
    fn finish(&self, index: usize, note: usize) -> bool;
}

/// None is preferred, over many looks at this set.
#[inline]
pub(crate) fn fair(alternatives: &impl Alternatives) -> LookOrder<'static> {
    let (len, key) = (alternatives.len(), |index| alternatives.key(index));
    LookOrder::fair(order::list_of(len, key), len, key)
}

/// Who only looks: what a wait ends with that has nothing, and no deadline.
const LOOK: Option<u64> = None;

/// The first that can be served at once, of those that are tried one after the other.
#[inline(always)]
pub(crate) fn scan(alternatives: &impl Alternatives, order: LookOrder<'_>) -> Option<usize> {
    order
        .find(|index| try_one(alternatives, index))
        .inspect(|index| order.took(*index, |index| alternatives.key(index)))
}

#[inline(always)]
fn try_one(alternatives: &impl Alternatives, index: usize) -> bool {
    let note = alternatives
        .queue(index)
        .and_then(|queue| queue.serve_now(alternatives.note(index)));
    note.is_some_and(|note| alternatives.finish(index, note))
}

/// One that can be served at once; none if for a moment there was none (E1). Never waits, and is no
/// point of cancellation.
#[inline(always)]
pub(crate) fn try_any(alternatives: &impl Alternatives, order: LookOrder<'_>) -> Option<usize> {
    // A look at one is a moment by itself.
    scan(alternatives, order).or_else(|| {
        if alternatives.len() <= 1 {
            None
        } else {
            look(alternatives, order.first())
        }
    })
}

/// The same of more than one, by a caller that has just tried all of them, this one first.
#[inline(never)]
pub(crate) fn look(alternatives: &impl Alternatives, first: usize) -> Option<usize> {
    until_sure(alternatives, first, || {
        stand(alternatives, first, &"", LOOK)
    })
}

/// Waits for the first, until `deadline` at most. A point of cancellation if it has to wait.
/// Switches.
#[inline(always)]
pub(crate) fn any(
    alternatives: &impl Alternatives,
    order: LookOrder<'_>,
    reason: &'static &'static str,
    deadline: u64,
) -> Option<usize> {
    scan(alternatives, order).or_else(|| wait_apart(alternatives, order.first(), reason, deadline))
}

/// What is ready at once does not pay for a frame in which one can wait.
#[inline(never)]
fn wait_apart(
    alternatives: &impl Alternatives,
    first: usize,
    reason: &'static &'static str,
    deadline: u64,
) -> Option<usize> {
    wait(alternatives, first, reason, deadline)
}

/// The same, by a caller that has just tried all of them, this one first.
#[inline(always)]
pub(crate) fn wait(
    alternatives: &impl Alternatives,
    first: usize,
    reason: &'static &'static str,
    deadline: u64,
) -> Option<usize> {
    until_sure(alternatives, first, || {
        stand(
            alternatives,
            first,
            reason,
            Some(deadline.min(alternatives.prepare())),
        )
    })
}

/// Stands until it was more than a hint that ended it.
#[inline(always)]
fn until_sure(
    alternatives: &impl Alternatives,
    first: usize,
    stand: impl Fn() -> Stood,
) -> Option<usize> {
    loop {
        match stand() {
            Stood::Served(index) => return Some(index),
            Stood::Nothing => return None,
            Stood::Hint => {
                if let Some(index) = scan_again(alternatives, first) {
                    return Some(index);
                }
            }
        }
    }
}

#[cold]
#[inline(never)]
fn scan_again(alternatives: &impl Alternatives, first: usize) -> Option<usize> {
    order::in_line(first, alternatives.len()).find(|index| try_one(alternatives, *index))
}

/// Waits for the lowest of those that are there at one moment (E2), until `deadline` at most; none
/// for a look only, which is no point of cancellation then and does not wait.
pub(crate) fn lowest(
    alternatives: &impl Alternatives,
    reason: &'static &'static str,
    deadline: Option<u64>,
) -> Option<usize> {
    loop {
        if alternatives.len() > 0 && try_one(alternatives, 0) {
            return Some(0);
        }
        if deadline == LOOK && alternatives.len() <= 1 {
            return None;
        }
        match stand(
            alternatives,
            0,
            reason,
            deadline.map(|deadline| deadline.min(alternatives.prepare())),
        ) {
            Stood::Served(index) => return Some(index),
            Stood::Hint => {}
            Stood::Nothing => return None,
        }
    }
}

/// How it ended to stand in the queues of all.
enum Stood {
    Served(usize),
    /// All is to be looked at again.
    Hint,
    Nothing,
}

fn stand(
    alternatives: &impl Alternatives,
    first: usize,
    reason: &'static &'static str,
    deadline: Option<u64>,
) -> Stood {
    let enter = |waiter: &Waiter, served: &mut ClaimedList| {
        enter_all(alternatives, first, waiter, served, deadline == LOOK)
    };
    let leave = |served: &mut ClaimedList| leave_all(alternatives, served);
    let end = match deadline {
        Some(deadline) => wait::many(reason, deadline, enter, leave),
        None => wait::look(
            |waiter, served| enter(waiter, served) && !waiter.claim_itself(alternatives.len()),
            leave,
        ),
    };
    match end {
        WaitEnd::Served(index) if index == alternatives.len() => Stood::Nothing,
        WaitEnd::Served(index)
            if alternatives.finish(index, alternatives.place(index).note.get()) =>
        {
            Stood::Served(index)
        }
        WaitEnd::Served(_) => Stood::Hint,
        WaitEnd::Revoked => Stood::Nothing,
    }
}

pub(crate) fn leave_all(alternatives: &impl Alternatives, served: &mut ClaimedList) {
    for index in 0..alternatives.len() {
        if let Some(queue) = alternatives.queue(index) {
            queue.leave(alternatives.place(index), served);
        }
    }
}

/// False when the caller has claimed itself, for what was there.
pub(crate) fn enter_all(
    alternatives: &impl Alternatives,
    first: usize,
    waiter: &Waiter,
    served: &mut ClaimedList,
    looks: bool,
) -> bool {
    for index in order::in_line(first, alternatives.len()) {
        let Some(queue) = alternatives.queue(index) else {
            continue;
        };
        if looks && alternatives.is_elsewhere(index) {
            continue;
        }
        let place = alternatives.place(index);
        place.begin(waiter, index, alternatives.note(index));
        let mut is_mine = false;
        let mut claim = || {
            is_mine = waiter.claim_itself(index);
            is_mine
        };
        queue.enter_or_claim(place, &mut claim, served);
        if is_mine {
            return false;
        }
        if waiter.is_claimed() {
            break;
        }
    }
    true
}
