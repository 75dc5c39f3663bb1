//! The list of idle homes, and those that are on their way into it or out of it.
//!
//! A change of user or group ids closes the pool for good (H6). It waits until the homes without a
//! guest have ended, since the C library does not know them. That is more than the list:
//!
//! - A home that is being taken for a guest is in no list. Its guest begins, or it is put back.
//! - One whose guest has just ended is in none either, until it is put or retired.
//!
//! So a party that moves a home says so ([`HomeWay`]): from before it looks at the list until the
//! home is in a list again, has a guest or is retired. The party that closes the pool looks for
//! such homes once it has emptied the list, and then for those that are ending.
//!
//! Model: `umcg/tests/model/homes.rs`.

use super::home::HomeRight;
use crate::rt::sync::{AtomicBool, AtomicUsize, Ordering::*};
use umcg_core::context::lock::Lock;
use umcg_core::context::way::nap;
use umcg_core::raw;

/// The most idle homes.
const MOST: usize = 64;
/// How long an idle home is kept, in nanoseconds.
const LONGEST: u64 = 5_000_000_000;

/// A home without a guest.
pub(super) struct Idle {
    pub(super) home: HomeRight,
    /// The storage of its last guest, and the list of robust locks that the kernel knows.
    pub(super) storage: usize,
    pub(super) told: usize,
    pub(super) name: [u64; 2],
    pub(super) since: u64,
}

/// The longest idle home comes first.
struct IdleList {
    homes: [Option<Idle>; MOST],
    count: usize,
}

pub(super) struct Pool {
    /// A bare lock: steps take it.
    list: Lock<IdleList>,
    /// How many are in the list. Changed under the lock.
    count: AtomicUsize,
    /// No home is used again any more.
    is_closed: AtomicBool,
    /// How many parties move a home.
    on_way: AtomicUsize,
}

/// A home may be on its way.
pub(super) struct HomeWay<'a>(&'a Pool);

impl Drop for HomeWay<'_> {
    fn drop(&mut self) {
        // ORDERING(way.1): Release, pairs with way.2: the home is seen where it has come to.
        self.0.on_way.fetch_sub(1, Release);
    }
}

impl IdleList {
    fn remove(&mut self, index: usize) -> Option<Idle> {
        let home = self.homes[index].take();
        self.homes[index..self.count].rotate_left(1);
        self.count -= 1;
        home
    }

    /// The best home with this name: the one that has had this storage, or the last one.
    fn best(&self, name: [u64; 2], storage: usize) -> Option<usize> {
        let mut best = None;
        for (index, home) in self.homes[..self.count].iter().enumerate().rev() {
            let Some(home) = home.as_ref().filter(|home| home.name == name) else {
                continue;
            };
            if home.storage == storage {
                return Some(index);
            }
            best = best.or(Some(index));
        }
        best
    }

    fn aged(&self, now: u64) -> Option<usize> {
        let first = self.homes[0].as_ref()?;
        (now.saturating_sub(first.since) > LONGEST).then_some(0)
    }
}

impl Pool {
    pub(super) const fn new() -> Pool {
        Pool {
            list: Lock::new(IdleList {
                homes: [const { None }; MOST],
                count: 0,
            }),
            count: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
            on_way: AtomicUsize::new(0),
        }
    }

    /// Whether there may be an idle home.
    pub(super) fn has_any(&self) -> bool {
        self.count.load(Relaxed) != 0
    }

    /// Whether one more home may be put.
    pub(super) fn has_room(&self) -> bool {
        !self.is_closed.load(Relaxed) && self.count.load(Relaxed) < MOST
    }

    /// The caller is about to move a home. Has to end soon.
    pub(super) fn way(&self) -> HomeWay<'_> {
        // Before the list's lock, which orders it.
        self.on_way.fetch_add(1, Relaxed);
        HomeWay(self)
    }

    /// The home that `which` says, out of the list.
    fn remove(&self, which: impl FnOnce(&IdleList) -> Option<usize>) -> Option<Idle> {
        let mut list = self.list.lock();
        let index = which(&list)?;
        let idle = list.remove(index);
        self.count.store(list.count, Relaxed);
        idle
    }
}

impl HomeWay<'_> {
    /// Takes a home for a guest with this name and storage.
    pub(super) fn take(&self, name: [u64; 2], storage: usize) -> Option<Idle> {
        loop {
            let idle = self.0.remove(|list| list.best(name, storage))?;
            if idle.home.take() {
                return Some(idle);
            }
            idle.home.retire();
        }
    }

    /// Puts a home that no guest has, or retires it.
    pub(super) fn put(&self, idle: Idle) {
        let is_sound = idle.home.rest();
        if let Some(idle) = self.enlist(idle, is_sound) {
            idle.home.retire();
        }
    }

    /// Returns the home if it is not sound, or there is no room for it.
    fn enlist(&self, idle: Idle, is_sound: bool) -> Option<Idle> {
        let pool = self.0;
        let mut list = pool.list.lock();
        // Under the lock: the list of a pool that is closed stays empty.
        if !is_sound || list.count == MOST || pool.is_closed.load(Relaxed) {
            return Some(idle);
        }
        let count = list.count;
        list.homes[count] = Some(idle);
        list.count += 1;
        pool.count.store(list.count, Relaxed);
        None
    }

    /// Retires the home that has been idle for longest, if that was too long.
    pub(super) fn retire_aged(&self, now: u64) {
        if let Some(idle) = self.0.remove(|list| list.aged(now)) {
            idle.home.retire();
        }
    }

    fn retire_all(&self) {
        let last = |list: &IdleList| list.count.checked_sub(1);
        while let Some(idle) = self.0.remove(last) {
            idle.home.retire();
        }
    }
}

impl Pool {
    /// No home is used again from here on. Waits until those without a guest have ended.
    pub(super) fn close(&self) {
        const PAUSE: u32 = 50_000;
        const TRIES: u32 = 2_000;
        self.is_closed.store(true, Relaxed);
        self.way().retire_all();
        for _ in 0..TRIES {
            // ORDERING(way.2): Acquire, pairs with way.1.
            if self.on_way.load(Acquire) == 0 && raw::reclaim_homes() == 0 {
                return;
            }
            nap(PAUSE);
        }
    }
}
