//! Events: pulses, waits that are revoked, and one of two.

use crate::check;
use crate::parties::{SOON, deadline_if, ender, join_all, party, until_it_waits};
use crate::sync::event::Event;
use crate::sync::objects::any;

#[path = "../checked/event.rs"]
mod checked;

fn leak(event: Event) -> &'static Event {
    Box::leak(Box::new(event))
}

/// A pulse lets those through that wait, and is nothing to others.
fn pulse(is_manual: bool) {
    let event = leak(if is_manual {
        Event::manual(false)
    } else {
        Event::auto(false)
    });
    let (task, waits) = party(true, || event.wait());
    until_it_waits(task);
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
    let deadline = deadline_if(by_deadline);
    let (asked, hasty) = party(is_worker, move || event.wait_until(deadline).is_ok());
    let (_, setter) = party(true, || event.set());
    let end = ender(asked, by_deadline);
    let taken = hasty.join().unwrap();
    join_all([setter, end]);
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
        join_all(parties.into_iter().chain(setters));
        assert!(!pair[0].is_set() && !pair[1].is_set());
    });
}
