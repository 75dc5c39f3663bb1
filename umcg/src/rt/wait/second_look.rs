//! A second look, before a worker enters the queues of many things.
//!
//! To enter a queue and to leave it takes its lock twice; to look at its object takes a nanosecond.
//! Where workers of one server answer each other, the thing that a worker waits for is often there
//! once the others have had their turn. So the worker gives way to them, and looks again.
//!
//! - L1: *only where that pays.* Each worker counts its second looks. After one in vain it does
//!   without for the next 1, 3, 7 and at last [`MOST`] waits; after one that has found something it
//!   tries again at its next wait.
//! - L2: *not behind long turns.* A waiter in a queue may be run next when its thing comes; a
//!   worker that gave way runs when it is its turn. One look in [`TIMED`] is measured, and one that
//!   took longer than [`LONG`] counts as the last of many in vain; so does the next one, then.
//! - L3: the worker enters its queues later by one round of the ready workers at most, as it gives
//!   way once in a wait.
//! - L4: not for a wait with a deadline, which the others' turns could make late; nor among times
//!   and descriptors, to look at which takes a system call.
//!
//! Adaptive mutexes look at a lock again before they sleep, after a spin. Here the party that
//! brings the thing is often a worker that only this server runs, so a spin would be in its way.

use crate::rt::base::clock;
use crate::rt::engine::server;
use std::sync::atomic::Ordering::Relaxed;

/// How many waits in a row do without at most.
const MOST: u8 = 63;
/// One look in so many is measured.
const TIMED: u8 = 16;
/// In nanoseconds: the others' turns are long. As for patrols: for so long workers may wait on one
/// server while another one is idle.
const LONG: u64 = 50_000;

/// Lets the other workers of the server run, and then looks: for a caller that has looked before,
/// and would have to wait, until `deadline` at most. None if the look has found nothing, or would
/// not pay. A plain thread does not look. No point of cancellation. Switches.
#[inline]
pub(crate) fn second_look<T>(deadline: u64, look: impl FnOnce() -> Option<T>) -> Option<T> {
    if deadline != u64::MAX {
        return None;
    }
    let running = server::running()?;
    let account = &running.task().second_looks;
    let [without, pause, looks, _] = account.load(Relaxed).to_le_bytes();
    if let Some(fewer) = without.checked_sub(1) {
        account.store(u32::from_le_bytes([fewer, pause, looks, 0]), Relaxed);
        return None;
    }
    let begun = (looks % TIMED == 0).then(clock::now);
    let found = running.give_way_to_look().then(look).flatten();
    let is_long = begun.is_some_and(|begun| clock::now() - begun > LONG);
    let pause = match found {
        _ if is_long => MOST,
        Some(_) => 0,
        None => (2 * pause + 1).min(MOST),
    };
    // After a long turn the next look is measured, too.
    let looks = if is_long {
        looks
    } else {
        looks.wrapping_add(1)
    };
    account.store(u32::from_le_bytes([pause, pause, looks, 0]), Relaxed);
    found
}
