//! Condition variables, on the protocol of waiting.

use crate::checker::{check, check_large, leak, pause};
use crate::parties::{NEVER, be, join_all, parties};
use crate::sync::condvar::Condvar;
use crate::sync::mutex::Mutex;
use std::cell::Cell;

pub(crate) struct Shared {
    pub(crate) value: Mutex<u32>,
    pub(crate) changed: Condvar,
    /// A party has the mutex.
    is_taken: Cell<bool>,
}

// SAFETY: the cell fails where it is not so, or threads switch only where a scenario pauses.
unsafe impl Sync for Shared {}

impl Shared {
    pub(crate) fn new() -> &'static Shared {
        leak(Shared {
            value: Mutex::new(0),
            changed: Condvar::new(),
            is_taken: Cell::new(false),
        })
    }

    pub(crate) fn alone(&self) {
        assert!(!self.is_taken.replace(true), "another has the mutex");
        pause();
        self.is_taken.set(false);
    }

    /// Waits until there is one, and takes it. False when the time has passed.
    pub(crate) fn take(&self, deadline: u64) -> bool {
        let mut value = self.value.lock();
        let late = self
            .changed
            .wait_while_until(&mut value, |value| *value == 0, deadline)
            .timed_out();
        self.alone();
        *value -= u32::from(!late);
        !late
    }

    pub(crate) fn give(&self, count: u32, under_lock: bool) {
        let mut value = self.value.lock();
        *value += count;
        self.alone();
        if !under_lock {
            drop(value);
        }
        if count == 1 {
            self.changed.notify_one();
        } else {
            self.changed.notify_all();
        }
    }
}

/// Nobody sleeps over a notification: by one for each, or by one for all.
fn through(is_worker: bool, takers: u32, at_once: bool, under_lock: bool) {
    let shared = Shared::new();
    let taking = parties(takers, is_worker, || assert!(shared.take(NEVER)));
    let givers = if at_once { 1 } else { takers };
    let give = move || shared.give(takers / givers, under_lock);
    let giving = parties(givers - 1, true, give);
    be(true);
    give();
    join_all(taking.into_iter().chain(giving));
    assert_eq!(*shared.value.lock(), 0);
}

#[test]
fn nobody_sleeps_over_it() {
    check(2, || through(true, 1, false, false));
    check(2, || through(true, 1, false, true));
    check(2, || through(false, 1, false, false));
    check_large(|| through(true, 2, false, true));
    check_large(|| through(true, 2, false, false));
    check_large(|| through(false, 2, false, false));
    check_large(|| through(true, 2, true, true));
    check_large(|| through(false, 2, true, false));
}
