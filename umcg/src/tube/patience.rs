//! How long one looks before one waits: for the lock, and, as a kernel thread, for a message or for room.
//!
//! A tube between two processors does most when each side goes on for a while by itself: what one has touched has to come over to the other, which takes longer than to send and receive
//! several messages. So who finds the tube locked, or nothing to do there, leaves it alone for some time. That is no waiting in its order: who stands in a queue is not overtaken.
//!
//! A kernel thread that has looked in vain lets others run some times before it stands in a queue, as the one that it waits for may want this very processor; to sleep and to be woken takes
//! several times as long.

use crate::rt::sync::{give_way, is_alone, spin};
use umcg_core::context::local;

/// How many turns one leaves a tube alone that is locked, about as long as somebody else needs to take it over.
const BACK: u32 = 16;
/// The same for a thread that finds nothing to do, one time after the other.
const PAUSES: [u32; 3] = [16, 32, 64];
/// How often a thread lets others run before it waits.
const WAYS: u32 = 4;
/// How often a lock is looked at before other threads may run.
const LOOKS: u32 = 20;

/// One look at the lock was in vain, the `looks`th.
#[cold]
pub(super) fn back_off(looks: u32) {
    if looks % LOOKS == 0 {
        return give_way();
    }
    (0..BACK).for_each(|_| spin());
}

/// Looks as long as it seems to be in vain, for a while. Does nothing in a worker, which has better things to do.
#[inline(always)]
pub(super) fn look_while(is_in_vain: impl Fn() -> bool) {
    if local::task().is_null() && is_in_vain() {
        look(&is_in_vain);
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
        give_way();
        if !is_in_vain() {
            return;
        }
    }
}
