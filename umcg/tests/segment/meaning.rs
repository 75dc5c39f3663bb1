//! The meaning of the objects, for every kind of waiter: as in one process.

use crate::again;
use crate::parties::Party;
use crate::support::{HOUR, KINDS, counter, eventually, over, with};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::*};
use std::time::{Duration, Instant};
use umcg::segment::{
    Event, Fault, ReleaseError, Segment, Semaphore, TryError, TryTubeError, Tube, TubeError,
    TubeWaitError, WaitError, acquire_any, acquire_any_deadline, acquire_any_timeout,
    try_acquire_any,
};
use umcg::{JoinError, Runtime};

const SOON: Duration = Duration::from_millis(5);

/// In a thread, and in workers.
fn everywhere(name: &'static str, test: fn()) {
    test();
    over(name, |runtime, kind| kind.run(runtime, test));
}

#[test]
fn semaphores_alone() {
    everywhere("a semaphore", || {
        let segment = Segment::create().unwrap();
        let semaphore = segment.semaphore("s", 2).unwrap();
        let same = again(&segment).semaphore("s", 9).unwrap();
        assert_eq!((semaphore.acquire(), same.try_acquire()), (Ok(()), Ok(())));
        assert_eq!(
            (semaphore.try_acquire(), same.acquire_timeout(SOON)),
            (Err(TryError::Empty), Err(WaitError::TimedOut))
        );
        assert_eq!(
            same.acquire_deadline(Instant::now()),
            Err(WaitError::TimedOut)
        );
        same.release(3).unwrap();
        assert_eq!(semaphore.available(), 3);
        assert_eq!(semaphore.try_acquire_many(4), Err(TryError::Empty));
        assert_eq!(
            semaphore.acquire_many_deadline(4, Instant::now() + SOON),
            Err(WaitError::TimedOut)
        );
        semaphore.acquire_many(3).unwrap();
        semaphore.release(u32::MAX).unwrap();
        assert_eq!(
            (same.release(1), semaphore.available()),
            (Err(ReleaseError::Overflow), u32::MAX)
        );
        assert_eq!((semaphore.waiters(), semaphore.fault()), (Ok(0), None));
    });
}

#[test]
fn events_alone() {
    everywhere("an event", || {
        let segment = Segment::create().unwrap();
        let (auto, manual) = (
            segment.auto_event("a", true).unwrap(),
            segment.manual_event("m", true).unwrap(),
        );
        assert!(auto.is_set() && manual.is_set() && manual.is_manual() && !auto.is_manual());
        assert_eq!(
            (manual.wait(), manual.wait(), manual.try_wait()),
            (Ok(()), Ok(()), Ok(()))
        );
        assert_eq!(
            (auto.wait(), auto.try_wait(), auto.wait_timeout(SOON)),
            (Ok(()), Err(TryError::Empty), Err(WaitError::TimedOut))
        );
        auto.set().unwrap();
        auto.set().unwrap();
        assert_eq!(
            (auto.try_wait(), auto.wait_deadline(Instant::now())),
            (Ok(()), Err(WaitError::TimedOut))
        );
        for event in [auto, manual] {
            event.set().unwrap();
            assert_eq!(
                (event.reset(), event.reset(), event.is_set()),
                (Ok(true), Ok(false), false)
            );
            event.pulse().unwrap();
            assert_eq!(event.try_wait(), Err(TryError::Empty));
        }
    });
}

type Objects = (Semaphore, Event, Tube<u32>, Semaphore);

#[test]
fn passed_deadlines_let_others_run() {
    let segment = Segment::create().unwrap();
    let semaphore = segment.semaphore("s", 0).unwrap();
    let event = segment.auto_event("e", false).unwrap();
    let tube = segment.tube::<u32>("t", 1).unwrap();
    let many = segment.semaphore("m", 1).unwrap();
    let asks: [fn(&Objects) -> bool; 5] = [
        |(semaphore, ..)| semaphore.acquire_deadline(Instant::now()) == Err(WaitError::TimedOut),
        |(_, event, ..)| event.wait_timeout(Duration::ZERO) == Err(WaitError::TimedOut),
        |(.., tube, _)| tube.recv_deadline(Instant::now()) == Err(TubeWaitError::TimedOut),
        |(semaphore, ..)| {
            let any = acquire_any_timeout(&[semaphore, semaphore], Duration::ZERO);
            any == Err(WaitError::TimedOut)
        },
        // It keeps no process from anything while others run.
        |(.., many)| many.acquire_many_deadline(2, Instant::now()) == Err(WaitError::TimedOut),
    ];
    for (kind, ask) in KINDS
        .into_iter()
        .flat_map(|kind| asks.map(|ask| (kind, ask)))
    {
        let objects = (semaphore.clone(), event.clone(), tube.clone(), many.clone());
        with(
            "passed deadlines",
            1,
            Runtime::builder().preemption(None),
            move |runtime| {
                kind.run(runtime, move || {
                    let (has_run, took) = (Arc::new(AtomicBool::new(false)), objects.3.clone());
                    let theirs = has_run.clone();
                    let other = kind.spawn(move || {
                        let result = (took.try_acquire(), took.release(1));
                        theirs.store(true, Relaxed);
                        result
                    });
                    assert!((0..1000).any(|_| {
                        assert!(ask(&objects));
                        has_run.load(Relaxed)
                    }));
                    assert_eq!(other.join().unwrap(), (Ok(()), Ok(())));
                });
            },
        );
    }
}

#[test]
fn passed_deadlines_are_points_of_cancellation() {
    let segment = Segment::create().unwrap();
    let semaphore = segment.semaphore("s", 0).unwrap();
    over(
        "an abort, and a deadline that has passed",
        |runtime, kind| {
            let (asked, waits) = (semaphore.clone(), semaphore.clone());
            let worker = kind.spawn_on(runtime, move || {
                loop {
                    assert_eq!(
                        asked.acquire_deadline(Instant::now()),
                        Err(WaitError::TimedOut)
                    );
                }
            });
            worker.abort();
            assert!(matches!(worker.join(), Err(JoinError::Cancelled)));
            assert_eq!(waits.waiters(), Ok(0));
        },
    );
}

#[test]
fn tubes_alone() {
    everywhere("a tube", || {
        let segment = Segment::create().unwrap();
        let tube = segment.tube::<[u16; 3]>("t", 2).unwrap();
        let same = again(&segment).tube_bytes("t", 6, 2).unwrap();
        assert_eq!(
            (tube.try_recv(), tube.recv_timeout(SOON)),
            (Err(TryTubeError::NotNow), Err(TubeWaitError::TimedOut))
        );
        for round in 0..5 {
            tube.send([round, 1, 2]).unwrap();
            same.try_send(&[3; 6]).unwrap();
            assert_eq!(tube.try_send([0; 3]), Err(TryTubeError::NotNow));
            assert_eq!(
                tube.send_deadline([0; 3], Instant::now() + SOON),
                Err(TubeWaitError::TimedOut)
            );
            assert_eq!(
                (same.len(), same.capacity(), same.message_size()),
                (2, 2, 6)
            );
            assert_eq!(
                (tube.recv(), tube.try_recv()),
                (Ok([round, 1, 2]), Ok([0x303; 3]))
            );
        }
        tube.send([7; 3]).unwrap();
        tube.close().unwrap();
        assert_eq!(
            (tube.send([8; 3]), tube.try_send([8; 3])),
            (Err(TubeError::Closed), Err(TryTubeError::Closed))
        );
        assert_eq!(
            (tube.recv(), tube.recv(), tube.try_recv()),
            (
                Ok([7; 3]),
                Err(TubeError::Closed),
                Err(TryTubeError::Closed)
            )
        );
        assert_eq!(
            (tube.recv_timeout(HOUR), same.is_closed(), same.fault()),
            (Err(TubeWaitError::Closed), true, None)
        );
    });
}

/// A message of each length up to some words, with the bytes around it.
#[test]
fn messages_of_all_sizes() {
    let segment = Segment::create().unwrap();
    for size in 1..40_u8 {
        let tube = segment
            .tube_bytes(&format!("of {size}"), size.into(), 3)
            .unwrap();
        for number in 0..7 {
            let message = |of| {
                (0..size)
                    .map(|at| at.wrapping_mul(7) ^ of)
                    .collect::<Vec<u8>>()
            };
            tube.send(&message(number)).unwrap();
            tube.send(&message(number + 100)).unwrap();
            for of in [number, number + 100] {
                let mut received = vec![0; size.into()];
                tube.recv(&mut received).unwrap();
                assert_eq!(received, message(of));
            }
        }
    }
}

#[test]
fn any_of_some_semaphores() {
    everywhere("altsems", || {
        let segment = Segment::create().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| segment.semaphore(name, 0).unwrap());
        assert_eq!(try_acquire_any(&[&a, &b]), Err(TryError::Empty));
        assert_eq!(
            acquire_any_timeout(&[&a, &b, &a], SOON),
            Err(WaitError::TimedOut)
        );
        assert_eq!(
            acquire_any_deadline(&[&a], Instant::now()),
            Err(WaitError::TimedOut)
        );
        b.release(1).unwrap();
        assert_eq!(acquire_any(&[&a, &b, &c]), Ok(1));
        let all = [&a, &b, &c];
        all.iter()
            .for_each(|semaphore| semaphore.release(100).unwrap());
        let mut taken = [0; 3];
        (0..150).for_each(|_| taken[acquire_any(&all).unwrap()] += 1);
        // Several times in a row, so not just that many of each.
        assert!(taken.iter().all(|taken| *taken > 10), "{taken:?}");
        assert_eq!(
            all.iter()
                .map(|semaphore| semaphore.available())
                .sum::<u32>(),
            150
        );
    });
}

/// Of those that have wakeups none is preferred, however many without stand before it, and
/// whichever calls take turns.
#[test]
fn any_is_fair() {
    const MANY: u32 = 4_000;
    let segment = Segment::create().unwrap();
    let all: Vec<_> = (0..10)
        .map(|number| segment.semaphore(&format!("s{number}"), 0).unwrap())
        .collect();
    let all: Vec<_> = all.iter().collect();
    all[3].release(2 * MANY).unwrap();
    all[4].release(2 * MANY).unwrap();
    let mut taken = [[0_u32; 10]; 2];
    for _ in 0..MANY {
        taken[0][acquire_any(&all).unwrap()] += 1;
        taken[1][try_acquire_any(&all).unwrap()] += 1;
    }
    for taken in taken {
        assert!(taken[3].abs_diff(taken[4]) < MANY / 8, "{taken:?}");
    }
}

/// Waiters that come one after the other are served one after the other, and no later caller takes
/// a wakeup of theirs.
#[test]
fn strong_order() {
    over("strong order", |runtime, kind| {
        let segment = Segment::create().unwrap();
        let semaphore = segment.semaphore("s", 0).unwrap();
        let other = segment.semaphore("other", 0).unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiters: Vec<_> = (0..6)
            .map(|number| {
                let (own, other, order) = (
                    again(&segment).semaphore("s", 0).unwrap(),
                    other.clone(),
                    order.clone(),
                );
                let beside = segment.semaphore("s", 0).unwrap();
                let waiter = Party::start(number, kind, runtime, move || {
                    if number % 2 == 0 {
                        own.acquire().unwrap()
                    } else {
                        assert_eq!(acquire_any(&[&other, &beside]), Ok(1))
                    }
                    order.lock().unwrap().push(number);
                });
                eventually("it waits", || semaphore.waiters() == Ok(number + 1));
                waiter
            })
            .collect();
        for number in 0..6 {
            semaphore.release(1).unwrap();
            assert_eq!(
                semaphore.try_acquire(),
                Err(TryError::Empty),
                "it is the waiter's, who may not run yet"
            );
            eventually("one is served", || {
                order.lock().unwrap().len() == number + 1
            });
        }
        waiters.into_iter().for_each(Party::join);
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
        assert_eq!((semaphore.waiters(), other.waiters()), (Ok(0), Ok(0)));
    });
}

/// A waiter that wants many is not overtaken by those that want few. When it gives up, they get the
/// wakeups that are there.
#[test]
fn weights() {
    over("weights", |runtime, kind| {
        let segment = Segment::create().unwrap();
        let semaphore = segment.semaphore("s", 1).unwrap();
        let (large, small) = (semaphore.clone(), semaphore.clone());
        let large = kind.spawn_on(runtime, move || {
            large.acquire_many_deadline(3, Instant::now() + Duration::from_millis(200))
        });
        eventually("it waits", || semaphore.waiters() == Ok(1));
        let small = kind.spawn_on(runtime, move || small.acquire());
        eventually("it waits", || {
            semaphore.waiters() == Ok(2) || semaphore.available() == 0
        });
        assert_eq!(
            (large.join().unwrap(), small.join().unwrap()),
            (Err(WaitError::TimedOut), Ok(()))
        );
        let large = semaphore.clone();
        let large = kind.spawn_on(runtime, move || large.acquire_many(3));
        eventually("it waits", || semaphore.waiters() == Ok(1));
        semaphore.release(2).unwrap();
        assert_eq!(
            (semaphore.try_acquire(), semaphore.waiters()),
            (Err(TryError::Empty), Ok(1))
        );
        semaphore.release(2).unwrap();
        assert_eq!((large.join().unwrap(), semaphore.available()), (Ok(()), 1));
    });
}

/// An abort or a deadline that meets a wakeup loses none.
#[test]
fn waits_that_are_cut() {
    over("cut waits", |runtime, kind| {
        let segment = Segment::create().unwrap();
        let [a, b] = ["a", "b"].map(|name| segment.semaphore(name, 0).unwrap());
        let mut given = 0;
        for round in 0..20 {
            let (one, two) = (a.clone(), b.clone());
            let waiter = kind.spawn_on(runtime, move || {
                if round % 2 == 0 {
                    one.acquire().map(|()| 0)
                } else {
                    acquire_any(&[&one, &two])
                }
            });
            eventually("it waits", || a.waiters() == Ok(1));
            if round % 4 < 2 {
                a.release(1).unwrap();
                given += 1;
            }
            waiter.abort();
            match waiter.join() {
                Ok(served) => {
                    assert_eq!(served, Ok(0));
                    given -= 1;
                }
                Err(JoinError::Cancelled) => {}
                Err(error) => error.resume_unwind(),
            }
            assert_eq!((a.waiters(), b.waiters()), (Ok(0), Ok(0)));
            // The gift to a waiter that was cut short has come back.
            assert_eq!(a.available(), given, "round {round}");
            while a.try_acquire().is_ok() {
                given -= 1;
            }
        }
    });
}

/// All that wait go on, and none that comes later; with more of them than are noted by name.
#[test]
fn events_with_waiters() {
    fn waiters(
        runtime: &Runtime,
        kind: crate::support::Kind,
        event: &Event,
        count: usize,
    ) -> Vec<Party<bool>> {
        let start = |number| {
            let event = event.clone();
            Party::start(number, kind, runtime, move || event.wait().is_ok())
        };
        let waiters = (0..count).map(start).collect();
        eventually("all wait", || event.waiters() == Ok(count));
        waiters
    }
    for kind in KINDS {
        with("events", 2, Runtime::builder(), |runtime| {
            let segment = Segment::create().unwrap();
            let (auto, manual) = (
                segment.auto_event("a", false).unwrap(),
                segment.manual_event("m", false).unwrap(),
            );
            for count in [3, 40] {
                let all = waiters(runtime, kind, &manual, count);
                manual.pulse().unwrap();
                assert!(all.into_iter().all(Party::join) && !manual.is_set());
                let all = waiters(runtime, kind, &manual, count);
                manual.set().unwrap();
                assert!(all.into_iter().all(Party::join) && manual.reset().unwrap());
            }
            let some = waiters(runtime, kind, &auto, 4);
            auto.pulse().unwrap();
            assert_eq!((auto.waiters(), auto.is_set()), (Ok(3), false));
            (0..3).for_each(|_| auto.set().unwrap());
            assert_eq!((auto.waiters(), auto.is_set()), (Ok(0), false));
            assert!(some.into_iter().all(Party::join));
        });
    }
}

/// Nothing is lost or doubled, and each sender's messages come in their order.
#[test]
fn messages_by_many() {
    const EACH: u64 = 300;
    over("messages", |runtime, kind| {
        for capacity in [1, 4] {
            let segment = Segment::create().unwrap();
            let sum = counter();
            let senders: Vec<_> = (0..3)
                .map(|sender| {
                    let tube = again(&segment).tube::<u64>("t", capacity).unwrap();
                    Party::start(sender, kind, runtime, move || {
                        (1..=EACH)
                            .for_each(|number| tube.send(sender as u64 * 1000 + number).unwrap())
                    })
                })
                .collect();
            let receivers: Vec<_> = (0..3)
                .map(|receiver| {
                    let (tube, sum) = (segment.tube::<u64>("t", capacity).unwrap(), sum.clone());
                    Party::start(receiver, kind, runtime, move || {
                        let mut last = [0; 3];
                        while let Ok(message) = tube.recv() {
                            let (sender, number) = ((message / 1000) as usize, message % 1000);
                            assert!(number > last[sender], "out of order");
                            last[sender] = number;
                            sum.fetch_add(number as usize, Relaxed);
                        }
                    })
                })
                .collect();
            senders.into_iter().for_each(Party::join);
            segment.tube::<u64>("t", capacity).unwrap().close().unwrap();
            receivers.into_iter().for_each(Party::join);
            assert_eq!(sum.load(Relaxed) as u64, 3 * EACH * (EACH + 1) / 2);
        }
    });
}

/// An inner lock that one party takes again and again, and gives back each time, does not wear out
/// the others' patience. Here large messages are copied under it nearly all the time, and each time
/// its word is the same except for the count of those holds.
#[test]
fn a_lock_that_is_given_back_is_in_order() {
    let mut patience = Duration::from_secs(2);
    while let (Some(told), longest) = hold_again_and_again(patience) {
        // Patience is for the case that a single hold takes that long.
        assert!(
            longest >= patience,
            "{told:?}, though nothing took longer than {longest:?}"
        );
        patience *= 2;
    }
}

/// The error that another party got while one had the lock nearly all the time, if there was one;
/// and how long the longest operation of the latter took.
fn hold_again_and_again(patience: Duration) -> (Option<Fault>, Duration) {
    const SIZE: usize = 64 << 20;
    let first = Segment::options().bytes(72 << 20).create().unwrap();
    let over = AtomicBool::new(false);
    let [sender, looker] = [again(&first), again(&first)].map(|segment| {
        segment.set_patience(patience);
        segment.tube_bytes("t", SIZE, 1).unwrap()
    });
    let begin = Instant::now();
    let goes_on = || begin.elapsed() < 2 * patience;
    std::thread::scope(|scope| {
        let holder = scope.spawn(|| {
            let mut message = vec![1; SIZE];
            let mut longest = Duration::ZERO;
            let mut time = |operation: &mut dyn FnMut()| {
                let begin = Instant::now();
                operation();
                longest = longest.max(begin.elapsed());
            };
            // Not until the other one has had the lock, which is up to chance.
            while goes_on() && !over.load(Relaxed) {
                time(&mut || _ = sender.try_send(&message));
                time(&mut || _ = sender.try_recv(&mut message));
            }
            longest
        });
        let mut told = std::iter::from_fn(|| goes_on().then(|| looker.waiters()));
        let told = told.find_map(Result::err);
        over.store(true, Relaxed);
        (told, holder.join().unwrap())
    })
}
