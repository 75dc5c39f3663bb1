//! Mutexes: their owners, and the mutexes that an owner has at its end.

use crate::parties::{Party, Place, SORTS, Sort, everywhere, until_waiting};
use crate::support::flag;
use crate::{LATE, TAKEN, id, poll};
use std::sync::Arc;
use std::sync::atomic::Ordering::*;
use umcg::JoinError;
use umcg::nt::{Event, Mutex, NotOwner, Owned, Wait, Woken};

/// The ways in which an owner of mutexes ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ends {
    Returns,
    Panics,
    IsAborted,
}

/// However an owner ends: the next wait has the mutex, and is told.
#[test]
fn abandoned() {
    everywhere("abandoned", |place| {
        for sort in SORTS {
            for ends in [Ends::Returns, Ends::Panics, Ends::IsAborted] {
                if sort != Sort::Thread || ends != Ends::IsAborted {
                    abandoned_by(&place, sort, ends);
                }
            }
        }
    });
}

fn abandoned_by(place: &Place<'_>, sort: Sort, ends: Ends) {
    let mutexes = Arc::new([Mutex::new(false), Mutex::new(false), Mutex::new(false)]);
    let (inside, taken, go_on) = (mutexes.clone(), flag(), Event::auto(false));
    let (is_taken, gone) = (taken.clone(), go_on.clone());
    let owner = place.start(sort, move || {
        let all = inside.each_ref().map(|mutex| mutex.as_handle());
        assert_eq!(Wait::all(&all).wait(), TAKEN);
        assert_eq!(Wait::any(&all[1..]).wait(), TAKEN);
        assert_eq!(inside[2].unlock(), Ok(1));
        is_taken.store(true, Release);
        Wait::any(&[gone.as_handle()]).wait().unwrap();
        if ends == Ends::Panics {
            panic!("expected");
        }
    });
    until_waiting(&*go_on, 1);
    assert!(taken.load(Acquire));
    assert_eq!(poll(mutexes[2].as_handle()), TAKEN);
    assert_eq!(
        (poll(mutexes[0].as_handle()), mutexes[1].unlock()),
        (LATE, Err(NotOwner))
    );
    // One waits for one, another for all.
    let inside = mutexes.clone();
    let heir = place.start(SORTS[(sort as usize + 1) % 3], move || {
        let woken = Wait::any(&[inside[0].as_handle()]).wait();
        let again = poll(inside[0].as_handle());
        (woken, again, inside[0].unlock(), inside[0].unlock())
    });
    until_waiting(&*mutexes[0], 1);
    if ends == Ends::IsAborted {
        let Party::Worker(worker) = &owner else {
            unreachable!()
        };
        worker.abort();
    } else {
        go_on.set();
    }
    match owner {
        Party::Worker(worker) => match (worker.join(), ends) {
            (Ok(()), Ends::Returns) | (Err(JoinError::Cancelled), Ends::IsAborted) => {}
            (Err(JoinError::Panicked(_)), Ends::Panics) => {}
            other => panic!("{other:?}"),
        },
        Party::Thread(thread) => {
            assert_eq!(thread.join().is_err(), ends == Ends::Panics)
        }
    }
    assert_eq!(heir.join(), (Ok(Woken::Abandoned(0)), TAKEN, Ok(2), Ok(1)));
    assert_eq!(
        [0, 1].map(|n| mutexes[n].owned()),
        [Owned::Free, Owned::Abandoned]
    );
    let both = [mutexes[0].as_handle(), mutexes[1].as_handle()];
    assert_eq!(Wait::all(&both).wait(), Ok(Woken::Abandoned(0)));
    assert_eq!([0, 1, 2].map(|n| mutexes[n].unlock()), [Ok(1); 3]);
}

/// A mutex that was unlocked is not abandoned; nor is one that was taken for another owner.
#[test]
fn not_abandoned() {
    everywhere("not abandoned", |place| {
        for sort in SORTS {
            let mutexes = Arc::new([Mutex::new(false), Mutex::new(false)]);
            let inside = mutexes.clone();
            let owner = place.start(sort, move || {
                assert_eq!(
                    (poll(inside[0].as_handle()), poll(inside[0].as_handle())),
                    (TAKEN, TAKEN)
                );
                assert_eq!((inside[0].unlock(), inside[0].unlock()), (Ok(2), Ok(1)));
                assert_eq!(
                    Wait::any(&[inside[1].as_handle()]).owner(id(5)).wait(),
                    TAKEN
                );
                // By its number it is the caller itself.
                let own = Mutex::with_owner(umcg::nt::owner().get(), 4).unwrap();
                (umcg::nt::owner(), own)
            });
            let (owner, own) = owner.join();
            assert_ne!(owner, umcg::nt::owner());
            assert_eq!(
                mutexes.each_ref().map(Mutex::owned),
                [Owned::Free, Owned::By(id(5), 1)]
            );
            assert_eq!(
                (own.owned(), own.kill(owner)),
                (Owned::Abandoned, Err(NotOwner))
            );
        }
    });
}

/// Waits of one owner come through together; those of others wait. When it dies all is over at
/// once.
#[test]
fn owners_of_ones_own() {
    everywhere("owners", |place| {
        let mutex = Mutex::with_owner(1, 1).unwrap();
        let start = |n: usize, owner: u32| {
            let mutex = mutex.clone();
            place.start(SORTS[n % 3], move || {
                Wait::any(&[mutex.as_handle()]).owner(id(owner)).wait()
            })
        };
        let parties: Vec<_> = [2, 3, 2, 3]
            .into_iter()
            .enumerate()
            .map(|(n, owner)| {
                let party = start(n, owner);
                until_waiting(&*mutex, n + 1);
                party
            })
            .collect();
        assert_eq!(start(0, 1).join(), TAKEN, "who owns it passes by");
        assert_eq!(
            (mutex.unlock_as(id(1)), mutex.unlock_as(id(1))),
            (Ok(2), Ok(1))
        );
        let mut parties = parties.into_iter();
        let mut next = || parties.next().unwrap();
        let (second, third, other, last) = (next(), next(), next(), next());
        assert_eq!([second.join(), other.join()], [TAKEN, TAKEN]);
        assert_eq!(mutex.owned(), Owned::By(id(2), 2));
        until_waiting(&*mutex, 2);
        assert_eq!(
            (mutex.kill(id(3)), mutex.kill(id(2))),
            (Err(NotOwner), Ok(()))
        );
        // The first of them is told.
        assert_eq!(
            [third.join(), last.join()],
            [Ok(Woken::Abandoned(0)), TAKEN]
        );
        assert_eq!(mutex.owned(), Owned::By(id(3), 2));
    });
}
