//! Words that processes share.

use crate::parties::{Party, take};
use crate::support::forks::{Forked, fork};
use crate::support::{HOUR, child_arguments, child_variable, counter, eventually, over, say};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use rustix::thread::futex::Flags;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::*};
use std::time::{Duration, Instant};
use umcg::JoinError;
use umcg::futex::{self, Wait, WaitError, WaitMultipleError, WaitSet, shared};

/// Words in memory that a forked process shares; never unmapped.
fn words(count: usize) -> &'static [AtomicU32] {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: new memory, wherever there is room.
    let memory =
        unsafe { mmap_anonymous(std::ptr::null_mut(), 4 * count, access, MapFlags::SHARED) }
            .unwrap();
    // SAFETY: this many zeros, which are words, in pages that stay; every user has them as atomics.
    unsafe { std::slice::from_raw_parts(memory.cast(), count) }
}

/// The system call itself.
fn raw_wait(word: &AtomicU32, expected: u32) {
    let _ = rustix::thread::futex::wait(word, Flags::empty(), expected, None);
}

fn raw_wake(word: &AtomicU32, count: u32) -> usize {
    rustix::thread::futex::wake(word, Flags::empty(), count).unwrap()
}

fn list(words: &[AtomicU32]) -> Vec<Wait<'_>> {
    words.iter().map(|word| Wait::shared(word, 0)).collect()
}

#[test]
fn another_value_and_deadlines() {
    fn test() {
        let words = words(200);
        words[3].store(5, Relaxed);
        assert_eq!(
            shared::wait_timeout(&words[3], 4, Duration::from_secs(60)),
            Err(WaitError::Changed)
        );
        let start = Instant::now();
        assert_eq!(
            shared::wait_timeout(&words[3], 5, Duration::from_millis(2)),
            Err(WaitError::TimedOut)
        );
        assert_eq!(
            shared::wait_deadline(&words[3], 5, Instant::now()),
            Err(WaitError::TimedOut)
        );
        let late = |list: &[Wait<'_>]| futex::wait_multiple_timeout(list, Duration::from_millis(2));
        assert_eq!(late(&list(words)), Err(WaitMultipleError::Changed(3)));
        assert_eq!(late(&list(&words[..3])), Err(WaitMultipleError::TimedOut));
        assert_eq!(late(&list(&words[4..])), Err(WaitMultipleError::TimedOut));
        assert!(start.elapsed() >= Duration::from_millis(6));
        assert_eq!(
            (shared::wake(&words[3], 1), shared::wake(&words[9], 1)),
            (0, 0),
            "nobody waits"
        );
    }
    test();
    over("shared words", |runtime, kind| kind.run(runtime, test));
}

/// Workers and threads, and another process that knows the system calls only, take turns.
#[test]
fn turns_with_another_process() {
    over("another process", |runtime, kind| {
        for number in [0, 2] {
            let [turn, _] = words(2) else { unreachable!() };
            let other = fork(|| {
                for round in 0..200 {
                    while turn.load(Acquire) != 2 * round + 1 {
                        raw_wait(turn, 2 * round);
                    }
                    turn.store(2 * round + 2, Release);
                    raw_wake(turn, 1);
                }
                0
            });
            let own = Party::start(number, kind, runtime, || {
                for round in 0..200 {
                    turn.store(2 * round + 1, Release);
                    shared::wake(turn, 1);
                    while turn.load(Acquire) != 2 * round + 2 {
                        let _ = shared::wait(turn, 2 * round + 1);
                    }
                }
            });
            own.join();
            other.ends_well();
        }
    });
}

/// Counters that other processes add to, some shared and some of this process alone; by one wait,
/// with any mixture.
#[test]
fn nothing_is_lost_between_processes() {
    const EACH: u32 = 40;
    over("between processes", |runtime, kind| {
        // Few and many; of this process alone from the second number on.
        for (count, private) in [(1, 0), (5, 0), (5, 2), (300, 0), (200, 199)] {
            let (words, taken) = (words(count), counter());
            let wait = |index: usize| {
                if index >= count - private {
                    Wait::new(&words[index], 0)
                } else {
                    Wait::shared(&words[index], 0)
                }
            };
            let others = [0, 1].map(|number| {
                fork(|| {
                    for turn in 0..EACH {
                        let word = &words[(turn as usize * 7 + number) % (count - private)];
                        word.fetch_add(1, Release);
                        raw_wake(word, 1);
                    }
                    0
                })
            });
            let all = 2 * EACH as usize + if private > 0 { EACH as usize } else { 0 };
            let consumers: Vec<_> = [0, 2]
                .map(|number| {
                    let taken = taken.clone();
                    let mut set: WaitSet<'_> = (0..count).map(wait).collect();
                    Party::start(number, kind, runtime, move || {
                        while taken.load(Relaxed) < all {
                            match set.wait_timeout(Duration::from_millis(20)) {
                                Ok(index) | Err(WaitMultipleError::Changed(index))
                                    if take(&words[index]) =>
                                {
                                    taken.fetch_add(1, Relaxed);
                                }
                                _ => {}
                            }
                        }
                    })
                })
                .into();
            if private > 0 {
                for turn in 0..EACH {
                    let word = &words[count - 1 - turn as usize % private];
                    word.fetch_add(1, Release);
                    futex::wake(word, 1);
                }
            }
            consumers.into_iter().for_each(Party::join);
            others.into_iter().for_each(Forked::ends_well);
            assert!(
                taken.load(Relaxed) == all && words.iter().all(|word| word.load(Relaxed) == 0),
                "{count}, {private}"
            );
        }
    });
}

/// Woken without a change of the word: each waiter in the kernel gets the index of that word. Not
/// where a waiter looks now and then.
#[test]
fn the_index_of_one_that_was_woken() {
    over("the index", |runtime, kind| {
        for number in [0, 2] {
            for (count, index) in [(1, 0), (3, 2), (128, 64), (200, 199)] {
                let words = words(count);
                let waiter = Party::start(number, kind, runtime, move || {
                    futex::wait_multiple(&list(words))
                });
                eventually("it is woken", || raw_wake(&words[index], 1) == 1);
                assert_eq!(waiter.join(), Ok(index));
                assert_eq!(
                    words.iter().map(|word| raw_wake(word, 1)).sum::<usize>(),
                    0,
                    "it has left"
                );
            }
        }
    });
}

/// Waiters for a word as one of this process, and waiters for it as a shared one, do not meet.
#[test]
fn two_kinds_of_words() {
    over("two kinds", |runtime, kind| {
        let word = &words(1)[0];
        let private = kind.spawn_on(runtime, || futex::wait(word, 0));
        let common = kind.spawn_on(runtime, || shared::wait(word, 0));
        eventually("one is woken", || shared::wake(word, 9) == 1);
        assert_eq!(common.join().unwrap(), Ok(()));
        eventually("the other one waits", || crate::parties::waiting(word) == 1);
        assert_eq!((shared::wake(word, 9), futex::wake(word, 9)), (0, 1));
        assert_eq!(private.join().unwrap(), Ok(()));
    });
}

#[test]
fn some_are_woken_and_some_are_moved() {
    over("shared requeue", |runtime, kind| {
        let [here, there] = words(2) else {
            unreachable!()
        };
        let parties: Vec<_> = (0..4)
            .map(|number| Party::start(number, kind, runtime, || shared::wait(here, 0)))
            .collect();
        eventually("all wait", || shared::requeue(here, here, 0, 9).moved == 4);
        assert!(shared::cmp_requeue(here, 1, there, 1, 9).is_err());
        let done = shared::cmp_requeue(here, 0, there, 1, 2).unwrap();
        assert_eq!((done.woken, done.moved), (1, 2));
        assert_eq!((raw_wake(there, 9), raw_wake(here, 9)), (2, 1));
        assert!(parties.into_iter().all(|party| party.join() == Ok(())));
    });
}

/// Workers that wait for shared words can be cut short like any others, and leave no waiter in the
/// kernel.
#[test]
fn waits_that_are_cut() {
    over("cut shared waits", |runtime, kind| {
        let words = words(140);
        for count in [1, 3, 140] {
            let begun = counter();
            let seen = begun.clone();
            let aborted = kind.spawn_on(runtime, move || {
                seen.fetch_add(1, Relaxed);
                futex::wait_multiple(&list(&words[..count]))
            });
            let late = kind.spawn_on(runtime, move || {
                umcg::timeout(Duration::from_millis(2), || shared::wait(&words[0], 0))
            });
            assert!(late.join().unwrap().is_err());
            eventually("it has begun", || begun.load(Relaxed) == 1);
            umcg::sleep(Duration::from_millis(2));
            aborted.abort();
            assert!(matches!(aborted.join(), Err(JoinError::Cancelled)));
            assert_eq!(words.iter().map(|word| raw_wake(word, 9)).sum::<usize>(), 0);
        }
    });
}

/// A wake-up for a waiter that is cut short in the same moment goes to the next one.
#[test]
fn a_wake_up_outlives_who_is_cut() {
    over("outlives", |runtime, kind| {
        let words = words(3);
        for turn in 0..40 {
            let list = [Wait::shared(&words[0], 0), Wait::shared(&words[1], 0)];
            let hasty = kind.spawn_on(runtime, move || {
                if turn % 2 == 0 {
                    shared::wait(&words[0], 0).is_ok()
                } else {
                    futex::wait_multiple(&list) == Ok(0)
                }
            });
            let stand = |count| {
                eventually("they wait", || {
                    shared::requeue(&words[0], &words[0], 0, 9).moved == count
                })
            };
            stand(1);
            let patient = std::thread::spawn(|| shared::wait(&words[0], 0));
            stand(2);
            assert_eq!(shared::wake(&words[0], 1), 1);
            hasty.abort();
            match hasty.join() {
                Ok(is_woken) => assert!(is_woken),
                Err(JoinError::Cancelled) => {
                    eventually("the other one is woken", || patient.is_finished())
                }
                Err(error) => error.resume_unwind(),
            }
            eventually("the other one goes on", || {
                patient.is_finished() || shared::wake(&words[0], 1) == 1
            });
            assert_eq!(patient.join().unwrap(), Ok(()));
        }
    });
}

/// Waits for a short time, for the shared word alone, or also for another one of the process:
/// whether the shared one was woken.
type ShortWait = Box<dyn FnMut() -> bool + Send>;

const SHORT_WAITS: [fn(&'static [AtomicU32]) -> ShortWait; 3] = {
    const SHORT: Duration = Duration::from_micros(60);
    [
        |words| Box::new(|| shared::wait_timeout(&words[0], 0, SHORT).is_ok()),
        |words| {
            let both = [Wait::new(&words[1], 0), Wait::shared(&words[0], 0)];
            Box::new(move || futex::wait_multiple_timeout(&both, SHORT) == Ok(1))
        },
        |words| {
            let mut both: WaitSet<'_> = [Wait::new(&words[1], 0), Wait::shared(&words[0], 0)]
                .into_iter()
                .collect();
            Box::new(move || both.wait_timeout(SHORT) == Ok(1))
        },
    ]
};

/// As many waits are woken as `wake` says, though their deadlines pass at any moment.
#[test]
fn what_wake_says_is_so() {
    const ROUNDS: usize = 400;
    over("late and woken", |runtime, kind| {
        for (number, short_wait) in SHORT_WAITS
            .into_iter()
            .flat_map(|short_wait| [(0, short_wait), (2, short_wait)])
        {
            let words = words(2);
            let word = &words[0];
            let (woken, over) = (counter(), counter());
            let (seen, ended) = (woken.clone(), over.clone());
            let waiter = Party::start(number, kind, runtime, move || {
                let mut is_woken = short_wait(words);
                for _ in 0..ROUNDS {
                    seen.fetch_add(usize::from(is_woken()), Relaxed);
                }
                ended.fetch_add(1, Relaxed);
            });
            let mut told = 0;
            while over.load(Relaxed) == 0 {
                told += shared::wake(word, 1);
                std::thread::sleep(Duration::from_micros(20));
            }
            waiter.join();
            assert_eq!(told, woken.load(Relaxed));
        }
    });
}

/// A waiter that was moved to another word is woken there as its wait ends: either it was woken, or
/// the next one of that word is.
#[test]
fn a_wake_up_of_one_that_was_moved_is_not_lost() {
    over("moved and woken", |runtime, kind| {
        for turn in 0..40 {
            let [here, there] = words(2) else {
                unreachable!()
            };
            let deadline = Instant::now()
                + if turn % 2 == 0 {
                    Duration::from_millis(2)
                } else {
                    HOUR
                };
            let hasty = kind.spawn_on(runtime, move || shared::wait_deadline(here, 0, deadline));
            eventually("it is moved, or late", || {
                shared::requeue(here, there, 0, 1).moved == 1 || hasty.is_finished()
            });
            let patient = std::thread::spawn(move || shared::wait_timeout(there, 0, HOUR));
            let stands = || {
                // A process that was stopped and goes on has the kernel wait at the first word
                // again.
                shared::requeue(here, there, 0, 9);
                // In this order: the hasty one may end in between.
                let others = usize::from(!hasty.is_finished());
                shared::requeue(there, there, 0, 9).moved > others
            };
            eventually("the other one waits behind it", stands);
            if turn % 2 == 0 {
                let late = deadline + Duration::from_micros(turn * 2);
                while Instant::now() < late {}
            } else {
                hasty.abort();
                (0..turn * 50).for_each(|_| std::hint::spin_loop());
            }
            assert_eq!(shared::wake(there, 1), 1);
            match hasty.join() {
                Ok(Ok(())) => {
                    eventually("the other one goes on", || {
                        patient.is_finished() || shared::wake(there, 1) == 1
                    });
                }
                Ok(Err(WaitError::TimedOut)) | Err(JoinError::Cancelled) => {
                    eventually("the other one was woken", || patient.is_finished());
                }
                other => panic!("{other:?}"),
            }
            assert_eq!(patient.join().unwrap(), Ok(()));
        }
    });
}

#[test]
fn a_wake_up_of_none_wakes_none() {
    let word = &words(1)[0];
    let waiter = std::thread::spawn(|| shared::wait(word, 0));
    eventually("it waits", || shared::requeue(word, word, 0, 1).moved == 1);
    assert_eq!((shared::wake(word, 0), shared::wake(word, 1)), (0, 1));
    assert_eq!(waiter.join().unwrap(), Ok(()));
}

/// The kernel has no name for a word in memory that is private, may only be read, and was never
/// written: a wait for it fails at once.
#[test]
fn words_that_the_kernel_does_not_know() {
    fn test() {
        // SAFETY: new memory, wherever there is room.
        let memory = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                4096,
                ProtFlags::READ,
                MapFlags::PRIVATE,
            )
        }
        .unwrap();
        // SAFETY: a zero, which is never unmapped; nothing stores to it.
        let word: &AtomicU32 = unsafe { &*memory.cast() };
        let own = AtomicU32::new(0);
        for list in [
            &[Wait::shared(word, 0)][..],
            &[Wait::new(&own, 0), Wait::shared(word, 0)],
        ] {
            let wait = || futex::wait_multiple_timeout(list, Duration::from_secs(60));
            let panicked = std::panic::catch_unwind(wait).unwrap_err();
            let said = panicked.downcast_ref::<&str>().unwrap();
            assert!(said.contains("only read"), "{said}");
        }
        assert_eq!(shared::wake(word, 1), 0);
    }
    test();
    over("words that the kernel does not know", |runtime, kind| {
        kind.run(runtime, test)
    });
}

/// In a process that has no futex_waitv.
#[test]
fn without_futex_waitv() {
    for test in [
        "another_value_and_deadlines",
        "turns_with_another_process",
        "nothing_is_lost_between_processes",
        "waits_that_are_cut",
        "words_that_the_kernel_does_not_know",
    ] {
        let test = format!("shared::{test}");
        let mut command = Command::new("timeout");
        command
            .args(["--kill-after=5", "300"])
            .arg(std::env::current_exe().unwrap())
            .args(child_arguments(&test));
        let output = command
            .env("UMCG_NO_FUTEX_WAITV", "1")
            .envs([child_variable(&test)])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{test} is no test: {said}");
        if !output.status.success() {
            say(&String::from_utf8_lossy(&output.stderr));
            panic!("{test}: {:?}", output.status);
        }
    }
}
