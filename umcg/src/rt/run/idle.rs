//! Idle servers: a bounded search, and then sleep at no cost.
//!
//! # Steps
//!
//! ```text
//!   a server that finds no worker        a thread that makes a worker ready
//!   -----------------------------        ----------------------------------
//!   searching += 1; look for a while     put it into a queue
//!   searching -= 1                       light()
//!   publish that it sleeps               does a server search? then that is enough
//!   heavy()                              does a server sleep? wake one
//!   look once more; if there is a
//!   worker, take the word back
//!   sleep until woken or due
//! ```
//!
//! - S1: the thread that puts a worker and the server that is about to sleep both store first and
//!   load then, with `light` and `heavy` between. So either the sleeper finds the worker, or the
//!   thread finds the sleeper. The same holds for a worker that a searcher may have passed: the
//!   searcher ends its search before it publishes that it sleeps.
//! - S2: the thread that changes a server's word from sleeping to awake wakes that server. There is
//!   at most one such thread, so no wake-up is spent on a server that is awake already. A searcher
//!   ends its search without a system call. So a thread that relies on a searcher has a fence of
//!   its own.
//! - S3: the last searcher that finds a worker wakes another server, if there are more workers, and
//!   so does a server that was woken. So work that comes in bulk wakes all servers. A server that
//!   was woken and finds no worker at its first look searches and sleeps again: it takes none
//!   without that step.
//! - S4: at most one sleeper sleeps in the driver, and is woken there. The others sleep on their
//!   words, and are woken by futex. For work, one of the others is woken, if there is any. The
//!   driver's wake-up may go to another poller (the watch polls too). So the sleeper checks its
//!   word once more at the point from which on it would receive a wake-up.
//! - S5: a scheduler may ask for *naps*: the server then looks again by itself, and the scheduler
//!   relies on that. So a nap needs no fence: a worker that its last look misses is seen after it.
//!   The server stays here as long as it naps. Before it runs a worker, it tells the scheduler that
//!   the naps are over, and then looks whether another server has to be woken.
//! - S6: where there are many servers, those that were woken wake the others, two each: a thread
//!   that wakes a server takes 7 us for it, and has other work. So it wakes none while four are
//!   *under way*: woken, and not yet past their first look. A server counts itself out, with a full
//!   fence behind, before it looks (S3). So either the thread sees that it is no longer under way,
//!   or the server sees the worker.

use super::{deadlock, inactive, turns};
use crate::rt::base::clock;
use crate::rt::base::sync::{Ordering::*, full_fence, pause};
use crate::rt::engine::server::ServerState;
use crate::rt::engine::sleepers::{IN_DRIVER, ON_FUTEX, RESTING};
use crate::rt::wait::expire::expire;
use rustix::thread::futex::{self, Flags};
use std::num::NonZeroU32;
use std::time::Duration;
use umcg_core::{asymmetric, raw};

/// How often a searcher looks at most, and how long it waits between two looks.
const LOOKS: u32 = 4;
const PAUSES: u32 = 20;
/// After how many turns a server whose searches found no worker searches again.
const AGAIN: u64 = 32;

/// In nanoseconds: when to check again whether all workers wait for each other, and whether the
/// driver is free.
const SOON: u64 = 1_000_000;
const AT_ONCE: u64 = 100_000;

/// Called by a server that has no worker to run. Returns when it has run one, or has something else
/// to do.
pub(crate) fn idle(local: &ServerState, server: raw::Server) {
    while looks_again(local, server) {}
}

/// Searches, sleeps, and looks. True if the server was woken in vain: as it may have been woken for
/// a worker that it passed (S3), it goes on from the beginning.
fn looks_again(local: &ServerState, server: raw::Server) -> bool {
    let shared = local.shared();
    if shared.closing.load(Relaxed) && shared.live() == 0 {
        shared.end();
        return false;
    }
    local.note_look();
    if inactive::look(local) {
        sleep_unless_needed(local, None);
        return false;
    }
    if search(local, server) {
        return false;
    }
    loop {
        let nap = shared.scheduler.nap(local.here());
        sleep_unless_needed(local, nap);
        let next = turns::next(local, server);
        if nap.is_some() {
            if next.is_none() && !shared.attention() && !inactive::look(local) {
                continue;
            }
            shared.scheduler.end_naps(local.here());
        }
        if local.is_inactive() {
            inactive::hand_over(local);
        } else if next.is_some() {
            hand_on(local);
        }
        let Some(worker) = next else {
            return !shared.attention();
        };
        local.run(server, worker);
        return false;
    }
}

/// Publishes that the server sleeps, looks once more, and sleeps if it is not needed.
fn sleep_unless_needed(local: &ServerState, nap: Option<Duration>) {
    let shared = local.shared();
    let index = local.here().index();
    let is_inactive = local.is_inactive();
    let in_driver = !is_inactive && !shared.sleepers.in_driver.swap(true, Relaxed);
    let how = match in_driver {
        true => IN_DRIVER,
        false if is_inactive => RESTING,
        false => ON_FUTEX,
    };
    shared.sleepers.fall_asleep(index, how);
    if nap.is_some() {
        // It looks again soon, so nothing is lost that this look misses.
    } else if shared.active.is_alone() {
        // ORDERING(outside-wake.2): SeqCst, pairs with outside-wake.1 and all-asleep.1: all other
        // threads are outside. A standby comes behind a `heavy`: this server has seen its call, or
        // has published its sleep by then. When the standby leaves it looks for work (I1).
        full_fence();
    } else {
        asymmetric::heavy();
    }
    if !has_work(local) {
        sleep(local, how, nap);
    }
    if in_driver {
        shared.sleepers.in_driver.store(false, Relaxed);
    }
    shared.sleepers.wake_up(index, how);
    // The worker that it runs now may run for ever.
    shared.watch.stay_awake();
    expire(local.timers());
}

/// Sleeps where the server's word says: in the driver or on the word itself. Returns at the latest
/// when a deadline is due, or after the nap.
fn sleep(local: &ServerState, how: u32, nap: Option<Duration>) {
    let shared = local.shared();
    let word = shared.sleepers.word(local.here().index());
    let mut until = local.timers().next();
    if let Some(nap) = nap {
        until = until.min(clock::after(nap));
    }
    if deadlock::look(shared, local) {
        until = until.min(clock::now() + SOON);
    }
    let in_driver = how == IN_DRIVER;
    // Another thread may be polling: the watch, or a server that is just checking.
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
        // If the server that is to sleep in the driver could not poll, it tries again soon: the
        // other servers rely on it.
        until = until.min(clock::now() + AT_ONCE);
    }
    let until = clock::timespec(until);
    let _ = futex::wait_bitset(
        word,
        Flags::PRIVATE,
        if in_driver { ON_FUTEX } else { how },
        until.as_ref(),
        NonZeroU32::MAX,
    );
}

/// Called by a server that was asleep, or about to sleep. It has taken one worker, and wakes other
/// servers if there are more: workers that come in bulk do not stay with few servers.
fn hand_on(local: &ServerState) {
    let shared = local.shared();
    for _ in 0..shared.sleepers.to_wake() {
        if !has_more(local) || shared.sleepers.nobody_is_needed() {
            break;
        }
        shared.sleepers.wake_one(&*shared.driver);
    }
}

/// Whether another server would find a worker: one that is ready, or is back from the kernel.
fn has_more(local: &ServerState) -> bool {
    let shared = local.shared();
    shared.scheduler.has_work(local.here()) || shared.group.has_events()
}

/// Whether there is anything for this server to do.
fn has_work(local: &ServerState) -> bool {
    let shared = local.shared();
    // Checks for the end, too: if the two last workers end at once, each may miss the other's end.
    let is_empty = shared.closing.load(Relaxed) && shared.live() == 0;
    let is_told = inactive::is_told(local);
    shared.attention() || local.has_work() || shared.group.has_events() || is_empty || is_told
}

/// Searches for a bounded time. True if there is something to do.
fn search(local: &ServerState, server: raw::Server) -> bool {
    let shared = local.shared();
    let looks = match local.patience.get() {
        0 if local.looks() % AGAIN == 0 => 1,
        looks => looks,
    };
    if looks == 0 {
        return false;
    }
    // At most half of the servers search: more would only get in each other's way.
    let mine = shared.sleepers.searching.fetch_add(1, Relaxed);
    if mine > 0 && mine as usize * 2 >= shared.active.count() {
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
        pause(PAUSES);
    }
    let last = shared.sleepers.end_search();
    if local.is_inactive() {
        inactive::hand_over(local);
    }
    let Some(worker) = found else {
        local.patience.set(looks / 2);
        return shared.is_over();
    };
    local.patience.set((looks * 2).min(LOOKS));
    if last && has_more(local) && shared.sleepers.asleep() > 0 {
        shared.sleepers.wake_one(&*shared.driver);
    }
    local.run(server, worker);
    true
}
