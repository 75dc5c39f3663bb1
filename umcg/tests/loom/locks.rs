//! Objects that exclude, and objects that let through: mutexes, locks for readers and writers,
//! condition variables, events, once-only initialisation.

use crate::semaphore::{Data, SOON, end};
use crate::sync::Mutex;
use crate::sync::condvar::Condvar;
use crate::sync::event::Event;
use crate::sync::mutex::RawMutex;
use crate::sync::once::Once;
use crate::sync::rwlock::RawRwLock;
use crate::{be, check, check_with_heavy, leak, party};
use lock_api::{RawMutex as _, RawMutexFair as _, RawRwLock as _};

fn mutex(is_fair: bool) -> &'static RawMutex {
    leak(if is_fair {
        RawMutex::fair()
    } else {
        RawMutex::new()
    })
}

/// Called by the holder.
fn pass(mutex: &RawMutex, data: &Data, hands_over: bool) {
    data.write();
    // SAFETY: locked.
    unsafe {
        if hands_over {
            mutex.unlock_fair()
        } else {
            mutex.unlock()
        }
    }
}

/// The changes of one holder are seen by the next.
fn excludes(is_fair: bool, is_worker: bool, parties: u32, turns: u32) {
    let (mutex, data) = (mutex(is_fair), Data::new());
    let turns = move |hands_over: bool| {
        for _ in 0..turns {
            mutex.lock();
            pass(mutex, data, hands_over);
        }
    };
    let others: Vec<_> = (1..parties)
        .map(|n| party(is_worker, move || turns(n == 1)).1)
        .collect();
    be(is_worker);
    turns(false);
    others.into_iter().for_each(|other| other.join().unwrap());
    mutex.lock();
    assert!(data.read() >= parties);
}

#[test]
fn one_at_a_time() {
    check(2, || excludes(false, true, 2, 2));
    check(2, || excludes(false, false, 2, 1));
    check(2, || excludes(true, true, 2, 2));
    check(2, || excludes(true, false, 2, 1));
}

#[test]
fn one_of_three_at_a_time() {
    check(3, || excludes(false, true, 3, 1));
    check(3, || excludes(true, true, 3, 1));
}

/// A waiter whose wait is ended has not locked it.
fn revoked(is_fair: bool, by_deadline: bool) {
    let (mutex, data) = (mutex(is_fair), Data::new());
    be(true);
    mutex.lock();
    let deadline = if by_deadline { SOON } else { u64::MAX };
    let (task, hasty) = party(true, move || {
        if mutex.lock_until(deadline) {
            pass(mutex, data, false);
        }
    });
    let (_, ender) = party(true, move || end(task, by_deadline));
    pass(mutex, data, false);
    hasty.join().unwrap();
    ender.join().unwrap();
    assert!(!mutex.is_locked());
}

#[test]
fn a_revoked_wait_locks_nothing() {
    check_with_heavy(3, || revoked(false, true));
    check_with_heavy(3, || revoked(true, false));
}

/// A reader sees all that a writer did, and none sees half of it.
fn readers_and_writers(is_worker: bool) {
    let (lock, data) = (leak(RawRwLock::INIT), [Data::new(), Data::new()]);
    let (_, reader) = party(is_worker, move || {
        lock.lock_shared();
        assert_eq!(data[0].read(), data[1].read());
        // SAFETY: locked.
        unsafe { lock.unlock_shared() };
    });
    be(is_worker);
    lock.lock_exclusive();
    data.iter().for_each(|data| data.write());
    // SAFETY: locked.
    unsafe { lock.unlock_exclusive() };
    lock.lock_shared();
    assert_eq!(data[0].read(), 1);
    // SAFETY: locked.
    unsafe { lock.unlock_shared() };
    lock.lock_exclusive();
    data.iter().for_each(|data| data.write());
    // SAFETY: locked.
    unsafe { lock.unlock_exclusive() };
    reader.join().unwrap();
}

#[test]
fn writers_are_alone() {
    check(2, || readers_and_writers(true));
    check(2, || readers_and_writers(false));
}

/// A waiter for a change hears of it.
fn notified(is_worker: bool, under_lock: bool) {
    let (mutex, changed) = (leak(Mutex::new(Data::new())), leak(Condvar::new()));
    let (_, waiter) = party(is_worker, move || {
        let mut data = mutex.lock();
        while data.read() == 0 {
            assert!(!changed.wait_until(&mut data, u64::MAX).timed_out());
        }
    });
    be(true);
    let data = mutex.lock();
    data.write();
    let held = under_lock.then_some(data);
    changed.notify_one();
    drop(held);
    waiter.join().unwrap();
}

#[test]
fn nobody_sleeps_over_a_notification() {
    check(2, || notified(true, false));
    check(2, || notified(true, true));
    check(2, || notified(false, false));
}

/// Changes made before it was set are seen by a waiter, and by a caller that finds it set.
fn through(is_manual: bool, is_worker: bool) {
    let (event, data) = (
        leak(if is_manual {
            Event::manual(false)
        } else {
            Event::auto(false)
        }),
        Data::new(),
    );
    let (_, waiter) = party(is_worker, move || {
        event.wait();
        assert_eq!(data.read(), 1);
        if !is_manual {
            data.write();
            event.set();
        }
    });
    be(is_worker);
    data.write();
    event.set();
    event.wait();
    let seen = data.read();
    waiter.join().unwrap();
    assert!(!is_manual || seen == 1);
}

#[test]
fn an_event_says_what_was_before() {
    check(2, || through(true, true));
    check(2, || through(true, false));
}

/// Only one is let through at a time, and sees the changes of the one before.
fn one_by_one(is_worker: bool) {
    let (event, data) = (leak(Event::auto(true)), Data::new());
    let turn = move || {
        event.wait();
        data.write();
        event.set();
    };
    let (_, other) = party(is_worker, turn);
    be(is_worker);
    turn();
    other.join().unwrap();
    assert_eq!(data.read(), 2);
}

#[test]
fn an_event_lets_through_one_by_one() {
    check(2, || one_by_one(true));
    check(2, || one_by_one(false));
}

/// It is done once, and seen by all.
fn once(is_worker: bool, parties: u32) {
    let (once, data) = (leak(Once::new()), Data::new());
    let call = move || {
        once.call_once(|| data.write());
        assert_eq!(data.read(), 1);
    };
    let others: Vec<_> = (1..parties).map(|_| party(is_worker, call).1).collect();
    be(is_worker);
    call();
    others.into_iter().for_each(|other| other.join().unwrap());
}

#[test]
fn what_is_done_once_is_seen() {
    check(2, || once(true, 2));
    check(2, || once(false, 2));
}
