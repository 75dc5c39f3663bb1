//! Park and unpark: deadlines, several kinds of signals, and requests to end.

use crate::check;
use crate::parties::join_all;
use crate::rt::{cancel, park, task};
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use shuttle::thread;
use std::sync::Arc;

#[path = "../checked/park.rs"]
mod checked;
use checked::{WHY, told};

#[test]
fn a_deadline_loses_no_unpark() {
    check(|| told(true, true, 2, 1));
    check(|| told(false, true, 1, 1));
    check(|| told(false, true, 2, 1));
}

/// A deadline without an earlier unpark ends the wait, of a worker by its timer, of a thread by the
/// kernel.
#[test]
fn a_deadline_ends_a_wait() {
    for is_worker in [true, false] {
        let test: fn() = if is_worker {
            || alone_until(true)
        } else {
            || alone_until(false)
        };
        check(test);
    }
}

fn alone_until(is_worker: bool) {
    let clock = thread::spawn(|| [5, 10].map(crate::kernel::advance));
    task::enter(task::make(is_worker));
    assert!(!park::park_until(WHY, 10));
    clock.join().unwrap();
}

/// An unpark before the park is remembered, once: the first park returns, the second one waits for
/// another unpark.
#[test]
fn one_unpark_is_remembered() {
    fn remembered(is_worker: bool) {
        let waiter = task::make(is_worker);
        park::wake(waiter);
        park::wake(waiter);
        let turn = Arc::new(AtomicU32::new(0));
        let turns = turn.clone();
        let waiting = thread::spawn(move || {
            task::enter(waiter);
            park::park_for(WHY);
            turns.store(1, SeqCst);
            park::park_for(WHY);
            assert_eq!(turns.load(SeqCst), 2, "both were remembered");
        });
        while turn.load(SeqCst) == 0 {
            thread::yield_now();
        }
        turn.store(2, SeqCst);
        park::wake(waiter);
        waiting.join().unwrap();
    }
    check(|| remembered(true));
    check(|| remembered(false));
}

/// Two that hand a turn to each other, back and forth.
#[test]
fn two_take_turns() {
    check(|| {
        let turn = Arc::new(AtomicU32::new(0));
        let pair = [task::make(true), task::make(false)];
        let threads = [0, 1].map(|at| {
            let turn = turn.clone();
            thread::spawn(move || {
                task::enter(pair[at]);
                for round in 0..3 {
                    while turn.load(SeqCst) != round * 2 + at as u32 {
                        park::park_for(WHY);
                    }
                    turn.fetch_add(1, SeqCst);
                    park::wake(pair[1 - at]);
                }
            })
        });
        join_all(threads);
    });
}

/// A thread that is asked to end hears of it, whenever that comes, and even if another thread
/// unparks it.
#[test]
fn who_is_asked_to_end_hears_of_it() {
    check(|| {
        let waiter = task::make(true);
        let asker = thread::spawn(move || cancel::ask(waiter));
        let stale = thread::spawn(move || park::wake(waiter));
        let waiting = thread::spawn(move || {
            task::enter(waiter);
            while !waiter.noticed.get() {
                park::park_for(WHY);
            }
        });
        for thread in [asker, stale, waiting] {
            thread.join().unwrap();
        }
    });
}

/// Waits in the library, and futures, take no unpark that is meant for the park of a user, or for
/// the waker of another future; nor does the park take one from them.
#[test]
fn each_park_has_signals_of_its_own() {
    fn mixed(is_worker: bool) {
        let (told, called) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let waiter = task::make(is_worker);
        let (tells, calls) = (told.clone(), called.clone());
        let clock = thread::spawn(|| crate::kernel::advance(10));
        let teller = thread::spawn(move || {
            tells.store(1, SeqCst);
            park::unpark(waiter);
        });
        let caller = thread::spawn(move || {
            calls.store(1, SeqCst);
            park::call_waker(waiter);
        });
        let waiting = thread::spawn(move || {
            task::enter(waiter);
            while told.load(SeqCst) == 0 {
                park::park_until(WHY, 10);
                park::park();
            }
            while called.load(SeqCst) == 0 {
                park::park_for_waker(WHY);
            }
        });
        for thread in [clock, teller, caller, waiting] {
            thread.join().unwrap();
        }
    }
    check(|| mixed(true));
    check(|| mixed(false));
}

/// Likewise between the park of a user and that for a waker.
#[test]
fn a_park_leaves_what_a_waker_said() {
    fn both(is_worker: bool) {
        let called = Arc::new(AtomicU32::new(0));
        let waiter = task::make(is_worker);
        let calls = called.clone();
        let teller = thread::spawn(move || park::unpark(waiter));
        let caller = thread::spawn(move || {
            calls.store(1, SeqCst);
            park::call_waker(waiter);
        });
        let waiting = thread::spawn(move || {
            task::enter(waiter);
            while called.load(SeqCst) == 0 {
                park::park();
                park::park_for_waker(WHY);
            }
        });
        for thread in [teller, caller, waiting] {
            thread.join().unwrap();
        }
    }
    check(|| both(true));
    check(|| both(false));
}
