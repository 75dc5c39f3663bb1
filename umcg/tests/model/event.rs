//! Events, on the protocol of waiting.

use crate::check;
use crate::rt::cancel;
use crate::semaphore::{SOON, party};
use crate::sync::event::Event;
use crate::sync::objects::any;
use shuttle::sync::atomic::Ordering::SeqCst;
use shuttle::thread;

fn leak(event: Event) -> &'static Event {
    Box::leak(Box::new(event))
}

/// Each that comes through an automatic one lets the next through.
fn one_by_one(is_worker: bool) {
    let event = leak(Event::auto(false));
    let parties: Vec<_> = (0..3)
        .map(|_| {
            party(is_worker, || {
                event.wait();
                assert!(!event.is_set(), "two are through");
                event.set();
            })
            .1
        })
        .collect();
    event.set();
    parties.into_iter().for_each(|party| party.join().unwrap());
    assert!(event.is_set());
}

#[test]
fn all_come_through_one_by_one() {
    check(|| one_by_one(true));
    check(|| one_by_one(false));
}

#[test]
fn all_come_through_at_once() {
    check(|| {
        let event = leak(Event::manual(false));
        let parties: Vec<_> = (0..3).map(|n| party(n != 0, || event.wait()).1).collect();
        event.set();
        parties.into_iter().for_each(|party| party.join().unwrap());
        assert!(event.is_set());
    });
}

/// A pulse lets those through that wait, and is nothing to others.
fn pulse(is_manual: bool) {
    let event = leak(if is_manual {
        Event::manual(false)
    } else {
        Event::auto(false)
    });
    let (task, waits) = party(true, || event.wait());
    while task.departed.load(SeqCst) == 0 {
        thread::yield_now();
    }
    let (_, late) = party(true, || event.wait_until(SOON).is_ok());
    let (_, looks) = party(true, || {
        assert!(!event.is_set() && !event.try_wait(), "it was set")
    });
    event.pulse();
    waits.join().unwrap();
    crate::kernel::advance(SOON);
    let late = late.join().unwrap();
    assert!(!late || is_manual, "one only");
    looks.join().unwrap();
    assert!(!event.is_set());
}

#[test]
fn a_pulse_is_for_those_that_wait() {
    check(|| pulse(true));
    check(|| pulse(false));
}

/// A waiter that gives up has taken nothing.
fn revoked(is_worker: bool, by_deadline: bool) {
    let event = leak(Event::auto(false));
    let deadline = if by_deadline { SOON } else { u64::MAX };
    let (asked, hasty) = party(is_worker, move || event.wait_until(deadline).is_ok());
    let (_, setter) = party(true, || event.set());
    let end = thread::spawn(move || {
        if by_deadline {
            crate::kernel::advance(SOON)
        } else {
            cancel::ask(asked)
        }
    });
    let taken = hasty.join().unwrap();
    [setter, end]
        .into_iter()
        .for_each(|party| party.join().unwrap());
    assert!(event.is_set() != taken);
}

#[test]
fn a_revoked_wait_takes_nothing() {
    check(|| revoked(true, true));
    check(|| revoked(true, false));
    check(|| revoked(false, true));
    check(|| revoked(false, false));
}

/// One of two, and the other is left.
#[test]
fn any_takes_one_of_two() {
    check(|| {
        let pair = [leak(Event::auto(false)), leak(Event::auto(false))];
        let parties: Vec<_> = (0..2)
            .map(|_| {
                party(true, move || {
                    assert!(any(&[pair[0], pair[1]], u64::MAX).is_ok())
                })
                .1
            })
            .collect();
        let setters = pair.map(|event| party(true, || event.set()).1);
        parties
            .into_iter()
            .chain(setters)
            .for_each(|party| party.join().unwrap());
        assert!(!pair[0].is_set() && !pair[1].is_set());
    });
}
