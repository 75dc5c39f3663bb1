//! Park and unpark.

use crate::checker::{check, check_large, leak, newest};
use crate::parties::{Data, SOON, be, clock, join_all, parties, party};
use crate::rt::park;
use crate::rt::sync::{AtomicU32, Ordering::Relaxed};

pub(crate) const WHY: &&str = &"model";

/// A party that waits until it was told so often, by so many others, each of which tells and then
/// unparks. Nothing else ends its wait, so a lost wake-up is a deadlock. What was done before the
/// unpark is seen after the park, though the word that says so orders nothing.
pub(crate) fn told(is_worker: bool, with_deadline: bool, tellers: u32, times: u32) {
    let count = leak(AtomicU32::new(0));
    let (task, waiter) = party(is_worker, move || {
        if with_deadline {
            park::park_until(WHY, SOON);
        }
        while newest(count) < tellers * times {
            park::park_for(WHY);
        }
    });
    let tell = move || {
        for _ in 0..times {
            count.fetch_add(1, Relaxed);
            park::wake(task);
        }
    };
    let others = parties(tellers - 1, true, tell);
    let clock = with_deadline.then(clock);
    be(true);
    tell();
    join_all(others.into_iter().chain([waiter]).chain(clock));
}

#[test]
fn no_unpark_is_lost() {
    check(2, || told(true, false, 1, 2));
    check(2, || told(false, false, 1, 2));
    check_large(|| told(true, false, 1, 1));
    check_large(|| told(false, false, 1, 1));
    check_large(|| told(true, false, 3, 1));
    check_large(|| told(false, false, 3, 1));
}

/// One park for one unpark: what was before it is seen.
fn seen(is_worker: bool) {
    let data = Data::new();
    let (task, waiter) = party(is_worker, move || {
        park::park_for(WHY);
        assert_eq!(data.read(), 1);
    });
    be(true);
    data.write();
    park::wake(task);
    waiter.join().unwrap();
}

#[test]
fn an_unpark_says_what_was_before() {
    check(2, || seen(true));
    check(2, || seen(false));
}
