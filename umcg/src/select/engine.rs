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

use super::order::{self, Order};
use crate::rt::wait::{self, ClaimedList, Place, SelectQueue, WaitEnd, Waiter};

/// What is waited for, by index.
pub(crate) trait Set {
    fn len(&self) -> usize;

    /// Whose queue it is; none for what nobody serves, like a time.
    fn queue(&self, index: usize) -> Option<&dyn SelectQueue>;

    /// What tells it from others, for an [`Order`].
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
pub(crate) fn fair(set: &impl Set) -> Order<'static> {
    let (len, key) = (set.len(), |index| set.key(index));
    Order::fair(order::list_of(len, key), len, key)
}

/// Who only looks: what a wait ends with that has nothing, and no deadline.
const LOOK: Option<u64> = None;

/// The first that can be served at once, of those that are tried one after the other.
#[inline(always)]
pub(crate) fn scan(set: &impl Set, order: Order<'_>) -> Option<usize> {
    order
        .find(|index| try_one(set, index))
        .inspect(|index| order.took(*index, |index| set.key(index)))
}

#[inline(always)]
fn try_one(set: &impl Set, index: usize) -> bool {
    let note = set
        .queue(index)
        .and_then(|queue| queue.serve_now(set.note(index)));
    note.is_some_and(|note| set.finish(index, note))
}

/// One that can be served at once; none if for a moment there was none (E1). Never waits, and is no
/// point of cancellation.
#[inline(always)]
pub(crate) fn try_any(set: &impl Set, order: Order<'_>) -> Option<usize> {
    // A look at one is a moment by itself.
    scan(set, order).or_else(|| {
        if set.len() <= 1 {
            None
        } else {
            look(set, order.first())
        }
    })
}

/// The same of more than one, by a caller that has just tried all of them, this one first.
#[inline(never)]
pub(crate) fn look(set: &impl Set, first: usize) -> Option<usize> {
    until_sure(set, first, || stand(set, first, &"", LOOK))
}

/// Waits for the first, until `deadline` at most. A point of cancellation if it has to wait.
/// Switches.
#[inline(always)]
pub(crate) fn any(
    set: &impl Set,
    order: Order<'_>,
    reason: &'static &'static str,
    deadline: u64,
) -> Option<usize> {
    scan(set, order).or_else(|| wait_apart(set, order.first(), reason, deadline))
}

/// What is ready at once does not pay for a frame in which one can wait.
#[inline(never)]
fn wait_apart(
    set: &impl Set,
    first: usize,
    reason: &'static &'static str,
    deadline: u64,
) -> Option<usize> {
    wait(set, first, reason, deadline)
}

/// The same, by a caller that has just tried all of them, this one first.
#[inline(always)]
pub(crate) fn wait(
    set: &impl Set,
    first: usize,
    reason: &'static &'static str,
    deadline: u64,
) -> Option<usize> {
    until_sure(set, first, || {
        stand(set, first, reason, Some(deadline.min(set.prepare())))
    })
}

/// Stands until it was more than a hint that ended it.
#[inline(always)]
fn until_sure(set: &impl Set, first: usize, stand: impl Fn() -> Stood) -> Option<usize> {
    loop {
        match stand() {
            Stood::Served(index) => return Some(index),
            Stood::Nothing => return None,
            Stood::Hint => {
                if let Some(index) = scan_again(set, first) {
                    return Some(index);
                }
            }
        }
    }
}

#[cold]
#[inline(never)]
fn scan_again(set: &impl Set, first: usize) -> Option<usize> {
    order::in_line(first, set.len()).find(|index| try_one(set, *index))
}

/// Waits for the lowest of those that are there at one moment (E2), until `deadline` at most; none
/// for a look only, which is no point of cancellation then and does not wait.
pub(crate) fn lowest(
    set: &impl Set,
    reason: &'static &'static str,
    deadline: Option<u64>,
) -> Option<usize> {
    loop {
        if set.len() > 0 && try_one(set, 0) {
            return Some(0);
        }
        if deadline == LOOK && set.len() <= 1 {
            return None;
        }
        match stand(
            set,
            0,
            reason,
            deadline.map(|deadline| deadline.min(set.prepare())),
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
    set: &impl Set,
    first: usize,
    reason: &'static &'static str,
    deadline: Option<u64>,
) -> Stood {
    let enter = |waiter: &Waiter, served: &mut ClaimedList| {
        enter_all(set, first, waiter, served, deadline == LOOK)
    };
    let leave = |served: &mut ClaimedList| leave_all(set, served);
    let end = match deadline {
        Some(deadline) => wait::many(reason, deadline, enter, leave),
        None => wait::look(
            |waiter, served| enter(waiter, served) && !waiter.claim_itself(set.len()),
            leave,
        ),
    };
    match end {
        WaitEnd::Served(index) if index == set.len() => Stood::Nothing,
        WaitEnd::Served(index) if set.finish(index, set.place(index).note.get()) => {
            Stood::Served(index)
        }
        WaitEnd::Served(_) => Stood::Hint,
        WaitEnd::Revoked => Stood::Nothing,
    }
}

pub(crate) fn leave_all(set: &impl Set, served: &mut ClaimedList) {
    for index in 0..set.len() {
        if let Some(queue) = set.queue(index) {
            queue.leave(set.place(index), served);
        }
    }
}

/// False when the caller has claimed itself, for what was there.
pub(crate) fn enter_all(
    set: &impl Set,
    first: usize,
    waiter: &Waiter,
    served: &mut ClaimedList,
    looks: bool,
) -> bool {
    for index in order::in_line(first, set.len()) {
        let Some(queue) = set.queue(index) else {
            continue;
        };
        if looks && set.is_elsewhere(index) {
            continue;
        }
        let place = set.place(index);
        place.begin(waiter, index, set.note(index));
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
