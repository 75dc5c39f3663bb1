//! Condition variables: waits that are revoked, and unwound.

use crate::check;
use crate::parties::{SOON, clock, deadline_if, ender, join_all, party};
use crate::rt::cancel;
use shuttle::thread;

#[path = "../checked/condvar.rs"]
mod checked;
use checked::Shared;

/// Of two that wait one gives up. One is notified: the one that gave up, and then it was not late,
/// or the other.
fn revoked(is_worker: bool, by_deadline: bool) {
    let shared = Shared::new();
    let deadline = deadline_if(by_deadline);
    let wait = move |deadline| {
        let mut value = shared.value.lock();
        let late = shared.changed.wait_until(&mut value, deadline).timed_out();
        shared.alone();
        !late
    };
    let (asked, hasty) = party(is_worker, move || wait(deadline));
    let (_, patient) = party(is_worker, move || assert!(wait(u64::MAX)));
    while !format!("{:?}", shared.changed).contains("waiters: 2") {
        thread::yield_now();
    }
    let (_, notifier) = party(true, || assert!(shared.changed.notify_one()));
    let end = ender(asked, by_deadline);
    notifier.join().unwrap();
    if hasty.join().unwrap() {
        assert!(shared.changed.notify_one(), "the other one is lost");
    }
    join_all([patient, end]);
    assert!(!shared.changed.notify_one());
}

#[test]
fn a_notification_is_not_lost() {
    check(|| revoked(true, true));
    check(|| revoked(true, false));
    check(|| revoked(false, true));
    check(|| revoked(false, false));
}

/// A waiter that is late has the mutex all the same.
#[test]
fn late_ones_have_the_mutex() {
    check(|| {
        let shared = Shared::new();
        let takers: Vec<_> = (0..2)
            .map(|_| party(true, || shared.take(SOON)).1)
            .collect();
        let (_, giver) = party(true, || shared.give(1, false));
        let clock = clock();
        let taken: u32 = takers
            .into_iter()
            .map(|taker| u32::from(taker.join().unwrap()))
            .sum();
        join_all([giver, clock]);
        assert_eq!(*shared.value.lock() + taken, 1);
    });
}

/// A waiter that is cut short has the mutex when it unwinds, as its guard says, though others want
/// it; and takes no notification with it.
fn unwound(is_notified: bool) {
    let shared = Shared::new();
    let (asked, cut) = party(true, move || {
        let mut value = shared.value.lock();
        let is_cut =
            cancel::unwinding(|| shared.changed.wait_until(&mut value, u64::MAX)).is_none();
        shared.alone();
        *value += 1;
        is_cut
    });
    while !format!("{:?}", shared.changed).contains("waiters: 1") {
        thread::yield_now();
    }
    let others = (0..2).map(|_| {
        let other = || {
            let mut value = shared.value.lock();
            shared.alone();
            *value += 1;
        };
        party(true, other).1
    });
    let others: Vec<_> = others.collect();
    let notifier = is_notified.then(|| party(true, || shared.changed.notify_one()).1);
    let end = thread::spawn(move || cancel::ask(asked));
    let was_told = notifier.is_some_and(|notifier| notifier.join().unwrap());
    assert_eq!(cut.join().unwrap(), !was_told);
    join_all(others.into_iter().chain([end]));
    assert_eq!(*shared.value.lock(), 3);
    assert!(!shared.changed.notify_one());
}

#[test]
fn who_unwinds_has_the_mutex() {
    check(|| unwound(false));
    check(|| unwound(true));
}
