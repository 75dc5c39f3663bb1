//! Many words.

use crate::parties::{Party, take, words};
use crate::support::{HOUR, counter, eventually, over};
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::{Duration, Instant};
use umcg::JoinError;
use umcg::futex::{self, ChangedAt, Wait, WaitMultipleError, WaitSet};

fn list(words: &[AtomicU32]) -> Vec<Wait<'_>> {
    words.iter().map(|word| Wait::new(word, 0)).collect()
}

/// Some numbers of words, few and many.
const COUNTS: [usize; 6] = [1, 2, 8, 9, 128, 300];

#[test]
fn another_value() {
    for count in COUNTS {
        let words = words(count);
        words[count / 2].store(1, Relaxed);
        let mut list = list(words);
        assert_eq!(futex::wait_multiple(&list), Err(ChangedAt(count / 2)));
        let mut set: WaitSet<'_> = list.iter().copied().collect();
        assert_eq!(
            (set.wait(), set.len(), set.is_empty()),
            (Err(ChangedAt(count / 2)), count, false)
        );
        list[count / 2] = Wait::new(&words[count / 2], 1);
        set.expect(count / 2, 1);
        let now = Instant::now();
        assert_eq!(
            futex::wait_multiple_deadline(&list, now),
            Err(WaitMultipleError::TimedOut)
        );
        assert_eq!(set.wait_deadline(now), Err(WaitMultipleError::TimedOut));
        let time = Duration::from_micros(500);
        assert_eq!(
            futex::wait_multiple_timeout(&list, time),
            Err(WaitMultipleError::TimedOut)
        );
        assert_eq!(set.wait_timeout(time), Err(WaitMultipleError::TimedOut));
        assert!(now.elapsed() >= 2 * time);
        assert_eq!(
            words.iter().map(|word| futex::wake(word, 1)).sum::<usize>(),
            0,
            "nobody waits"
        );
    }
}

#[test]
fn an_empty_list_is_refused() {
    crate::support::silence_what_is_expected();
    let message = |result: std::thread::Result<Result<usize, ChangedAt>>| {
        result.unwrap_err().downcast::<&str>().unwrap()
    };
    assert!(
        message(std::panic::catch_unwind(|| futex::wait_multiple(&[]))).contains("an empty list")
    );
    assert!(
        message(std::panic::catch_unwind(|| WaitSet::new().wait())).contains("nothing to wait for")
    );
}

/// A woken waiter learns where it was woken; the others stand in no queue any more, or are passed
/// over.
#[test]
fn the_index_of_one_that_was_woken() {
    over("the index", |runtime, kind| {
        for count in COUNTS {
            let words = words(count);
            for is_kept in [false, true] {
                let woken = counter();
                let seen = woken.clone();
                let parties: Vec<_> = (0..3)
                    .map(|number| {
                        let seen = seen.clone();
                        Party::start(number, kind, runtime, move || {
                            let mut set: WaitSet<'_> = list(words).into_iter().collect();
                            let index = if is_kept {
                                set.wait()
                            } else {
                                futex::wait_multiple(&list(words))
                            };
                            seen.fetch_add(1, Relaxed);
                            index.unwrap()
                        })
                    })
                    .collect();
                let mut expected = Vec::new();
                for (turn, index) in [0, count - 1, count / 2].into_iter().enumerate() {
                    eventually("somebody is woken", || futex::wake(&words[index], 1) == 1);
                    eventually("it goes on", || woken.load(Relaxed) == turn + 1);
                    expected.push(index);
                }
                let mut told: Vec<_> = parties.into_iter().map(Party::join).collect();
                told.sort_unstable();
                expected.sort_unstable();
                assert_eq!(told, expected);
                assert_eq!(
                    words.iter().map(|word| futex::wake(word, 1)).sum::<usize>(),
                    0
                );
            }
        }
    });
}

#[test]
fn the_same_word_twice() {
    over("twice", |runtime, kind| {
        let word = &words(1)[0];
        let waiter = kind.spawn_on(runtime, || {
            futex::wait_multiple(&[Wait::new(word, 0), Wait::new(word, 0)]).unwrap()
        });
        eventually("it is woken", || futex::wake(word, 9) == 1);
        assert_eq!(waiter.join().unwrap(), 0);
    });
}

/// Producers and consumers of many words: everything that is made is taken, once.
#[test]
fn nothing_is_lost_in_a_crowd() {
    const EACH: usize = 200;
    over("a crowd", |runtime, kind| {
        for (count, is_kept) in [(1, true), (3, false), (3, true), (60, true)] {
            let (words, taken) = (words(count + 1), counter());
            let (goods, over) = words.split_at(count);
            let consumers: Vec<_> = (0..6)
                .map(|number| {
                    let taken = taken.clone();
                    Party::start(number, kind, runtime, move || {
                        let mut set: WaitSet<'_> = list(words).into_iter().collect();
                        loop {
                            let ended = if is_kept {
                                set.wait()
                            } else {
                                futex::wait_multiple(&list(words))
                            };
                            let index = ended.unwrap_or_else(|changed| changed.0);
                            if index == count {
                                break;
                            }
                            if take(&words[index]) {
                                taken.fetch_add(1, Relaxed);
                            }
                        }
                    })
                })
                .collect();
            let producers: Vec<_> = (0..6)
                .map(|number| {
                    Party::start(number, kind, runtime, move || {
                        for turn in 0..EACH {
                            let word = &goods[(turn * 7 + number) % count];
                            word.fetch_add(1, Release);
                            futex::wake(word, 1);
                        }
                    })
                })
                .collect();
            producers.into_iter().for_each(Party::join);
            eventually("all is taken", || taken.load(Relaxed) == 6 * EACH);
            over[0].store(1, Release);
            futex::wake(&over[0], usize::MAX);
            consumers.into_iter().for_each(Party::join);
            assert!(goods.iter().all(|word| word.load(Relaxed) == 0));
        }
    });
}

/// A set may grow, be emptied, and wait in another place: it is woken at all its words, and at no
/// others.
#[test]
fn a_set_that_changes() {
    over("a set", |runtime, kind| {
        let words = words(200);
        let mut set = WaitSet::with_capacity(2);
        for round in 0..3 {
            for (index, word) in words.iter().enumerate() {
                assert_eq!(set.push(Wait::new(word, 0)), index);
                if index % 40 != 0 {
                    continue;
                }
                let waiter = Party::start(index / 40, kind, runtime, move || {
                    let woken = set.wait_timeout(HOUR);
                    (set, woken)
                });
                eventually("it is woken", || futex::wake(&words[index / 2], 1) == 1);
                let (back, woken) = waiter.join();
                assert_eq!(woken, Ok(index / 2), "round {round}");
                set = back;
            }
            set.clear();
        }
        assert!(set.is_empty());
    });
}

/// A wait that is cut short is in no queue any more, or is passed over; its set can be used again.
#[test]
fn waits_that_are_cut() {
    over("cut waits", |runtime, kind| {
        let words = words(20);
        let begun = counter();
        let seen = begun.clone();
        let aborted = kind.spawn_on(runtime, move || {
            seen.fetch_add(1, Relaxed);
            futex::wait_multiple(&list(words))
        });
        let seen = begun.clone();
        let late = kind.spawn_on(runtime, move || {
            let mut set: WaitSet<'_> = list(words).into_iter().collect();
            for _ in 0..3 {
                assert!(umcg::timeout(Duration::from_millis(1), || set.wait()).is_err());
            }
            seen.fetch_add(1, Relaxed);
            set.wait()
        });
        eventually("both have waited", || begun.load(Relaxed) == 2);
        umcg::sleep(Duration::from_millis(1));
        aborted.abort();
        assert!(matches!(aborted.join(), Err(JoinError::Cancelled)));
        eventually("the other is woken", || futex::wake(&words[9], 1) == 1);
        assert_eq!(late.join().unwrap(), Ok(9));
        assert_eq!(
            words.iter().map(|word| futex::wake(word, 1)).sum::<usize>(),
            0
        );
    });
}

/// A set that was forgotten is passed over for ever.
#[test]
fn a_forgotten_set() {
    let words = words(10);
    for _ in 0..3 {
        let mut set: WaitSet<'_> = list(words).into_iter().collect();
        assert_eq!(
            set.wait_timeout(Duration::from_micros(100)),
            Err(WaitMultipleError::TimedOut)
        );
        std::mem::forget(set);
    }
    assert_eq!(
        words.iter().map(|word| futex::wake(word, 1)).sum::<usize>(),
        0
    );
    let waiter = std::thread::spawn(|| futex::wait(&words[4], 0));
    eventually("it is woken", || futex::wake(&words[4], 1) == 1);
    assert_eq!(waiter.join().unwrap(), Ok(()));
}

/// A waiter for many words is woken in place of being moved to another word, which is none of them.
#[test]
fn who_waits_for_many_is_not_moved() {
    over("many are not moved", |runtime, kind| {
        for number in [0, 2] {
            let [here, there, other] = words(3) else {
                unreachable!()
            };
            let many = Party::start(number, kind, runtime, || {
                futex::wait_multiple(&[Wait::new(other, 0), Wait::new(here, 0)])
            });
            eventually("it is woken", || {
                let done = futex::requeue(here, there, 0, 9);
                assert_eq!(done.moved, 0);
                done.woken == 1
            });
            assert_eq!(many.join(), Ok(1));
            assert_eq!(
                (futex::wake(there, 9), futex::wake(other, 9)),
                (0, 0),
                "it has left"
            );
        }
    });
}
