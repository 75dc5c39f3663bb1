//! Waits that have to wait.

use crate::parties::{Party, SORTS, Sort, abort, everywhere, join_all, until_waiting, waiters};
use crate::support::{HOUR, counter, eventually};
use crate::{LATE, TAKEN};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use umcg::nt::{Event, Handle, Mutex, Semaphore, Timer, Wait, WaitError, Woken};

const SHORT: Duration = Duration::from_millis(2);

/// One of each, not signaled: the mutex is owned by 1.
fn things() -> Vec<Handle> {
    let mutex = Mutex::with_owner(1, 1).unwrap();
    vec![
        Event::auto(false).into(),
        Event::manual(false).into(),
        Semaphore::new(0, 9).unwrap().into(),
        mutex.into(),
        Timer::new(false).into(),
    ]
}

fn give(thing: &Handle) {
    match (
        thing.as_event(),
        thing.as_semaphore(),
        thing.as_mutex(),
        thing.as_timer(),
    ) {
        (Some(event), ..) => drop(event.set()),
        (_, Some(semaphore), ..) => drop(semaphore.release(1).unwrap()),
        (_, _, Some(mutex), _) => drop(mutex.unlock_as(crate::id(1)).unwrap()),
        (.., Some(timer)) => drop(timer.set(Instant::now(), None).unwrap()),
        _ => unreachable!(),
    }
}

fn is_signaled(thing: &Handle) -> bool {
    match (
        thing.as_event(),
        thing.as_semaphore(),
        thing.as_mutex(),
        thing.as_timer(),
    ) {
        (Some(event), ..) => event.is_set(),
        (_, Some(semaphore), ..) => semaphore.count() > 0,
        (_, _, Some(mutex), _) => mutex.owned() == umcg::nt::Owned::Free,
        (.., Some(timer)) => timer.is_set(),
        _ => unreachable!(),
    }
}

fn wait(
    things: &[Handle],
    is_all: bool,
    alert: Option<&Event>,
    timeout: Duration,
) -> Result<Woken, WaitError> {
    let handles: Vec<_> = things.iter().map(Handle::as_handle).collect();
    let wait = if is_all {
        Wait::all(&handles)
    } else {
        Wait::any(&handles)
    };
    let wait = alert.map_or(wait, |alert| wait.alert(alert.as_handle()));
    let wait = wait.owner(crate::id(1));
    if timeout == Duration::MAX {
        wait.wait()
    } else {
        wait.wait_timeout(timeout)
    }
}

/// Each object that is given ends the wait, with its index, and is taken; with an alert, or
/// without.
#[test]
fn any() {
    everywhere("any", |place| {
        let (things, alert) = (Arc::new(things()), Event::auto(false));
        for n in 0..5 {
            for sort in SORTS {
                // Owned by another, as its owner has it at once.
                let mutex = things[3].as_mutex().unwrap();
                while mutex
                    .unlock_as(crate::id(1))
                    .or(mutex.unlock_as(crate::id(2)))
                    .is_ok()
                {}
                assert_eq!(
                    Wait::any(&[mutex.as_handle()])
                        .owner(crate::id(2))
                        .try_wait(),
                    TAKEN
                );
                let (inside, heard) = (things.clone(), Some(alert.clone()).filter(|_| n % 2 == 0));
                let party = place.start(sort, move || {
                    wait(&inside, false, heard.as_ref(), Duration::MAX)
                });
                until_waiting(&things[4], 1);
                if n == 3 {
                    mutex.unlock_as(crate::id(2)).map(drop).unwrap()
                } else {
                    give(&things[n])
                }
                assert_eq!(party.join(), Ok(Woken::Object(n)));
                assert_eq!(is_signaled(&things[n]), n == 1);
                things[1].as_event().unwrap().reset();
                assert!(things.iter().all(|thing| waiters(thing) == 0) && waiters(&alert) == 0);
            }
        }
    });
}

/// Nothing is taken before all are there; then all are taken, whichever comes last.
#[test]
fn all() {
    everywhere("all", |place| {
        for last in 0..5 {
            for sort in SORTS {
                let things = Arc::new(things());
                let mutex = things[3].as_mutex().unwrap();
                mutex.unlock_as(crate::id(1)).unwrap();
                assert_eq!(
                    Wait::any(&[mutex.as_handle()])
                        .owner(crate::id(2))
                        .try_wait(),
                    TAKEN
                );
                let give = |n: usize| {
                    if n == 3 {
                        mutex.unlock_as(crate::id(2)).map(drop).unwrap()
                    } else {
                        give(&things[n])
                    }
                };
                let inside = things.clone();
                let party = place.start(sort, move || wait(&inside, true, None, Duration::MAX));
                until_waiting(&things[4], 1);
                for n in (0..5).filter(|n| *n != last) {
                    give(n);
                    assert!(
                        is_signaled(&things[n]),
                        "nothing is taken before all is there"
                    );
                    // Others may have it meanwhile.
                    assert_eq!(
                        Wait::any(&[things[n].as_handle()])
                            .owner(crate::id(2))
                            .try_wait(),
                        TAKEN
                    );
                    give(n);
                }
                give(last);
                assert_eq!(party.join(), TAKEN);
                let left: Vec<bool> = things.iter().map(is_signaled).collect();
                assert_eq!(left, [false, true, false, false, false]);
                assert!(things.iter().all(|thing| waiters(thing) == 0));
            }
        }
    });
}

/// The alert ends a wait for any, and for all, and takes nothing else.
#[test]
fn alerts() {
    everywhere("alerts", |place| {
        let (things, alert) = (Arc::new(things()), Event::auto(false));
        for is_all in [false, true] {
            for sort in SORTS {
                let rest = if is_all { 0..2 } else { 0..0 };
                rest.clone().for_each(|n| give(&things[n]));
                let (inside, heard) = (things.clone(), alert.clone());
                // Without the mutex, which is the caller's.
                let party =
                    place.start(sort, move || wait(&inside[..3], is_all, Some(&heard), HOUR));
                until_waiting(&alert, 1);
                alert.set();
                assert_eq!(party.join(), Ok(Woken::Alert));
                assert!(!alert.is_set() && rest.clone().all(|n| is_signaled(&things[n])));
                let (inside, heard) = (things.clone(), alert.clone());
                let party =
                    place.start(sort, move || wait(&inside[..3], is_all, Some(&heard), HOUR));
                until_waiting(&alert, 1);
                alert.pulse();
                assert_eq!(party.join(), Ok(Woken::Alert));
                assert!(things.iter().all(|thing| waiters(thing) == 0) && waiters(&alert) == 0);
                rest.for_each(|n| assert!(things[n].as_event().unwrap().reset()));
            }
        }
        // Asleep for nothing but an alert.
        let heard = alert.clone();
        let party = place.start(Sort::Worker, move || {
            Wait::any(&[]).alert(heard.as_handle()).wait()
        });
        until_waiting(&alert, 1);
        alert.set();
        assert_eq!(party.join(), Ok(Woken::Alert));
    });
}

/// A pulse ends the waits that are there, as far as it completes them: all of them if the event is
/// reset by hand, the first if not. The event stays reset.
#[test]
fn pulses() {
    everywhere("pulses", |place| {
        for event in [Event::manual(false), Event::auto(false)] {
            let other = Event::manual(false);
            let start = |n: usize| {
                let (event, other) = (event.clone(), other.clone());
                place.start(SORTS[n % 3], move || {
                    let both = [other.as_handle(), event.as_handle()];
                    match n % 3 {
                        0 => Wait::any(&both[1..]).wait(),
                        1 => Wait::any(&both).wait(),
                        _ => Wait::all(&both).wait(),
                    }
                })
            };
            let mut parties = Vec::new();
            for n in 0..6 {
                parties.push(start(n));
                until_waiting(&event, n + 1);
            }
            let mut left = 6;
            let expected = |n: usize| Ok(Woken::Object(usize::from(n % 3 == 1)));
            while left > 2 {
                assert!(!event.pulse() && !event.is_set());
                left -= if event.is_manual() { 4 } else { 1 };
                until_waiting(&event, left);
            }
            let (all, rest): (Vec<_>, Vec<_>) = parties
                .into_iter()
                .enumerate()
                .partition(|(n, _)| n % 3 == 2);
            rest.into_iter()
                .for_each(|(n, party)| assert_eq!(party.join(), expected(n)));
            // Those for all have the rest now.
            other.set();
            assert_eq!(waiters(&event), 2);
            while left > 0 {
                event.pulse();
                left -= if event.is_manual() { 2 } else { 1 };
                until_waiting(&event, left);
            }
            all.into_iter()
                .for_each(|(n, party)| assert_eq!(party.join(), expected(n)));
            assert!(!event.is_set() && other.is_set());
        }
    });
}

/// Served in the order in which they came, whichever objects they wait for.
#[test]
fn in_order() {
    everywhere("order", |place| {
        let (semaphore, other) = (Semaphore::new(0, 100).unwrap(), Event::manual(true));
        let log = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut parties = Vec::new();
        for n in 0..9 {
            let (inside, other, log) = (semaphore.clone(), other.clone(), log.clone());
            parties.push(place.start(SORTS[n / 3], move || {
                let both = [inside.as_handle(), other.as_handle()];
                let quiet = Event::auto(false);
                let woken = match n % 3 {
                    0 => Wait::any(&both[..1]).wait(),
                    1 => Wait::any(&[inside.as_handle(), quiet.as_handle()]).wait(),
                    _ => Wait::all(&both).wait(),
                };
                log.lock().unwrap().push(n);
                woken
            }));
            until_waiting(&semaphore, n + 1);
        }
        for n in 0..9 {
            assert_eq!(semaphore.release(1), Ok(0));
            eventually("it goes on", || log.lock().unwrap().len() == n + 1);
        }
        assert_eq!(*log.lock().unwrap(), (0..9).collect::<Vec<_>>());
        assert!(join_all(parties).into_iter().all(|woken| woken == TAKEN));
    });
}

/// More than 64, some of them twice.
#[test]
fn many() {
    everywhere("many", |place| {
        let semaphores: Vec<Semaphore> = (0..300).map(|_| Semaphore::new(0, 1).unwrap()).collect();
        let start = |is_all: bool, sort: Sort| {
            let mut things: Vec<Handle> = semaphores
                .iter()
                .map(|semaphore| (**semaphore).clone())
                .collect();
            if !is_all {
                things.extend_from_within(100..200);
            }
            place.start(sort, move || wait(&things, is_all, None, HOUR))
        };
        for (n, sort) in SORTS.into_iter().enumerate() {
            let any = start(false, sort);
            until_waiting(&semaphores[199], 2);
            let given = 70 + 50 * n;
            semaphores[given].release(1).unwrap();
            assert_eq!(any.join(), Ok(Woken::Object(given)));
            let all = start(true, sort);
            until_waiting(&semaphores[299], 1);
            for semaphore in semaphores.iter().rev() {
                assert_eq!(semaphore.release(1), Ok(0));
            }
            assert_eq!(all.join(), TAKEN);
            assert!(
                semaphores
                    .iter()
                    .all(|semaphore| semaphore.count() == 0 && waiters(&**semaphore) == 0)
            );
        }
        let twice: Vec<_> = semaphores
            .iter()
            .chain(&semaphores[17..18])
            .map(|semaphore| semaphore.as_handle())
            .collect();
        assert_eq!(Wait::all(&twice).try_wait(), Err(WaitError::Invalid));
    });
}

/// A waiter whose time passes, or that is aborted, has taken nothing, and stands in no queue.
#[test]
fn deadlines_and_aborts() {
    everywhere("deadlines", |place| {
        let things = Arc::new(things());
        for is_all in [false, true] {
            // The event reset by hand is there for all.
            let some = if is_all { 0..3 } else { 0..1 };
            for sort in SORTS {
                let (inside, range) = (things.clone(), some.clone());
                let start = Instant::now();
                assert_eq!(
                    place
                        .start(sort, move || wait(&inside[range], is_all, None, SHORT))
                        .join(),
                    LATE
                );
                assert!(start.elapsed() >= SHORT);
                let (inside, alert) = (things.clone(), Event::manual(false));
                assert_eq!(
                    place
                        .start(sort, move || wait(
                            &inside[..1],
                            is_all,
                            Some(&alert),
                            SHORT
                        ))
                        .join(),
                    LATE
                );
            }
            for sort in [Sort::Worker, Sort::Blocking] {
                let (inside, range) = (things.clone(), some.clone());
                let Party::Worker(worker) =
                    place.start(sort, move || wait(&inside[range], is_all, None, HOUR))
                else {
                    unreachable!()
                };
                until_waiting(&things[0], 1);
                abort(worker);
                assert!(things.iter().all(|thing| waiters(thing) == 0));
            }
            things[1].as_event().unwrap().set();
        }
        things[0].as_event().unwrap().set();
        give(&things[2]);
        assert_eq!(wait(&things[..3], true, None, SHORT), TAKEN);
        let passed = Instant::now();
        assert_eq!(
            Wait::any(&[things[0].as_handle()]).wait_deadline(passed),
            LATE
        );
        assert_eq!(
            Wait::all(&[things[0].as_handle(), things[1].as_handle()]).wait_deadline(passed),
            LATE
        );
    });
}

/// A caller that only looks, in many queues, is not cut short there, even if it is aborted in that
/// moment.
#[test]
fn a_look_is_no_point_of_cancellation() {
    everywhere("looks", |place| {
        for turn in 0..100 {
            let (begun, over) = (counter(), counter());
            let (seen, told) = (begun.clone(), over.clone());
            let worker = place.worker(move || {
                let (things, alert) = (things(), Event::manual(false));
                let (first, handles) = (
                    [things[0].as_handle()],
                    things.iter().map(Handle::as_handle).collect::<Vec<_>>(),
                );
                let look = match turn % 3 {
                    0 => Wait::any(&handles),
                    1 => Wait::any(&first).alert(alert.as_handle()),
                    _ => Wait::all(&handles).alert(alert.as_handle()),
                };
                while told.load(Relaxed) == 0 {
                    assert_eq!(look.owner(crate::id(2)).try_wait(), LATE);
                    seen.store(1, Relaxed);
                }
            });
            eventually("it looks", || begun.load(Relaxed) == 1);
            worker.abort();
            over.store(1, Relaxed);
            worker.join().expect("it waits nowhere");
        }
    });
}

/// An object whose handles are gone lives as long as a waiter waits for it, or is being woken by
/// it.
#[test]
fn the_last_handle() {
    everywhere("handles", |place| {
        for turn in 0..200 {
            let event = Event::auto(false);
            let inside = event.clone();
            let party = place.start(SORTS[turn % 3], move || {
                let woken = Wait::any(&[inside.as_handle()]).wait();
                drop(inside);
                woken
            });
            if turn % 2 == 0 {
                until_waiting(&event, 1);
            }
            event.set();
            drop(event);
            assert_eq!(party.join(), TAKEN);
        }
    });
}
