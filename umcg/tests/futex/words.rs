//! One word.

use crate::parties::{Party, waiting, words};
use crate::support::{HOUR, Kind, counter, eventually, over};
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use umcg::futex::{self, Changed, WaitError};
use umcg::{JoinError, Runtime};

/// As a worker of either kind, and as a thread.
fn everywhere(name: &'static str, test: fn()) {
    test();
    over(name, |runtime, kind| kind.run(runtime, test));
}

#[test]
fn another_value() {
    everywhere("another value", || {
        let word = AtomicU32::new(7);
        assert_eq!(futex::wait(&word, 6), Err(Changed));
        assert_eq!(futex::wait_timeout(&word, 8, HOUR), Err(WaitError::Changed));
        assert_eq!(
            futex::wait_deadline(&word, 8, Instant::now()),
            Err(WaitError::Changed),
            "the value is looked at first"
        );
        assert_eq!(futex::wake(&word, 1), 0);
    });
}

#[test]
fn a_deadline_passes() {
    everywhere("a deadline", || {
        let word = AtomicU32::new(7);
        assert_eq!(
            futex::wait_deadline(&word, 7, Instant::now()),
            Err(WaitError::TimedOut)
        );
        let (start, time) = (Instant::now(), Duration::from_millis(2));
        assert_eq!(
            futex::wait_timeout(&word, 7, time),
            Err(WaitError::TimedOut)
        );
        assert!(start.elapsed() >= time);
        assert_eq!(futex::wake(&word, usize::MAX), 0, "it has left");
    });
}

/// This many parties that wait for a word, one after the other; each tells its number when it goes
/// on.
fn queue(
    runtime: &Runtime,
    kind: Kind,
    word: &'static AtomicU32,
    count: usize,
) -> (Vec<Party<()>>, Arc<Mutex<Vec<usize>>>) {
    let order = Arc::new(Mutex::new(Vec::new()));
    let parties = (0..count)
        .map(|number| {
            let order = order.clone();
            let party = Party::start(number, kind, runtime, move || {
                futex::wait(word, 0).unwrap();
                order.lock().unwrap().push(number);
            });
            eventually("it waits", || waiting(word) == number + 1);
            party
        })
        .collect();
    (parties, order)
}

/// Workers and threads stand in one order.
#[test]
fn first_come_first_served() {
    over("first come, first served", |runtime, kind| {
        let word = &words(1)[0];
        let (parties, order) = queue(runtime, kind, word, 9);
        for number in 0..9 {
            assert_eq!(futex::wake(word, 1), 1);
            eventually("it goes on", || order.lock().unwrap().len() == number + 1);
        }
        parties.into_iter().for_each(Party::join);
        assert_eq!(*order.lock().unwrap(), (0..9).collect::<Vec<_>>());
        assert_eq!(futex::wake(word, 1), 0);
    });
}

#[test]
fn some_are_woken_and_some_are_moved() {
    over("requeue", |runtime, kind| {
        let [here, there] = words(2) else {
            unreachable!()
        };
        let (parties, order) = queue(runtime, kind, here, 9);
        assert_eq!(futex::cmp_requeue(here, 1, there, 1, 1), Err(Changed));
        assert_eq!(waiting(here), 9);
        let done = futex::cmp_requeue(here, 0, there, 2, 3).unwrap();
        assert_eq!((done.woken, done.moved), (2, 3));
        assert_eq!((waiting(here), waiting(there)), (4, 3));
        let done = futex::requeue(here, there, 0, 2);
        assert_eq!((done.woken, done.moved), (0, 2));
        eventually("two went on", || order.lock().unwrap().len() == 2);
        for number in 2..7 {
            assert_eq!(futex::wake(there, 1), 1);
            eventually("it goes on", || order.lock().unwrap().len() == number + 1);
        }
        assert_eq!((futex::wake(there, 9), futex::wake(here, 9)), (0, 2));
        parties.into_iter().for_each(Party::join);
        assert_eq!(order.lock().unwrap()[2..7], [2, 3, 4, 5, 6]);
    });
}

/// A wait that is cut short leaves the queue that it is in by then; a wake-up after that is
/// another's.
#[test]
fn waits_that_are_cut() {
    over("cut waits", |runtime, kind| {
        let [here, there] = words(2) else {
            unreachable!()
        };
        let first = kind.spawn_on(runtime, || futex::wait(here, 0));
        eventually("one waits", || waiting(here) == 1);
        let second = kind.spawn_on(runtime, || futex::wait(here, 0));
        let late = kind.spawn_on(runtime, || {
            umcg::timeout(Duration::from_millis(2), || futex::wait(here, 0))
        });
        assert!(late.join().unwrap().is_err());
        eventually("two wait", || waiting(here) == 2);
        assert_eq!(futex::requeue(here, there, 0, 1).moved, 1);
        first.abort();
        assert!(matches!(first.join(), Err(JoinError::Cancelled)));
        assert_eq!((waiting(here), waiting(there)), (1, 0));
        assert_eq!(futex::wake(here, 1), 1);
        assert_eq!(second.join().unwrap(), Ok(()));
    });
}

/// A mutex in a word: 0 free, 1 held, 2 held and waited for.
struct Mutex3(AtomicU32);

impl Mutex3 {
    fn lock(&self) {
        if self.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            self.lock_waited();
        }
    }

    fn lock_waited(&self) {
        while self.0.swap(2, Acquire) != 0 {
            let _ = futex::wait(&self.0, 2);
        }
    }

    fn unlock(&self) {
        if self.0.swap(0, Release) == 2 {
            futex::wake(&self.0, 1);
        }
    }
}

#[test]
fn a_mutex_of_a_word() {
    over("a mutex", |runtime, kind| {
        const TURNS: usize = 300;
        let (mutex, number) = (Arc::new(Mutex3(AtomicU32::new(0))), counter());
        let parties: Vec<_> = (0..12)
            .map(|party| {
                let (mutex, number) = (mutex.clone(), number.clone());
                Party::start(party, kind, runtime, move || {
                    for turn in 0..TURNS {
                        mutex.lock();
                        let before = number.load(Relaxed);
                        if turn % 10 == 0 {
                            umcg::yield_now();
                        }
                        number.store(before + 1, Relaxed);
                        mutex.unlock();
                    }
                })
            })
            .collect();
        parties.into_iter().for_each(Party::join);
        assert_eq!(number.load(Relaxed), 12 * TURNS);
    });
}

/// A condition whose waiters are moved to the mutex: producers and consumers of a number.
#[test]
fn a_condition_of_a_word() {
    struct Shared {
        mutex: Mutex3,
        turns: AtomicU32,
        goods: AtomicU32,
        taken: AtomicU32,
    }
    const EACH: u32 = 100;
    const PARTIES: u32 = 6;

    impl Shared {
        fn wait(&self) {
            let turn = self.turns.load(Relaxed);
            self.mutex.unlock();
            let _ = futex::wait(&self.turns, turn);
            self.mutex.lock_waited();
        }

        fn tell_all(&self) {
            let turn = self.turns.fetch_add(1, Relaxed) + 1;
            if futex::cmp_requeue(&self.turns, turn, &self.mutex.0, 1, usize::MAX).is_err() {
                futex::wake(&self.turns, usize::MAX);
            }
        }
    }

    over("a condition", |runtime, kind| {
        let zero = || AtomicU32::new(0);
        let shared = Arc::new(Shared {
            mutex: Mutex3(zero()),
            turns: zero(),
            goods: zero(),
            taken: zero(),
        });
        let parties: Vec<_> = (0..2 * PARTIES)
            .map(|party| {
                let shared = shared.clone();
                Party::start(party as usize, kind, runtime, move || {
                    for _ in 0..EACH {
                        shared.mutex.lock();
                        if party < PARTIES {
                            while shared.goods.load(Relaxed) == 0 {
                                shared.wait();
                            }
                            shared.goods.fetch_sub(1, Relaxed);
                            shared.taken.fetch_add(1, Relaxed);
                        } else {
                            shared.goods.fetch_add(1, Relaxed);
                            shared.tell_all();
                        }
                        shared.mutex.unlock();
                    }
                })
            })
            .collect();
        parties.into_iter().for_each(Party::join);
        assert_eq!(
            (shared.goods.load(Relaxed), shared.taken.load(Relaxed)),
            (0, EACH * PARTIES)
        );
    });
}
