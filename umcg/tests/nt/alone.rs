//! The effect of each operation without waiters: by a worker and by a thread.

use crate::parties::{SORTS, everywhere};
use crate::support::{KINDS, with};
use crate::{LATE, TAKEN, id, poll};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use umcg::Runtime;
use umcg::nt::{
    BorrowedHandle, Event, Mutex, NotOwner, OutOfRange, Owned, Semaphore, Wait, WaitError, Woken,
};

fn alone(name: &'static str, test: fn()) {
    everywhere(name, |place| {
        SORTS
            .into_iter()
            .for_each(|sort| place.start(sort, test).join())
    });
}

#[test]
fn events() {
    alone("events", || {
        let (auto, manual) = (Event::auto(false), Event::manual(true));
        assert!(!auto.is_manual() && manual.is_manual() && !auto.is_set() && manual.is_set());
        assert_eq!(poll(auto.as_handle()), LATE);
        assert!(!auto.set() && auto.set() && auto.is_set());
        assert_eq!(poll(auto.as_handle()), TAKEN);
        assert_eq!(poll(auto.as_handle()), LATE);
        assert!(!auto.reset() && !auto.set() && auto.reset() && !auto.is_set());
        assert_eq!(
            [poll(manual.as_handle()), poll(manual.as_handle())],
            [TAKEN, TAKEN]
        );
        assert!(manual.reset() && !manual.reset());
        assert_eq!(poll(manual.as_handle()), LATE);
        for event in [auto, manual] {
            assert!(
                !event.pulse()
                    && !event.is_set()
                    && !event.set()
                    && event.pulse()
                    && !event.is_set()
            );
        }
    });
}

#[test]
fn semaphores() {
    alone("semaphores", || {
        assert_eq!(Semaphore::new(2, 1).err(), Some(OutOfRange));
        let semaphore = Semaphore::new(1, 3).unwrap();
        assert_eq!((semaphore.count(), semaphore.most()), (1, 3));
        assert_eq!(semaphore.release(3), Err(OutOfRange));
        assert_eq!(semaphore.release(u32::MAX), Err(OutOfRange));
        assert_eq!(semaphore.count(), 1);
        assert_eq!(
            [
                semaphore.release(2),
                semaphore.release(0),
                semaphore.release(1)
            ],
            [Ok(1), Ok(3), Err(OutOfRange)]
        );
        assert_eq!(
            [(); 4].map(|()| poll(semaphore.as_handle())),
            [TAKEN, TAKEN, TAKEN, LATE]
        );
        let largest = Semaphore::new(u32::MAX, u32::MAX).unwrap();
        assert_eq!(largest.release(1), Err(OutOfRange));
        assert_eq!(
            (
                poll(largest.as_handle()),
                largest.release(1),
                largest.count()
            ),
            (TAKEN, Ok(u32::MAX - 1), u32::MAX)
        );
        let none = Semaphore::new(0, 0).unwrap();
        assert_eq!((none.release(0), none.release(1)), (Ok(0), Err(OutOfRange)));
    });
}

#[test]
fn mutexes() {
    alone("mutexes", || {
        for (owner, depth) in [(0, 1), (1, 0), (1, 1 << 28)] {
            assert_eq!(Mutex::with_owner(owner, depth).err(), Some(OutOfRange));
        }
        let mutex = Mutex::with_owner(7, 2).unwrap();
        let take = |owner| Wait::any(&[mutex.as_handle()]).owner(id(owner)).try_wait();
        assert_eq!(mutex.owned(), Owned::By(id(7), 2));
        assert_eq!(
            (take(8), poll(mutex.as_handle()), take(7)),
            (LATE, LATE, TAKEN)
        );
        assert_eq!(mutex.unlock_as(id(8)), Err(NotOwner));
        assert_eq!(mutex.unlock(), Err(NotOwner));
        assert_eq!(
            [3, 2, 1].map(|_| mutex.unlock_as(id(7))),
            [Ok(3), Ok(2), Ok(1)]
        );
        assert_eq!(
            (mutex.unlock_as(id(7)), mutex.owned()),
            (Err(NotOwner), Owned::Free)
        );
        assert_eq!(
            (take(8), take(8), mutex.owned()),
            (TAKEN, TAKEN, Owned::By(id(8), 2))
        );

        assert_eq!(
            (mutex.kill(id(7)), mutex.kill(id(8)), mutex.kill(id(8))),
            (Err(NotOwner), Ok(()), Err(NotOwner))
        );
        assert_eq!(mutex.owned(), Owned::Abandoned);
        assert_eq!(take(9), Ok(Woken::Abandoned(0)));
        assert_eq!(
            (take(9), mutex.owned()),
            (TAKEN, Owned::By(id(9), 2)),
            "abandoned once"
        );
        assert_eq!(
            (mutex.unlock_as(id(9)), mutex.unlock_as(id(9)), take(7)),
            (Ok(2), Ok(1), TAKEN)
        );
    });
}

#[test]
fn mutexes_at_their_limits() {
    alone("mutexes at their limits", || {
        let deepest = Mutex::with_owner(7, (1 << 28) - 1).unwrap();
        let take = || Wait::any(&[deepest.as_handle()]).owner(id(7)).try_wait();
        assert_eq!(
            (take(), deepest.unlock_as(id(7)), take(), take()),
            (LATE, Ok((1 << 28) - 1), TAKEN, LATE)
        );

        let mine = Mutex::new(true);
        assert_eq!(mine.owned(), Owned::By(umcg::nt::owner(), 1));
        assert_eq!(
            (
                poll(mine.as_handle()),
                mine.unlock(),
                mine.unlock(),
                mine.unlock()
            ),
            (TAKEN, Ok(2), Ok(1), Err(NotOwner))
        );
    });
}

#[test]
fn lists() {
    alone("lists", || {
        let (one, other) = (Event::auto(true), Event::auto(false));
        let both = [other.as_handle(), one.as_handle(), one.as_handle()];
        assert_eq!(Wait::any(&both).try_wait(), Ok(Woken::Object(1)));
        assert_eq!(Wait::any(&both).try_wait(), LATE);
        assert_eq!(Wait::all(&both).try_wait(), Err(WaitError::Invalid));
        one.set();
        assert_eq!(Wait::all(&both[..2]).try_wait(), LATE);
        assert!(one.is_set(), "nothing is taken");
        other.set();
        assert_eq!(Wait::all(&both[..2]).try_wait(), TAKEN);
        assert!(!one.is_set() && !other.is_set());

        // Of nothing.
        assert_eq!(
            (Wait::any(&[]).try_wait(), Wait::all(&[]).try_wait()),
            (LATE, TAKEN)
        );
    });
}

#[test]
fn alerts() {
    alone("alerts", || {
        let (one, other, alert) = (Event::auto(false), Event::auto(false), Event::auto(false));
        let both = [other.as_handle(), one.as_handle(), one.as_handle()];
        // An alert comes last, and alone.
        let any = Wait::any(&both).alert(alert.as_handle());
        alert.set();
        one.set();
        assert_eq!(
            [any.try_wait(), any.try_wait(), any.try_wait()],
            [Ok(Woken::Object(1)), Ok(Woken::Alert), LATE]
        );
        alert.set();
        one.set();
        let all = Wait::all(&both[..2]).alert(alert.as_handle());
        assert_eq!([all.try_wait(), all.try_wait()], [Ok(Woken::Alert), LATE]);
        alert.set();
        other.set();
        assert_eq!(
            [all.try_wait(), all.try_wait(), all.try_wait()],
            [TAKEN, Ok(Woken::Alert), LATE]
        );
        // As an object, too: of any.
        let twice = Wait::any(&both).alert(one.as_handle());
        one.set();
        assert_eq!(
            [twice.try_wait(), twice.try_wait()],
            [Ok(Woken::Object(1)), LATE]
        );
        assert_eq!(
            Wait::all(&both[..2]).alert(one.as_handle()).try_wait(),
            Err(WaitError::Invalid)
        );
        let semaphore = Semaphore::new(1, 1).unwrap();
        assert_eq!(
            any.alert(semaphore.as_handle()).try_wait(),
            Err(WaitError::Invalid)
        );
        // Of nothing.
        alert.set();
        assert_eq!(
            Wait::any(&[]).alert(alert.as_handle()).wait(),
            Ok(Woken::Alert)
        );
    });
}

#[test]
fn mutexes_in_lists() {
    alone("mutexes in lists", || {
        let mutexes = [Mutex::with_owner(5, 3).unwrap(), Mutex::new(false)];
        let all = mutexes.each_ref().map(|mutex| mutex.as_handle());
        assert_eq!(
            (
                Wait::all(&all).try_wait(),
                Wait::all(&all).owner(id(5)).try_wait()
            ),
            (LATE, TAKEN)
        );
        mutexes[1].kill(id(5)).unwrap();
        assert_eq!(
            Wait::all(&all).owner(id(5)).try_wait(),
            Ok(Woken::Abandoned(0))
        );
        assert_eq!(
            mutexes.each_ref().map(Mutex::owned),
            [Owned::By(id(5), 5), Owned::By(id(5), 1)]
        );
    });
}

/// A worker that asks again and again with a deadline that has passed does not starve the others of
/// its server.
#[test]
fn passed_deadlines_let_others_run() {
    let (event, other) = (Event::auto(false), Semaphore::new(0, 1).unwrap());
    type Ask = fn(&[BorrowedHandle<'_>; 2]) -> Result<Woken, WaitError>;
    let asks: [Ask; 3] = [
        |both| Wait::any(&both[..1]).wait_deadline(Instant::now()),
        |both| Wait::any(both).wait_timeout(Duration::ZERO),
        |both| Wait::all(both).wait_deadline(Instant::now()),
    ];
    for (kind, ask) in KINDS
        .into_iter()
        .flat_map(|kind| asks.map(|ask| (kind, ask)))
    {
        let (event, other) = (event.clone(), other.clone());
        with(
            "passed deadlines",
            1,
            Runtime::builder().preemption(None),
            move |runtime| {
                kind.run(runtime, move || {
                    let has_run = Arc::new(AtomicBool::new(false));
                    let theirs = has_run.clone();
                    let worker = kind.spawn(move || theirs.store(true, Relaxed));
                    assert!((0..1000).any(|_| {
                        assert_eq!(ask(&[event.as_handle(), other.as_handle()]), LATE);
                        has_run.load(Relaxed)
                    }));
                    worker.join().unwrap();
                });
            },
        );
    }
}
