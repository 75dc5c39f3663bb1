//! How long a caller spins before it waits: for the lock, and for a message or for room.
//!
//! A tube between two processors has its best throughput when each side goes on for a while by
//! itself: transferring the cache lines that the other has touched takes longer than sending and
//! receiving several messages. So a caller that finds the tube locked, or nothing to do there,
//! leaves it alone for some time. Meanwhile it does not stand in the queue, and does not overtake
//! any waiter there.
//!
//! A kernel thread that has spun in vain lets other threads run some times before it stands in a
//! queue, because the thread that it waits for may need this very processor. To sleep and be woken
//! takes several times as long.
//!
//! A worker stands in the queue at once if it is the first there: it is served as soon as a peer
//! comes, and nothing is faster than that. If others stand there before it, it lets the other
//! workers run once, and looks again. By then there may be messages enough, or room enough, for
//! many operations of its own, none of which then takes a switch. It does so only once, so that no
//! worker stays outside of the order for longer than a round of its server.

use crate::rt::sync::{give_way, give_way_briefly, is_alone, spin};
use crate::rt::yield_now;
use umcg_core::context::local;

/// How many turns of spinning a thread leaves a locked tube alone: about as long as another caller
/// needs to fill or empty the tube.
const BACK: u32 = 24;
/// The same for a worker. Other workers wait for this processor, so it should get more done once it
/// has the tube.
const BACK_OF_WORKER: u32 = 96;
/// The same for a thread that finds nothing to do: one pause after the other.
const PAUSES: [u32; 3] = [32, 32, 64];
/// How often a thread lets other threads run before it waits: about as long as it takes to fall
/// asleep and be woken.
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

/// Spins for a while, as long as `is_in_vain`. A worker does so only if it would not be the first
/// to wait; this is a point of cancellation for it.
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
