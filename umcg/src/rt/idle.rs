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

use super::runtime::Shared;
use super::server::Local;
use super::sync::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::*, fence};
use super::time;
use rustix::thread::futex::{self, Flags};
use std::hint::spin_loop;
use std::num::NonZeroU32;
use std::time::Duration;
use umcg_core::{asymmetric, raw};

const AWAKE: u32 = 0;
/// About to sleep, or asleep on the word.
const ON_FUTEX: u32 = 1;
/// About to sleep, or asleep, in the driver.
const IN_DRIVER: u32 = 2;

/// How often a searcher looks at most, and how long it waits in between.
const LOOKS: u32 = 4;
const PAUSES: u32 = 20;
/// Every so often one whose searches were of no use tries again.
const AGAIN: u64 = 32;

/// In nanoseconds: when to look again whether all wait for each other, and whether the driver is
/// free.
const SOON: u64 = 1_000_000;
const AT_ONCE: u64 = 100_000;

/// Who sleeps and who searches.
pub(crate) struct Sleepers {
    asleep: AtomicUsize,
    searching: AtomicU32,
    /// Somebody sleeps in the driver, or is about to.
    in_driver: AtomicBool,
    /// Times that somebody was woken: for `umcg doctor` and tests.
    pub(crate) wakes: AtomicU64,
}

impl Sleepers {
    pub(crate) const fn new() -> Sleepers {
        Sleepers {
            asleep: AtomicUsize::new(0),
            searching: AtomicU32::new(0),
            in_driver: AtomicBool::new(false),
            wakes: AtomicU64::new(0),
        }
    }

    /// Nobody sleeps, or somebody is looking for work already.
    #[inline(always)]
    pub(crate) fn nobody_is_needed(&self) -> bool {
        self.asleep.load(Relaxed) == 0 || (self.searching.load(Relaxed) != 0 && self.is_searched())
    }

    /// Whether somebody searches who will see what the caller has put into a queue.
    #[cold]
    fn is_searched(&self) -> bool {
        // ORDERING(searching.1): SeqCst, pairs with searching.2: a searcher that has found
        // something else looks once more.
        fence(SeqCst);
        self.searching.load(Relaxed) != 0
    }

    fn end_search(&self) -> bool {
        let last = self.searching.fetch_sub(1, Relaxed) == 1;
        // ORDERING(searching.2): SeqCst, pairs with searching.1. A fence: the loads that follow are
        // relaxed ones, and an operation would not order them.
        fence(SeqCst);
        last
    }

    /// How many sleep.
    pub(crate) fn asleep(&self) -> usize {
        self.asleep.load(Relaxed)
    }

    /// Wakes one, rather one that sleeps on a futex.
    #[cold]
    pub(crate) fn wake_one(&self, shared: &Shared) {
        let wake = |fits: fn(u32) -> bool| {
            (0..shared.seats.len()).any(|index| {
                fits(shared.seats[index].sleeping.load(Relaxed)) && self.rouse(shared, index)
            })
        };
        // However it sleeps by then: from the driver it may have gone to its word.
        let _ = wake(|how| how == ON_FUTEX) || wake(|how| how != AWAKE);
    }

    /// Wakes this one, if it sleeps.
    #[cold]
    pub(crate) fn wake(&self, shared: &Shared, index: usize) {
        self.rouse(shared, index);
    }

    /// Sees to it that one of those that sleep does so in the driver.
    pub(crate) fn cover_driver(&self, shared: &Shared) {
        if !self.in_driver.load(Relaxed) {
            self.wake_one(shared);
        }
    }

    pub(crate) fn wake_all(&self, shared: &Shared) {
        (0..shared.seats.len()).for_each(|index| {
            self.rouse(shared, index);
        });
    }

    fn rouse(&self, shared: &Shared, index: usize) -> bool {
        let word = &shared.seats[index].sleeping;
        let how = word.swap(AWAKE, Relaxed);
        if how == AWAKE {
            return false;
        }
        // Before it is woken: it may be about to sleep again at once.
        self.asleep.fetch_sub(1, Relaxed);
        self.wakes.fetch_add(1, Relaxed);
        if how == IN_DRIVER {
            shared.driver.wake();
        } else {
            let _ = futex::wake(word, Flags::PRIVATE, 1);
        }
        true
    }
}

/// What a busy server does at intervals.
pub(crate) fn look_at_time_and_files(local: &Local) {
    local.note_look();
    local.timers().expire();
    let shared = local.shared();
    if shared.driver.has_sources() {
        shared.driver.poll(Some(Duration::ZERO));
    }
}

/// The server has nothing to run: returns when it may have.
pub(crate) fn idle(local: &Local, server: raw::Server) {
    if search(local, server) {
        return;
    }
    let shared = local.shared();
    let word = &shared.seats[local.here().index()].sleeping;
    let in_driver = !shared.sleepers.in_driver.swap(true, Relaxed);
    word.store(if in_driver { IN_DRIVER } else { ON_FUTEX }, Relaxed);
    shared.sleepers.asleep.fetch_add(1, Relaxed);
    if shared.seats.len() == 1 {
        // ORDERING(outside-wake.2): SeqCst, pairs with outside-wake.1 and all-asleep.1: all others
        // are outside.
        fence(SeqCst);
    } else {
        asymmetric::heavy();
    }
    if !has_work(local) {
        sleep(local, word, in_driver);
    }
    if in_driver {
        shared.sleepers.in_driver.store(false, Relaxed);
    }
    if word.swap(AWAKE, Relaxed) != AWAKE {
        shared.sleepers.asleep.fetch_sub(1, Relaxed);
    }
    // Whom it runs now may run for ever.
    shared.watch.stay_awake();
    local.timers().expire();
    if let Some(worker) = local.next(server) {
        hand_on(local);
        local.run(server, worker);
    }
}

/// Sleeps where the server's word says: in the driver or on the word itself. Returns at the latest
/// when something is due.
fn sleep(local: &Local, word: &AtomicU32, in_driver: bool) {
    let shared = local.shared();
    let mut until = local.timers().next();
    if shared.when_idle(local) {
        until = until.min(time::now() + SOON);
    }
    // Another one may be polling: the watch, or a server that is just looking.
    let polled = in_driver
        && shared
            .driver
            .poll_while(time::until(until), || word.load(Relaxed) == IN_DRIVER);
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
        until = until.min(time::now() + AT_ONCE);
    }
    let until = time::timespec(until);
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
fn hand_on(local: &Local) {
    let shared = local.shared();
    if shared.scheduler.has_work(local.here()) && !shared.sleepers.nobody_is_needed() {
        shared.sleepers.wake_one(shared);
    }
}

/// Whether there is something for this server to do.
fn has_work(local: &Local) -> bool {
    let shared = local.shared();
    // The end, too: two last workers that end at once may each not have seen the other's end.
    let is_empty = shared.closing.load(Relaxed) && shared.live() == 0;
    shared.attention() || local.has_work() || shared.group.has_events() || is_empty
}

/// Looks for a bounded time. True when there is something to do.
fn search(local: &Local, server: raw::Server) -> bool {
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
        local.timers().expire();
        if shared.driver.has_sources() {
            shared.driver.poll(Some(Duration::ZERO));
        }
        found = local.next(server);
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
        shared.sleepers.wake_one(shared);
    }
    local.run(server, worker);
    true
}
