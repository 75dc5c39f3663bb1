//! Condition variables, on the protocol of waiting.

use crate::check;
use crate::rt::cancel;
use crate::semaphore::{SOON, party};
use crate::sync::condvar::Condvar;
use crate::sync::mutex::Mutex;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use shuttle::thread;

struct Shared {
    value: Mutex<u32>,
    changed: Condvar,
    /// The holder of the mutex: one.
    inside: AtomicU32,
}

impl Shared {
    fn new() -> &'static Shared {
        Box::leak(Box::new(Shared {
            value: Mutex::new(0),
            changed: Condvar::new(),
            inside: AtomicU32::new(0),
        }))
    }

    fn alone(&self) {
        assert_eq!(self.inside.fetch_add(1, SeqCst), 0, "another has the mutex");
        thread::yield_now();
        self.inside.fetch_sub(1, SeqCst);
    }

    /// Waits until there is one, and takes it. False when the time has passed.
    fn take(&self, deadline: u64) -> bool {
        let mut value = self.value.lock();
        let late = self
            .changed
            .wait_while_until(&mut value, |value| *value == 0, deadline)
            .timed_out();
        self.alone();
        *value -= u32::from(!late);
        !late
    }

    fn give(&self, count: u32, under_lock: bool) {
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

/// No waiter sleeps over a notification: by one for each, or by one for all.
fn through(is_worker: bool, at_once: bool, under_lock: bool) {
    let shared = Shared::new();
    let takers: Vec<_> = (0..2)
        .map(|_| party(is_worker, || assert!(shared.take(u64::MAX))).1)
        .collect();
    let givers = if at_once { 1 } else { 2 };
    let givers = (0..givers).map(|_| party(true, move || shared.give(2 / givers, under_lock)).1);
    let givers: Vec<_> = givers.collect();
    takers
        .into_iter()
        .chain(givers)
        .for_each(|party| party.join().unwrap());
    assert_eq!(*shared.value.lock(), 0);
}

#[test]
fn nobody_sleeps_over_it() {
    check(|| through(true, false, true));
    check(|| through(true, false, false));
    check(|| through(false, false, false));
    check(|| through(true, true, true));
    check(|| through(false, true, false));
}

/// Of two that wait one gives up. One is notified: the one that gave up, and then it was not late,
/// or the other.
fn revoked(is_worker: bool, by_deadline: bool) {
    let shared = Shared::new();
    let deadline = if by_deadline { SOON } else { u64::MAX };
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
    let end = thread::spawn(move || {
        if by_deadline {
            crate::kernel::advance(SOON)
        } else {
            cancel::ask(asked)
        }
    });
    notifier.join().unwrap();
    if hasty.join().unwrap() {
        assert!(shared.changed.notify_one(), "the other one is lost");
    }
    [patient, end]
        .into_iter()
        .for_each(|party| party.join().unwrap());
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
        let clock = thread::spawn(|| crate::kernel::advance(SOON));
        let taken: u32 = takers
            .into_iter()
            .map(|taker| u32::from(taker.join().unwrap()))
            .sum();
        [giver, clock]
            .into_iter()
            .for_each(|party| party.join().unwrap());
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
    others
        .into_iter()
        .chain([end])
        .for_each(|party| party.join().unwrap());
    assert_eq!(*shared.value.lock(), 3);
    assert!(!shared.changed.notify_one());
}

#[test]
fn who_unwinds_has_the_mutex() {
    check(|| unwound(false));
    check(|| unwound(true));
}
