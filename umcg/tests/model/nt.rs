//! Objects of NT, on the protocol of waiting: waits for any and for all against those that give,
//! pulse, kill and alert.

use crate::check;
use crate::kernel::advance;
use crate::nt::{Event, Handle, Mutex, NotOwner, Owned, Semaphore, Wait, WaitError, Woken};
use crate::parties::{SOON, deadline_if, join_all, party};
use crate::rt::cancel;
use crate::rt::task::Task;
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use shuttle::thread;
use std::num::NonZeroU32;
use std::sync::Arc;

type Ended = Result<Woken, WaitError>;

fn id(owner: u32) -> NonZeroU32 {
    NonZeroU32::new(owner).unwrap()
}

fn is_gone(task: &Task) -> bool {
    task.departed.load(SeqCst) != 0
}

/// Waits for the objects, as this owner.
fn wait(
    objects: &[Handle],
    is_all: bool,
    alert: Option<&Event>,
    owner: u32,
    deadline: u64,
) -> Ended {
    let list: Vec<_> = objects.iter().map(Handle::as_handle).collect();
    let wait = if is_all {
        Wait::all(&list)
    } else {
        Wait::any(&list)
    };
    let wait = alert.map_or(wait, |alert| wait.alert(alert.as_handle()));
    wait.owner(id(owner)).wait_until(deadline)
}

fn tickets(counts: [u32; 2]) -> [Semaphore; 2] {
    counts.map(|count| Semaphore::new(count, 9).unwrap())
}

fn handles(pair: &[Semaphore; 2]) -> [Handle; 2] {
    [(*pair[0]).clone(), (*pair[1]).clone()]
}

/// The first was signaled whenever the second was.
fn the_lowest_of_those(is_worker: bool, deadline: u64) {
    let (first, second) = (Event::manual(false), Event::manual(false));
    let list = [(*first).clone(), (*second).clone()];
    let (_, waiter) = party(is_worker, move || wait(&list, false, None, 1, deadline));
    let (_, giver) = party(true, move || {
        first.set();
        second.set();
    });
    let ended = waiter.join().unwrap();
    giver.join().unwrap();
    assert!(ended == Ok(Woken::Object(0)) || (deadline == 0 && ended == Err(WaitError::TimedOut)));
}

#[test]
fn the_lowest() {
    check(|| the_lowest_of_those(true, u64::MAX));
    check(|| the_lowest_of_those(false, u64::MAX));
    check(|| the_lowest_of_those(true, 0));
}

/// One of them is signaled at every moment, so a caller that only looks finds one.
#[test]
fn a_look_is_a_moment() {
    check(|| {
        let (first, second) = (Event::manual(false), Event::manual(true));
        let list = [(*first).clone(), (*second).clone()];
        let (_, giver) = party(true, move || {
            first.set();
            second.reset();
        });
        assert!(
            party(true, move || wait(&list, false, None, 1, 0))
                .1
                .join()
                .unwrap()
                .is_ok()
        );
        giver.join().unwrap();
    });
}

/// In whatever order things come: all waiters come through, those that want any and those that want
/// all, and nothing is left.
fn through(is_worker: bool, anies: u32, alls: u32) {
    let pair = tickets([0, 0]);
    let parties: Vec<_> = (0..anies + alls)
        .map(|n| {
            let mut list = handles(&pair);
            list[n as usize % 2..].reverse();
            party(is_worker, move || {
                assert!(wait(&list, n < alls, None, 1, u64::MAX).is_ok())
            })
            .1
        })
        .collect();
    // Enough that each can go on, wherever those that want any take theirs.
    let each = alls + anies;
    let givers = pair.clone().map(|semaphore| {
        party(true, move || {
            for _ in 0..each {
                semaphore.release(1).unwrap();
            }
        })
        .1
    });
    join_all(parties.into_iter().chain(givers));
    assert_eq!(
        pair[0].count() + pair[1].count(),
        2 * each - 2 * alls - anies
    );
}

#[test]
fn all_come_through() {
    check(|| through(true, 1, 1));
    check(|| through(false, 1, 1));
    check(|| through(true, 2, 0));
    check(|| through(true, 0, 2));
}

/// A pulse meets every waiter that stands there: alone, beside another, or with the rest there; and
/// nothing stays.
fn pulsed(is_worker: bool, is_manual: bool, is_all: bool) {
    let (event, other) = (
        if is_manual {
            Event::manual(false)
        } else {
            Event::auto(false)
        },
        Event::manual(is_all),
    );
    let list = [(*other).clone(), (*event).clone()];
    let (task, waiter) = party(is_worker, move || wait(&list, is_all, None, 1, SOON));
    if is_worker {
        while !is_gone(task) {
            thread::yield_now();
        }
    }
    let alone = (*event).clone();
    let (_, another) = party(true, move || wait(&[alone], false, None, 1, SOON));
    event.pulse();
    assert!(!event.is_set());
    if is_worker {
        // It came first.
        assert_eq!(
            waiter.join().unwrap(),
            Ok(Woken::Object(usize::from(!is_all)))
        );
        advance(SOON);
        let _ = another.join().unwrap();
    } else {
        advance(SOON);
        let ended = [waiter.join().unwrap(), another.join().unwrap()];
        assert!(is_manual || ended.iter().any(Result::is_err), "one at most");
    }
}

#[test]
fn pulses() {
    check(|| pulsed(true, true, false));
    check(|| pulsed(true, false, false));
    check(|| pulsed(true, true, true));
    check(|| pulsed(false, false, true));
}

/// A wait for all meets a pulse in the moment when the rest is there, or not at all; the rest stays
/// if not.
#[test]
fn a_pulse_and_the_rest() {
    check(|| {
        let (event, rest) = (Event::manual(false), Semaphore::new(0, 1).unwrap());
        let list = [(*event).clone(), (*rest).clone()];
        let (_, waiter) = party(true, move || wait(&list, true, None, 1, SOON));
        let giving = rest.clone();
        let (_, giver) = party(true, move || giving.release(1).unwrap());
        event.pulse();
        giver.join().unwrap();
        advance(SOON);
        assert_eq!(waiter.join().unwrap().is_ok(), rest.count() == 0);
        assert!(!event.is_set());
    });
}

/// A thread ends a wait, or revokes it: then nothing is taken.
fn revoked(is_worker: bool, is_all: bool, by_deadline: bool) {
    let (pair, bell) = (tickets([0, 0]), Event::auto(false));
    let (list, heard) = (handles(&pair), bell.clone());
    let deadline = deadline_if(by_deadline);
    let (asked, waiter) = party(is_worker, move || {
        wait(&list, is_all, Some(&heard), 1, deadline)
    });
    let givers = pair
        .clone()
        .map(|semaphore| party(true, move || semaphore.release(1).unwrap()).1);
    let ringing = bell.clone();
    let (_, ringer) = party(true, move || ringing.set());
    let end = thread::spawn(move || {
        if by_deadline {
            advance(SOON)
        } else {
            cancel::ask(asked)
        }
    });
    let ended = waiter.join().unwrap();
    givers
        .into_iter()
        .for_each(|giver| assert_eq!(giver.join().unwrap(), 0));
    ringer.join().unwrap();
    end.join().unwrap();
    let counts = [pair[0].count(), pair[1].count()];
    match ended {
        Ok(Woken::Object(index)) if !is_all => {
            assert_eq!((counts[index], counts[1 - index]), (0, 1))
        }
        Ok(Woken::Object(_)) => assert_eq!(counts, [0, 0]),
        _ => assert_eq!(counts, [1, 1]),
    }
    assert_eq!(bell.is_set(), ended != Ok(Woken::Alert));
}

#[test]
fn all_or_nothing() {
    check(|| revoked(true, true, true));
    check(|| revoked(true, true, false));
    check(|| revoked(true, false, true));
    check(|| revoked(false, true, true));
    check(|| revoked(false, false, false));
}

/// One at a time has a mutex, and one is told that its owner has died.
fn mutexes(is_worker: bool, is_all: bool) {
    let (mutexes, inside) = (
        [Mutex::with_owner(9, 2).unwrap(), Mutex::new(false)],
        Arc::new(AtomicU32::new(0)),
    );
    let parties: Vec<_> = (1..4)
        .map(|owner| {
            let (mutexes, inside) = (mutexes.clone(), inside.clone());
            let body = move || {
                let count = if is_all && owner < 3 { 2 } else { 1 };
                let list: Vec<Handle> = mutexes[..count]
                    .iter()
                    .map(|mutex| (**mutex).clone())
                    .collect();
                let ended = wait(&list, count == 2, None, owner, u64::MAX);
                assert_eq!(inside.fetch_add(1, SeqCst), 0);
                assert_eq!(
                    wait(&list[..1], false, None, owner, 0),
                    Ok(Woken::Object(0))
                );
                inside.fetch_sub(1, SeqCst);
                for mutex in &mutexes[..count] {
                    mutex.unlock_as(id(owner)).unwrap();
                }
                assert_eq!(mutexes[0].unlock_as(id(owner)), Ok(1));
                ended
            };
            party(is_worker, body).1
        })
        .collect();
    assert_eq!(
        (mutexes[0].kill(id(8)), mutexes[0].kill(id(9))),
        (Err(NotOwner), Ok(()))
    );
    let ended: Vec<Ended> = parties
        .into_iter()
        .map(|party| party.join().unwrap())
        .collect();
    assert_eq!(
        ended
            .iter()
            .filter(|ended| **ended == Ok(Woken::Abandoned(0)))
            .count(),
        1,
        "{ended:?}"
    );
    assert_eq!(
        mutexes.map(|mutex| mutex.owned()),
        [Owned::Free, Owned::Free]
    );
}

#[test]
fn one_owner_at_a_time() {
    check(|| mutexes(true, false));
    check(|| mutexes(false, true));
}

/// Two waits of one owner have it both; the wait of another has it after both have unlocked it.
#[test]
fn owners() {
    check(|| {
        let mutex = Mutex::with_owner(9, 1).unwrap();
        let waits: Vec<_> = [1, 2, 1]
            .into_iter()
            .map(|owner| {
                let mutex = mutex.clone();
                let body = move || {
                    assert_eq!(
                        wait(&[(*mutex).clone()], false, None, owner, u64::MAX),
                        Ok(Woken::Object(0))
                    );
                    if owner == 2 {
                        mutex.unlock_as(id(2)).unwrap()
                    } else {
                        0
                    }
                };
                party(true, body).1
            })
            .collect();
        mutex.unlock_as(id(9)).unwrap();
        let mut waits = waits.into_iter();
        let (one, other, again) = (
            waits.next().unwrap(),
            waits.next().unwrap(),
            waits.next().unwrap(),
        );
        one.join().unwrap();
        again.join().unwrap();
        assert_eq!(mutex.owned(), Owned::By(id(1), 2));
        assert_eq!(
            (mutex.unlock_as(id(1)), mutex.unlock_as(id(1))),
            (Ok(2), Ok(1))
        );
        assert_eq!((other.join().unwrap(), mutex.owned()), (1, Owned::Free));
    });
}
