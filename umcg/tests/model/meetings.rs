//! Once-only initialisation, barriers, and groups of things to be done, on the protocol of waiting.

use crate::check;
use crate::checker::leak;
use crate::parties::{SOON, clock, join_all, party};
use crate::rt::cancel;
use crate::sync::barrier::Barrier;
use crate::sync::once::Once;
use crate::sync::wait_group::WaitGroup;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use shuttle::thread;

#[path = "../checked/once.rs"]
mod checked;

/// Some try, the first fails, and one is asked to end: it is done once, and never by two at a time.
fn once(is_worker: bool) {
    let (once, inside, done) = (
        leak(Once::new()),
        leak(AtomicU32::new(0)),
        leak(AtomicU32::new(0)),
    );
    let attempt = move |fails: bool| {
        once.try_call_once(|| {
            assert_eq!(inside.fetch_add(1, SeqCst), 0, "two do it");
            thread::yield_now();
            done.fetch_add(u32::from(!fails), SeqCst);
            inside.fetch_sub(1, SeqCst);
            if fails { Err(()) } else { Ok(()) }
        })
        .is_ok()
    };
    let failing = party(is_worker, move || attempt(true)).1;
    let (asked, cut) = party(true, move || cancel::unwinding(|| attempt(false)));
    let patient = party(is_worker, move || attempt(false)).1;
    let waiting = party(is_worker, || once.wait()).1;
    let end = thread::spawn(move || cancel::ask(asked));
    failing.join().unwrap();
    assert_ne!(cut.join().unwrap(), Some(false));
    assert!(patient.join().unwrap());
    join_all([waiting, end]);
    assert!(once.is_completed() && done.load(SeqCst) == 1);
}

#[test]
fn it_is_done_once() {
    check(|| once(true));
    check(|| once(false));
}

/// Two come, and one that may be late: each round has two, and one leader.
fn barrier(is_worker: bool) {
    let barrier = leak(Barrier::new(2));
    let hasty = party(is_worker, || {
        barrier
            .wait_until(SOON)
            .ok()
            .map(|result| result.is_leader())
    })
    .1;
    let patient: Vec<_> = (0..2)
        .map(|_| party(is_worker, || barrier.wait().is_leader()).1)
        .collect();
    let clock = clock();
    let hasty = hasty.join().unwrap();
    // It was one of a pair: the other waits for another partner.
    let other = hasty.map(|_| party(true, || barrier.wait().is_leader()).1);
    let rounds = 1 + usize::from(hasty.is_some());
    let leaders = patient
        .into_iter()
        .chain(other)
        .map(|party| party.join().unwrap())
        .chain(hasty);
    assert_eq!(leaders.filter(|is_leader| *is_leader).count(), rounds);
    clock.join().unwrap();
}

#[test]
fn who_is_late_has_not_come() {
    check(|| barrier(true));
    check(|| barrier(false));
}

/// All that wait go on when all is done, and not before.
fn group(is_worker: bool) {
    let (group, done) = (leak(WaitGroup::new()), leak(AtomicU32::new(0)));
    group.add(2);
    let wait = move |deadline| {
        if group.wait_until(deadline).is_ok() {
            assert_eq!(done.load(SeqCst), 2);
        }
    };
    let waiting =
        [u64::MAX, SOON, u64::MAX].map(|deadline| party(is_worker, move || wait(deadline)).1);
    let doing = [0, 1].map(|_| {
        party(true, || {
            done.fetch_add(1, SeqCst);
            group.done();
        })
        .1
    });
    let clock = clock();
    join_all(waiting.into_iter().chain(doing).chain([clock]));
    assert_eq!(group.count(), 0);
}

#[test]
fn all_is_done() {
    check(|| group(true));
    check(|| group(false));
}
