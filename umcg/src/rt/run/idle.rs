//! Idle servers: a bounded search, and then sleep, at no cost.
//!
//! # Steps
//!
//! ```text
//!   a server that finds nothing          who makes something ready
//!   ---------------------------          -------------------------
//!   searching += 1; look for a while     put it into a queue
//!   searching -= 1                       light()
//!   say that it sleeps                   is anybody searching? then that is enough
//!   heavy()                              does anybody sleep? wake one
//!   look once more; if there is
//!   something, take the saying back
//!   sleep until woken or due
//! ```
//!
//! - S1: who puts and who is about to sleep store first and load then, with `light` and `heavy`
//!   between: so either the sleeper finds what was put, or the other finds the sleeper. The same
//!   for what a searcher may have passed: it stops being one before it says that it sleeps.
//! - S2: a server is woken by whoever changes its word from sleeping to awake: one at most, so no
//!   wake-up is spent on one that is awake already. A searcher ends its search without a system
//!   call; so who counts on one has a fence of its own then.
//! - S3: the last searcher that finds something wakes another, if there is more: so work that comes
//!   in bulk wakes all.
//! - S4: one sleeper at most sleeps in the driver, and is woken there; the others on their words by
//!   futex. Who is woken for work is one of the others, if there is any. The driver's wake-up may
//!   go to another poller (the watch polls too), so the sleeper looks at its word once more when it
//!   would be heard.

use super::{deadlock, turns};
use crate::rt::base::clock;
use crate::rt::base::sync::{AtomicU32, Ordering::*, fence};
use crate::rt::engine::server::ServerState;
use crate::rt::engine::sleepers::{IN_DRIVER, ON_FUTEX};
use crate::rt::wait::expire::expire;
use rustix::thread::futex::{self, Flags};
use std::hint::spin_loop;
use std::num::NonZeroU32;
use std::time::Duration;
use umcg_core::{asymmetric, raw};

/// How often a searcher looks at most, and how long it waits in between.
const LOOKS: u32 = 4;
const PAUSES: u32 = 20;
/// Every so often one whose searches were of no use tries again.
const AGAIN: u64 = 32;

/// In nanoseconds: when to look again whether all wait for each other, and whether the driver is
/// free.
const SOON: u64 = 1_000_000;
const AT_ONCE: u64 = 100_000;

/// The server has nothing to run: returns when it may have.
pub(crate) fn idle(local: &ServerState, server: raw::Server) {
    if search(local, server) {
        return;
    }
    let shared = local.shared();
    let index = local.here().index();
    let in_driver = !shared.sleepers.in_driver.swap(true, Relaxed);
    let how = if in_driver { IN_DRIVER } else { ON_FUTEX };
    shared.sleepers.fall_asleep(index, how);
    if shared.seats.len() == 1 {
        // ORDERING(outside-wake.2): SeqCst, pairs with outside-wake.1 and all-asleep.1: all others
        // are outside.
        fence(SeqCst);
    } else {
        asymmetric::heavy();
    }
    if !has_work(local) {
        sleep(local, shared.sleepers.word(index), in_driver);
    }
    if in_driver {
        shared.sleepers.in_driver.store(false, Relaxed);
    }
    shared.sleepers.wake_up(index);
    // Whom it runs now may run for ever.
    shared.watch.stay_awake();
    expire(local.timers());
    if let Some(worker) = turns::next(local, server) {
        hand_on(local);
        local.run(server, worker);
    }
}

/// Sleeps where the server's word says: in the driver or on the word itself. Returns at the latest
/// when something is due.
fn sleep(local: &ServerState, word: &AtomicU32, in_driver: bool) {
    let shared = local.shared();
    let mut until = local.timers().next();
    if deadlock::look(shared, local) {
        until = until.min(clock::now() + SOON);
    }
    // Another one may be polling: the watch, or a server that is just looking.
    let polled = in_driver
        && shared
            .driver
            .poll_while(clock::until(until), &mut || word.load(Relaxed) == IN_DRIVER);
    if polled {
        return;
    }
    if in_driver {
        let is_mine = word
            .compare_exchange(IN_DRIVER, ON_FUTEX, Relaxed, Relaxed)
            .is_ok();
        if !is_mine {
            return;
        }
        // The one that has the driver to itself, and could not poll, tries again soon: the others
        // count on it.
        until = until.min(clock::now() + AT_ONCE);
    }
    let until = clock::timespec(until);
    let _ = futex::wait_bitset(
        word,
        Flags::PRIVATE,
        ON_FUTEX,
        until.as_ref(),
        NonZeroU32::MAX,
    );
}

/// Who was asleep, or about to be, takes one worker, and wakes another server if there is more:
/// that what comes in bulk does not stay with few.
fn hand_on(local: &ServerState) {
    let shared = local.shared();
    if shared.scheduler.has_work(local.here()) && !shared.sleepers.nobody_is_needed() {
        shared.sleepers.wake_one(&*shared.driver);
    }
}

/// Whether there is something for this server to do.
fn has_work(local: &ServerState) -> bool {
    let shared = local.shared();
    // The end, too: two last workers that end at once may each not have seen the other's end.
    let is_empty = shared.closing.load(Relaxed) && shared.live() == 0;
    shared.attention() || local.has_work() || shared.group.has_events() || is_empty
}

/// Looks for a bounded time. True when there is something to do.
fn search(local: &ServerState, server: raw::Server) -> bool {
    let shared = local.shared();
    if shared.closing.load(Relaxed) && shared.live() == 0 {
        shared.end();
        return true;
    }
    local.note_look();
    let looks = match local.patience.get() {
        0 if local.looks() % AGAIN == 0 => 1,
        looks => looks,
    };
    if looks == 0 {
        return false;
    }
    // Half of the servers search at most: more would only get in each other's way.
    let mine = shared.sleepers.searching.fetch_add(1, Relaxed);
    if mine > 0 && mine as usize * 2 >= shared.seats.len() {
        shared.sleepers.end_search();
        return false;
    }
    let mut found = None;
    for _ in 0..looks {
        expire(local.timers());
        if shared.driver.has_sources() {
            shared.driver.poll(Some(Duration::ZERO));
        }
        found = turns::next(local, server);
        if found.is_some() || shared.attention() {
            break;
        }
        (0..PAUSES).for_each(|_| spin_loop());
    }
    let last = shared.sleepers.end_search();
    let Some(worker) = found else {
        local.patience.set(looks / 2);
        return shared.is_over();
    };
    local.patience.set((looks * 2).min(LOOKS));
    if last && shared.scheduler.has_work(local.here()) && shared.sleepers.asleep() > 0 {
        shared.sleepers.wake_one(&*shared.driver);
    }
    local.run(server, worker);
    true
}
