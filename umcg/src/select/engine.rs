//! Waiting for the first of many: the one loop under altsems, talt and `select`.
//!
//! All are tried first, without entering a queue. Then the caller stands in the queues of all, with
//! one claim, and tries each once more when it enters: it takes the first that is ready then, if it
//! can still claim itself. The first party that claims the caller serves it. Then the caller leaves
//! the other queues, which are as if it had never been there. No lock is held across two of them.
//!
//! The order in which they are tried and entered decides among those that are ready at once: see
//! [`order`](super::order).
//!
//! - E1: *nothing was there* is true of one moment. To try them one after the other does not show
//!   that, because a thing may move from a later one to an earlier one meanwhile. So a caller that
//!   finds nothing, and does not wait, stands in the queues of all, and then claims itself for
//!   nothing. From its last place to that claim none of them had anything, or the caller would have
//!   been claimed. A caller that finds something at once pays nothing for that.
//! - E2: *the lowest* is likewise not found by trying one after the other. Only of the first is it
//!   known that none comes before it. Any other is taken only by a caller that stands in the queues
//!   of all those before it.

use super::order::{self, KeptOrder, LookOrder};
use crate::rt::wait::{self, ClaimedList, Place, SelectQueue, WaitEnd, Waiter};

/// The operations or objects that are waited for, by index.
pub(crate) trait Alternatives {
    fn len(&self) -> usize;

    /// The queue to stand in; none for an operation without one, like a time.
    fn queue(&self, index: usize) -> Option<&dyn SelectQueue>;

    /// A key that tells it from others, for a [`LookOrder`].
    #[inline]
    fn key(&self, index: usize) -> usize {
        self.queue(index)
            .map_or(0, |queue| (&raw const *queue).addr())
    }

    /// The place for that queue.
    fn place(&self, index: usize) -> &Place;

    /// The note with which the caller enters the queue. Does not unwind.
    fn note(&self, _index: usize) -> usize {
        0
    }

    /// Called before all are waited for. Returns the time at which one is done by itself, in
    /// nanoseconds. Preconditions are checked here, or when it is tried: what follows must not
    /// unwind.
    fn prepare(&self) -> u64 {
        u64::MAX
    }

    /// Whether the caller may take its time before it enters the queues, and to look at them again
    /// is cheap.
    fn may_look_again(&self) -> bool {
        true
    }

    /// The process does not know its state, so there is no moment that it shares with others (E1).
    fn is_elsewhere(&self, _index: usize) -> bool {
        false
    }

    /// The caller was served, with this note. False if that was only a hint, and all are to be
    /// tried again.
    fn finish(&self, index: usize, note: usize) -> bool;
}

/// An order in which none is preferred, over many looks at this list.
#[inline]
pub(crate) fn fair(alternatives: &impl Alternatives) -> LookOrder<'static> {
    let (len, key) = (alternatives.len(), |index| alternatives.key(index));
    LookOrder::fair(order::list_of(len, key), len, key)
}

/// In place of a deadline: the caller only looks.
const LOOK: Option<u64> = None;

/// Tries one after the other. Returns the first that can be served at once.
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

/// Returns one that can be served at once; none if there was a moment at which none could (E1).
/// Never waits, and is no point of cancellation.
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
    scan(alternatives, order).or_else(|| wait_apart(alternatives, order.kept(), reason, deadline))
}

/// Out of line, so that a caller that need not wait does not pay for the frame of a wait.
#[inline(never)]
fn wait_apart(
    alternatives: &impl Alternatives,
    order: KeptOrder<'_>,
    reason: &'static &'static str,
    deadline: u64,
) -> Option<usize> {
    let look = || scan(alternatives, order.order(alternatives.len()));
    let again = alternatives
        .may_look_again()
        .then(|| wait::second_look(deadline, look));
    again
        .flatten()
        .or_else(|| wait(alternatives, order.first(), reason, deadline))
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

/// Stands again and again, until it was more than a hint that ended it.
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

/// Waits for the lowest of those that are ready at one moment (E2), until `deadline` at most.
/// Without a deadline it only looks: it does not wait, and is no point of cancellation.
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

/// How standing in the queues of all ended.
enum Stood {
    Served(usize),
    /// All are to be tried again.
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

/// Enters all queues. False if the caller has claimed itself, for one that was ready.
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
