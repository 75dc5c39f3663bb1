//! Parking and unparking.

use crate::support::{HOUR, Kind, counter, eventually, flag, over, server_counts, with};
use std::sync::atomic::{AtomicUsize, Ordering::*};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::{Handle, Runtime};

#[test]
fn an_unpark_is_remembered() {
    over("remembered", |runtime, kind| {
        let test = || {
            for _ in 0..100 {
                Handle::current().unpark();
                Handle::current().unpark();
                umcg::park();
                Handle::current().unpark();
                assert!(umcg::park_timeout(HOUR));
            }
        };
        test();
        kind.run(runtime, move || {
            test();
            umcg::blocking(test);
            test();
            let me = Handle::current();
            // From others, before the park.
            kind.spawn(move || me.unpark()).join().unwrap();
            assert!(umcg::park_timeout(HOUR));
            umcg::blocking(|| std::thread::spawn(move || me.unpark()).join().unwrap());
            assert!(umcg::park_timeout(HOUR));
        });
    });
}

#[test]
fn a_deadline_is_not_early() {
    over("park_timeout", |runtime, kind| {
        let test = || {
            for length in [0, 1, 100, 1500] {
                let length = Duration::from_micros(length);
                let start = Instant::now();
                while umcg::park_timeout(length) {}
                assert!(start.elapsed() >= length);
                assert!(!umcg::park_deadline(start));
            }
        };
        kind.run(runtime, move || {
            test();
            umcg::blocking(test);
        });
        test();
    });
}

/// Two parties in turns; each has the means to find the other.
struct Turns {
    turn: AtomicUsize,
    parties: [Mutex<Option<Handle>>; 2],
}

impl Turns {
    fn new() -> Arc<Turns> {
        Arc::new(Turns {
            turn: AtomicUsize::new(0),
            parties: [Mutex::new(None), Mutex::new(None)],
        })
    }

    fn play(&self, me: usize, rounds: usize) {
        *self.parties[me].lock().unwrap() = Some(Handle::current());
        for round in 0..rounds {
            while self.turn.load(Acquire) != 2 * round + me {
                umcg::park();
            }
            self.turn.fetch_add(1, Release);
            let other = *self.parties[1 - me].lock().unwrap();
            if let Some(other) = other {
                other.unpark();
            } else {
                // Not there yet: it looks before it parks.
            }
        }
    }
}

#[test]
fn ping_pong_between_all_sorts() {
    const ROUNDS: usize = 500;
    over("ping-pong", |runtime, kind| {
        for sort in 0..4 {
            let turns = Turns::new();
            let (one, other) = (turns.clone(), turns.clone());
            let first = kind.spawn_on(runtime, move || one.play(0, ROUNDS));
            match sort {
                0 => kind.run(runtime, move || other.play(1, ROUNDS)),
                1 => other.play(1, ROUNDS),
                2 => kind.run(runtime, move || umcg::blocking(|| other.play(1, ROUNDS))),
                _ => std::thread::spawn(move || other.play(1, ROUNDS))
                    .join()
                    .unwrap(),
            }
            first.join().unwrap();
            assert_eq!(turns.turn.load(Relaxed), 2 * ROUNDS);
        }
    });
}

/// Many threads and workers unpark one worker; it counts the numbers that they added.
#[test]
fn storms() {
    over("storm", |runtime, kind| {
        let sum = counter();
        let seen = sum.clone();
        let target = kind.spawn_on(runtime, move || {
            let mut parks = 0;
            while seen.load(Acquire) < 6000 {
                umcg::park();
                parks += 1;
            }
            parks
        });
        let handle = target.handle();
        let add = move |sum: Arc<AtomicUsize>| {
            for _ in 0..1000 {
                sum.fetch_add(1, Release);
                handle.unpark();
            }
        };
        let workers: Vec<_> = (0..3)
            .map(|_| {
                let sum = sum.clone();
                kind.spawn_on(runtime, move || add(sum))
            })
            .collect();
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let sum = sum.clone();
                std::thread::spawn(move || add(sum))
            })
            .collect();
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        workers
            .into_iter()
            .for_each(|worker| worker.join().unwrap());
        target.join().unwrap();
    });
}

/// Handles of workers that have ended are harmless, also to the present owners of their
/// descriptors.
#[test]
fn stale_handles() {
    over("stale", |runtime, kind| {
        let stale: Vec<Handle> = (0..200)
            .map(|_| kind.run(runtime, Handle::current))
            .collect();
        let over = flag();
        let seen = over.clone();
        let storm = std::thread::spawn(move || {
            while !seen.load(Relaxed) {
                stale.iter().for_each(|handle| handle.unpark());
            }
        });
        for _ in 0..10 {
            let workers: Vec<_> = (0..50u64)
                .map(|n| {
                    kind.spawn_on(runtime, move || {
                        let start = Instant::now();
                        umcg::sleep(Duration::from_micros(200));
                        assert!(start.elapsed() >= Duration::from_micros(200));
                        let child = kind.spawn(move || (umcg::yield_now(), n).1);
                        umcg::yield_now();
                        child.join().unwrap()
                    })
                })
                .collect();
            assert_eq!(
                workers
                    .into_iter()
                    .map(|worker| worker.join().unwrap())
                    .sum::<u64>(),
                49 * 25
            );
        }
        over.store(true, Relaxed);
        storm.join().unwrap();
    });
}

/// The handle of a thread that has ended, too.
#[test]
fn stale_handles_of_threads() {
    let stale: Vec<Handle> = (0..20)
        .map(|_| std::thread::spawn(Handle::current).join().unwrap())
        .collect();
    let (sender, receiver) = channel();
    let thread = std::thread::spawn(move || {
        sender.send(Handle::current()).unwrap();
        let start = Instant::now();
        umcg::sleep(Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20));
    });
    let _ = receiver.recv().unwrap();
    while !thread.is_finished() {
        stale.iter().for_each(|handle| handle.unpark());
    }
    thread.join().unwrap();
}

#[test]
fn handles_as_words() {
    over("words", |runtime, kind| {
        kind.run(runtime, || {
            let me = Handle::current();
            // SAFETY: the word is a handle's.
            let again = unsafe { Handle::from_raw(me.into_raw()) };
            assert!(me == again && me.id() == again.id());
            assert!(umcg::blocking(Handle::current) == me);
        });
    });
}

/// On one server the worker that is handed over to runs next.
#[test]
fn hand_over_runs_the_other_next() {
    for servers in server_counts() {
        with("hand_over", servers, Runtime::builder(), |runtime| {
            let log = Arc::new(Mutex::new(Vec::new()));
            let theirs = log.clone();
            let body = move || {
                let begun = counter();
                let waits = |name: &'static str| {
                    let (log, begins) = (theirs.clone(), begun.clone());
                    Kind::Light.spawn(move || {
                        begins.fetch_add(1, Relaxed);
                        umcg::park();
                        log.lock().unwrap().push(name);
                    })
                };
                let workers = [waits("a"), waits("b"), waits("c")];
                // On one server all three park.
                eventually("all three begin", || begun.load(Relaxed) == 3);
                let target = workers[1].handle();
                workers[0].handle().unpark();
                workers[2].handle().unpark();
                let me = Handle::current();
                let wakes = Kind::Light.spawn(move || me.unpark());
                umcg::hand_over(target);
                theirs.lock().unwrap().push("me");
                workers
                    .into_iter()
                    .for_each(|worker| worker.join().unwrap());
                wakes.join().unwrap();
            };
            Kind::Light.run(runtime, body);
            let log = log.lock().unwrap();
            assert_eq!(log.len(), 4);
            assert!(servers > 1 || log[0] == "b", "{log:?}");
        });
    }
}

/// Two that hand over to each other go on until they stop.
#[test]
fn hand_over_back_and_forth() {
    over("hand over and back", |runtime, kind| {
        let turns = counter();
        let body = |me: usize,
                    turns: Arc<AtomicUsize>,
                    other: Arc<Mutex<Option<Handle>>>,
                    mine: Arc<Mutex<Option<Handle>>>| {
            *mine.lock().unwrap() = Some(Handle::current());
            eventually("the other begins", || other.lock().unwrap().is_some());
            let other = other.lock().unwrap().unwrap();
            loop {
                let turn = turns.load(Acquire);
                if turn >= 2000 {
                    break other.unpark();
                }
                if turn % 2 == me {
                    turns.fetch_add(1, Release);
                }
                umcg::hand_over(other);
            }
        };
        let (a, b) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
        let first = (turns.clone(), b.clone(), a.clone());
        let second = (turns.clone(), a, b);
        let first = kind.spawn_on(runtime, move || body(0, first.0, first.1, first.2));
        let second = kind.spawn_on(runtime, move || body(1, second.0, second.1, second.2));
        first.join().unwrap();
        second.join().unwrap();
        assert_eq!(turns.load(Relaxed), 2000);
    });
}

/// `while !flag { wait; park }` is right, with any wait: it leaves the unpark to the park.
#[test]
fn other_waits_take_no_unpark() {
    fn waits(kind: Kind, which: usize) {
        match which {
            0 => umcg::sleep(Duration::from_millis(5)),
            1 => drop(
                kind.spawn(|| umcg::sleep(Duration::from_millis(5)))
                    .join_timeout(Duration::from_millis(3)),
            ),
            2 => umcg::scope(|scope| {
                drop(kind.spawn_in(scope, || umcg::sleep(Duration::from_millis(3))))
            }),
            _ => drop(umcg::timeout(Duration::from_millis(3), || {
                umcg::sleep(HOUR)
            })),
        }
    }
    over("unparks in other waits", |runtime, kind| {
        for which in [0, 1, 2, 4] {
            let (told, seen) = (flag(), flag());
            let (tells, sees) = (told.clone(), seen.clone());
            let worker = kind.spawn_on(runtime, move || {
                while !told.load(Acquire) {
                    sees.store(true, Release);
                    waits(kind, which);
                    umcg::park();
                }
            });
            eventually("it waits", || seen.load(Acquire));
            tells.store(true, Release);
            worker.handle().unpark();
            worker.join().unwrap();
        }
    });
}
