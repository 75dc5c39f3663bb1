//! How long one looks before one waits: for the lock, and for a message or for room.
//!
//! A tube between two processors does most when each side goes on for a while by itself: what one
//! has touched has to come over to the other, which takes longer than to send and receive several
//! messages. So who finds the tube locked, or nothing to do there, leaves it alone for some time.
//! That is no waiting in its order: who stands in a queue is not overtaken.
//!
//! A kernel thread that has looked in vain lets others run some times before it stands in a queue,
//! as the one that it waits for may want this very processor; to sleep and to be woken takes
//! several times as long.
//!
//! A worker stands in the queue at once if it is the first there: it is served as soon as anybody
//! comes, and nothing is faster than that. If others stand there before it, it lets the other
//! workers run once, and looks again: when it is its turn there may be messages enough, or room
//! enough, for many of its own, and none of these then takes a switch. It does so once only, so
//! that nobody stays outside of the order for longer than a round of its server.

use crate::rt::sync::{give_way, give_way_briefly, is_alone, spin};
use crate::rt::yield_now;
use umcg_core::context::local;

/// How many turns a thread leaves a tube alone that is locked: about as long as somebody else needs
/// for what the tube has room for.
const BACK: u32 = 24;
/// The same for a worker: as there are others behind it on this processor, it is to come away with
/// more when it has taken the tube over.
const BACK_OF_WORKER: u32 = 96;
/// The same for a thread that finds nothing to do, one time after the other.
const PAUSES: [u32; 3] = [32, 32, 64];
/// How often a thread lets others run before it waits: about as long as it takes to fall asleep and
/// to be woken.
const WAYS: u32 = 64;
/// How often a lock is looked at before other threads may run.
const LOOKS: u32 = 20;

/// A look at the lock was in vain. `looks` counts them.
#[cold]
pub(super) fn back_off(looks: &mut u32) {
    *looks += 1;
    if *looks % LOOKS == 0 {
        return give_way();
    }
    let turns = if local::task().is_null() {
        BACK
    } else {
        BACK_OF_WORKER
    };
    (0..turns).for_each(|_| spin());
}

/// Looks as long as it seems to be in vain, for a while: as a thread, or as a worker if it would
/// not be the first to wait. A point of cancellation for a worker.
#[inline(always)]
pub(super) fn look_while(is_in_vain: impl Fn() -> bool, is_first: impl Fn() -> bool) {
    if !is_in_vain() {
        return;
    }
    if local::task().is_null() {
        look(&is_in_vain);
    } else if !is_first() {
        yield_now();
    }
}

#[cold]
fn look(is_in_vain: &dyn Fn() -> bool) {
    if !is_alone() {
        for pauses in PAUSES {
            (0..pauses).for_each(|_| spin());
            if !is_in_vain() {
                return;
            }
        }
    }
    for _ in 0..WAYS {
        give_way_briefly();
        if !is_in_vain() {
            return;
        }
    }
}
