//! Events, on the protocol of waiting.

use crate::checker::{check, check_large, leak};
use crate::parties::{Data, be, join_all, parties};
use crate::sync::event::Event;

/// One is let through at a time, lets the next through, and sees what the one before did.
fn one_by_one(is_worker: bool, count: u32, is_set: bool) {
    let (event, data) = (leak(Event::auto(is_set)), Data::new());
    let turn = move || {
        event.wait();
        data.write();
        // Not before: a look may acquire what the wait has to.
        assert!(!event.is_set(), "two are through");
        event.set();
    };
    let others = parties(count - 1, is_worker, turn);
    be(is_worker);
    if !is_set {
        event.set();
    }
    turn();
    join_all(others);
    assert_eq!(data.read(), count);
    assert!(event.is_set());
}

#[test]
fn all_come_through_one_by_one() {
    check(2, || one_by_one(true, 2, true));
    check(2, || one_by_one(false, 2, true));
    check_large(|| one_by_one(true, 3, false));
    check_large(|| one_by_one(false, 3, false));
}

/// What was done before it was set is seen by those that waited, and by one that finds it set.
fn at_once(workers: u32, threads: u32) {
    let (event, data) = (leak(Event::manual(false)), Data::new());
    let wait = move || {
        event.wait();
        assert_eq!(data.read(), 1);
    };
    let waiting = parties(workers, true, wait);
    let others = parties(threads, false, wait);
    be(true);
    data.write();
    event.set();
    wait();
    join_all(waiting.into_iter().chain(others));
    assert!(event.is_set());
}

#[test]
fn all_come_through_at_once() {
    check(2, || at_once(1, 0));
    check(2, || at_once(0, 1));
    check_large(|| at_once(2, 1));
}
