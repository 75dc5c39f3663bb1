//! Servers that are inactive: more servers than processors only get in each other's way.
//!
//! The number of active servers is a word ([`Active`](crate::rt::engine::active::Active)) that the
//! watch changes (`adapt`). The servers with the lowest indexes are active, the first one always.
//! An inactive server leaves to the others each worker that these may run. It is *told* by the
//! word, and then *leaves*, or *comes back*, by itself:
//!
//! ```text
//!             the number falls             it looks               (idle)
//!    ACTIVE ------------------> TOLD TO GO ---------> INACTIVE <---------> RESTING
//!      ^ ^                          |                    |                    |
//!      | '--------------------------'                    |                    |
//!      |       the number grows                          v                    |
//!      '------------------------------------------ TOLD TO COME <-------------'
//!            it looks                                       it is woken
//!
//!   the watch                            a server
//!   ---------                            --------
//!   store the number                     look: it is inactive from here on
//!   heavy()                              no longer: searching, on patrol, in the driver
//!   for each server that is told:        hand over: heavy(); workers for all? wake an active one
//!     its countdown is 0                 each turn: give its slot and its queues away, with a
//!     does it sleep? wake it               wake-up; run a worker that no other would run
//!                                        none: publish that it rests; heavy(); look once more:
//!                                          told otherwise, a worker of its own, an event? awake
//!                                        rest until woken, or until a deadline of its own
//! ```
//!
//! - I1: *only active servers are relied on.* Up to when it leaves, others may rely on the server:
//!   by a wake-up, or since it searches or is on patrol (S2, S4, S5 of `idle`). So it hands over
//!   once all these have ended, behind `heavy`: each worker that a thread has left to it is seen
//!   there. From then on no thread finds it: its word is never that of a sleeper that `wake_one`
//!   takes, it does not search, and takes no naps. Where urgent workers preempt others, it was
//!   perhaps called for one (`rank`): it calls again, and no call finds its post any more.
//! - I2: *what is for all is where all look.* Workers that come to an inactive server (a worker
//!   that it runs spawns or wakes them, a deadline of its own, an event of the group, a worker that
//!   was preempted there) are put where each server looks, in its next turn, and an active server
//!   is woken as for any other worker. The watch still takes the slot of one that is stuck.
//! - I3: *what is its own it runs.* Workers that are bound to it, and deadlines of workers that
//!   began to wait there. A thread that puts such a worker wakes this server, also while it rests.
//!   The rest is like a sleep in S1: the server stores that it rests, and then looks; the thread
//!   stores the worker, and then looks.
//! - I4: the watch stores the number and then looks which servers sleep; a server stores that it
//!   sleeps and then looks at the number. So none sleeps over a change.
//! - I5: a worker that an inactive server runs gives the processor back to the server's loop: the
//!   countdown stays at 0. So no worker picks the next one there.
//!
//! A running worker keeps its server until it waits, yields or is preempted, also one that any
//! server may run.

use crate::rt::base::sync::heavy;
use crate::rt::engine::runtime::RuntimeState;
use crate::rt::engine::server::ServerState;
use crate::rt::scheduler::Wake;
use crate::rt::task::runnable::Runnable;

/// Makes so many servers active: one at least, and all at most. Called by the watch.
pub(crate) fn set_active(shared: &RuntimeState, count: usize) {
    let before = shared.active.count();
    let count = count.clamp(1, shared.servers.len());
    if count == before {
        return;
    }
    shared.active.set(count);
    heavy();
    for index in before.min(count)..before.max(count) {
        shared.tell(index);
        shared.sleepers.wake(&*shared.driver, index);
    }
}

/// Whether the server is told to leave, or to come back, and has not looked yet.
pub(super) fn is_told(local: &ServerState) -> bool {
    local.shared().active.has(local.here().index()) == local.is_inactive()
}

/// Whether the calling server is inactive. Does what it has been told.
pub(super) fn look(local: &ServerState) -> bool {
    if is_told(local) {
        change(local);
    }
    local.is_inactive()
}

#[cold]
fn change(local: &ServerState) {
    local.set_inactive(!local.is_inactive());
    if !local.is_inactive() {
        return;
    }
    let shared = local.shared();
    if shared.driver.has_sources() {
        shared.sleepers.cover_driver(&*shared.driver);
    }
    hand_over(local);
}

/// I1: the calling server has become inactive, or has ended what others relied on.
#[cold]
pub(super) fn hand_over(local: &ServerState) {
    let shared = local.shared();
    heavy();
    shared.call_again();
    if shared.scheduler.has_work(local.here()) {
        shared.wake_from_outside(Wake::One);
    }
}

/// The worker that an inactive server is to run.
pub(super) fn next(local: &ServerState) -> Option<Runnable> {
    let shared = local.shared();
    local.give_slot_away();
    match shared.scheduler.give_away(local.here()) {
        Wake::Nobody => {}
        wake => shared.wake_from_outside(wake),
    }
    local.pick_bound()
}
