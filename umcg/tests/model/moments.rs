//! A caller that only looks at several things, and one that wants the lowest of them: the answer is
//! true of one moment.

use crate::check;
use crate::checker::leak;
use crate::parties::{join_all, party};
use crate::select::engine::{self, Alternatives as _};
use crate::select::operation::{Operation, OperationParts};
use crate::select::order::LookOrder;
use crate::select::set::Set;
use crate::sync::Semaphore;
use crate::sync::any::try_acquire_any;
use crate::sync::event::Event;
use crate::sync::objects::{any, try_wait_any};
use crate::tube::ends;

/// Operations of one type, as `select` has them.
struct Operations<O>([O; 2]);

impl<O: OperationParts> engine::Alternatives for Operations<O> {
    fn len(&self) -> usize {
        2
    }

    fn queue(&self, index: usize) -> Option<&dyn crate::rt::wait::SelectQueue> {
        self.0[index].queue()
    }

    fn place(&self, index: usize) -> &crate::rt::wait::Place {
        self.0[index].place()
    }

    fn note(&self, index: usize) -> usize {
        self.0[index].note()
    }

    fn finish(&self, index: usize, note: usize) -> bool {
        self.0[index].finish(note)
    }
}

fn look<O: OperationParts>(operations: &Operations<O>) -> Option<usize> {
    engine::try_any(operations, LookOrder::in_turn(operations.len()))
}

/// One of two is set at every moment.
fn never_nothing(looks: fn(&'static [Event; 2]) -> bool) {
    let events = leak([Event::manual(true), Event::manual(false)]);
    let (_, looks) = party(true, move || {
        assert!(looks(events), "none was set, it says")
    });
    let (_, moves) = party(true, || {
        events[1].set();
        events[0].reset();
        events[0].set();
        events[1].reset();
    });
    join_all([looks, moves]);
}

#[test]
fn one_of_two_is_set_at_every_moment() {
    check(|| never_nothing(|events| try_wait_any(&[&events[1], &events[0]]).is_ok()));
    check(|| {
        never_nothing(|events| {
            look(&Operations([events[1].waiting(), events[0].waiting()])).is_some()
        })
    });
    check(|| {
        never_nothing(|events| {
            let mut set = Set::new([events[1].waiting(), events[0].waiting()]);
            set.try_wait().is_some() && set.try_wait().is_some()
        })
    });
}

/// The first is set before the last: a caller that finds the last finds the first before it.
#[test]
fn the_lowest() {
    check(|| {
        let events = leak([Event::auto(false), Event::auto(false), Event::auto(false)]);
        let (_, waits) = party(true, || {
            assert_eq!(any(&[&events[0], &events[1], &events[2]], u64::MAX), Ok(0))
        });
        let (_, sets) = party(true, || {
            events[0].set();
            events[2].set();
        });
        join_all([waits, sets]);
        assert!(events[2].is_set());
    });
}

/// A caller that only looks may be served while it stands in the queues: then it has what it was
/// served.
#[test]
fn what_who_only_looks_is_served() {
    check(|| {
        let tubes = leak([ends::tube::<u32>(0), ends::tube::<u32>(0)]);
        let (_, looks) = party(true, || {
            let mut operations = Operations([tubes[0].1.receiving(), tubes[1].1.receiving()]);
            look(&operations).map_or(0, |index| operations.0[index].outcome().unwrap())
        });
        let (_, sends) = party(true, || u32::from(tubes[1].0.try_send(1).is_ok()));
        assert_eq!(looks.join().unwrap(), sends.join().unwrap());
    });
}

/// A caller that finds wakeups takes them, or leaves them.
fn none_is_lost(looks: fn(&'static [Semaphore; 2]) -> u32) {
    let semaphores = leak([Semaphore::new(0), Semaphore::new(0)]);
    let looks = [true, false].map(|is_worker| party(is_worker, move || looks(semaphores)).1);
    let gives =
        [0, 1].map(|index: usize| party(true, move || semaphores[index].release(1).unwrap()).1);
    let taken: u32 = looks.into_iter().map(|party| party.join().unwrap()).sum();
    join_all(gives);
    assert_eq!(
        taken + semaphores.iter().map(Semaphore::available).sum::<u32>(),
        2
    );
}

#[test]
fn nothing_is_lost_by_looking() {
    check(|| {
        none_is_lost(|semaphores| {
            u32::from(try_acquire_any(&[&semaphores[0], &semaphores[1]]).is_ok())
        })
    });
    check(|| {
        none_is_lost(|semaphores| {
            let mut set: Set<_> = semaphores.iter().map(Semaphore::acquiring).collect();
            (0..2)
                .filter(|_| {
                    set.try_wait()
                        .is_some_and(|index| set.outcome(index).is_ok())
                })
                .count() as u32
        })
    });
}
