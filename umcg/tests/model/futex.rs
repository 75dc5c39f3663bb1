//! Futexes: the table with two buckets, so that words share them; its waiters for one word and for
//! many.

use crate::check;
use crate::parties::{SOON, clock, deadline_if, ender, join_all, party, until_it_waits};
use crate::rt::task::Task;
use crate::rt::time;
#[path = "../checked/futex.rs"]
mod checked;
use crate::sources::futex::{
    self, Wait, WaitMultipleError, WaitSet, cmp_requeue, requeue, wait_multiple_until, wait_until,
    wake,
};
use shuttle::sync::atomic::{AtomicU32, Ordering::SeqCst};
use shuttle::thread;

fn words<const N: usize>() -> &'static [AtomicU32; N] {
    Box::leak(Box::new([const { AtomicU32::new(0) }; N]))
}

/// As many go on as were woken, and the others wait on.
#[test]
fn as_many_are_woken() {
    fn some(is_worker: bool) {
        let [word] = words();
        let waiters: Vec<_> = (0..2)
            .map(|_| party(is_worker, || wait_until(word, 0, u64::MAX).unwrap()).1)
            .collect();
        let wakers: Vec<_> = (0..2)
            .map(|_| {
                let waker = || {
                    while wake(word, 1) == 0 {
                        thread::yield_now();
                    }
                };
                party(true, waker).1
            })
            .collect();
        join_all(waiters.into_iter().chain(wakers));
        assert_eq!(task_less(|| wake(word, 1)), 0);
    }
    check(|| some(true));
    check(|| some(false));
}

/// Does something as a thread of its own.
fn task_less<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    party(true, f).1.join().unwrap()
}

/// A wake-up that a cut wait does not take is another's.
fn revoked(is_worker: bool, by_deadline: bool) {
    let [word] = words();
    let deadline = deadline_if(by_deadline);
    let (task, waiter) = party(is_worker, move || wait_until(word, 0, deadline).is_ok());
    let (_, waker) = party(true, || wake(word, 1));
    let end = ender(task, by_deadline);
    let (taken, woken) = (waiter.join().unwrap(), waker.join().unwrap());
    end.join().unwrap();
    assert_eq!(usize::from(taken), woken);
    assert!(!by_deadline || taken || time::now() >= SOON);
    assert_eq!(task_less(|| wake(word, 1)), 0, "it has left");
}

#[test]
fn a_revoked_wait_takes_nothing() {
    check(|| revoked(true, true));
    check(|| revoked(true, false));
    check(|| revoked(false, true));
    check(|| revoked(false, false));
}

/// How a test waits for many words.
#[derive(Clone, Copy)]
enum Way {
    Once,
    Kept,
}

/// Takes one from some word that has one, `times` times; the words that it was taken from.
fn take(words: &'static [AtomicU32], way: Way, times: usize) -> Vec<usize> {
    let list: Vec<_> = words.iter().map(|word| Wait::new(word, 0)).collect();
    let mut set = WaitSet::with_capacity(1);
    set.extend(list.iter().copied());
    let mut taken = Vec::new();
    while taken.len() < times {
        let ended = match way {
            Way::Once => wait_multiple_until(&list, u64::MAX),
            Way::Kept => set
                .wait()
                .map_err(|changed| WaitMultipleError::Changed(changed.0)),
        };
        let index = match ended {
            Ok(index) | Err(WaitMultipleError::Changed(index)) => index,
            Err(WaitMultipleError::TimedOut) => unreachable!(),
        };
        if words[index]
            .fetch_update(SeqCst, SeqCst, |count| count.checked_sub(1))
            .is_ok()
        {
            taken.push(index);
        }
    }
    taken
}

fn give(word: &AtomicU32) {
    word.fetch_add(1, SeqCst);
    wake(word, 1);
}

/// Two producers, of a word each, and two consumers of both: each item is taken by one consumer,
/// whichever was woken for it.
fn through(is_worker: bool, ways: [Way; 2]) {
    let words = words::<2>();
    let takers = ways.map(|way| party(is_worker, move || take(words, way, 1)).1);
    let givers = words.each_ref().map(|word| party(true, || give(word)).1);
    let mut taken: Vec<_> = takers
        .into_iter()
        .flat_map(|party| party.join().unwrap())
        .collect();
    taken.sort_unstable();
    join_all(givers);
    assert_eq!(taken, [0, 1]);
}

#[test]
fn many_words_once() {
    check(|| through(true, [Way::Once, Way::Once]));
    check(|| through(false, [Way::Once, Way::Once]));
}

#[test]
fn many_words_kept() {
    check(|| through(true, [Way::Kept, Way::Kept]));
    check(|| through(false, [Way::Kept, Way::Once]));
}

/// A set is woken again and again at places that it does not leave.
#[test]
fn again_and_again() {
    fn again(is_worker: bool) {
        let words = words::<2>();
        let taker = party(is_worker, || take(words, Way::Kept, 4)).1;
        let givers = words
            .each_ref()
            .map(|word| party(true, || (0..2).for_each(|_| give(word))).1);
        let mut taken = taker.join().unwrap();
        taken.sort_unstable();
        join_all(givers);
        assert_eq!(taken, [0, 0, 1, 1]);
        assert!(
            words.iter().all(|word| task_less(|| wake(word, 1)) == 0),
            "it has left"
        );
    }
    check(|| again(true));
    check(|| again(false));
}

/// A wait for many is served once: of two wake-ups one is for another waiter, if the first has not
/// come back.
#[test]
fn many_words_are_woken_once() {
    fn once(way: Way, is_worker: bool) {
        let words = words::<2>();
        let list = || words.iter().map(|word| Wait::new(word, 0));
        let waiter = party(is_worker, move || match way {
            Way::Once => wait_multiple_until(&list().collect::<Vec<_>>(), SOON).ok(),
            Way::Kept => list().collect::<WaitSet<'_>>().wait_until(SOON).ok(),
        });
        let wakers = words.each_ref().map(|word| party(true, || wake(word, 1)).1);
        let clock = clock();
        let woken = wakers.map(|waker| waker.join().unwrap());
        let told = waiter.1.join().unwrap();
        clock.join().unwrap();
        assert!(woken.iter().sum::<usize>() <= 1, "woken twice");
        assert_eq!(told, woken.iter().position(|count| *count == 1));
    }
    check(|| once(Way::Once, true));
    check(|| once(Way::Once, false));
    check(|| once(Way::Kept, true));
    check(|| once(Way::Kept, false));
}

/// A woken waiter is told so, and is told of a change only if it was not woken.
#[test]
fn woken_or_changed() {
    fn ended(way: Way, is_worker: bool) {
        let words = words::<2>();
        let list = || words.iter().map(|word| Wait::new(word, 0));
        let waiter = party(is_worker, move || match way {
            Way::Once => wait_multiple_until(&list().collect::<Vec<_>>(), SOON),
            Way::Kept => list().collect::<WaitSet<'_>>().wait_until(SOON),
        });
        let changer = party(true, || words[1].store(1, SeqCst)).1;
        let waker = party(true, || wake(&words[0], 1)).1;
        let clock = clock();
        let ended = waiter.1.join().unwrap();
        let woken = waker.join().unwrap();
        join_all([changer, clock]);
        assert_eq!(ended == Ok(0), woken == 1);
        assert!(matches!(
            ended,
            Ok(0) | Err(WaitMultipleError::Changed(1) | WaitMultipleError::TimedOut)
        ));
    }
    check(|| ended(Way::Once, true));
    check(|| ended(Way::Kept, true));
    check(|| ended(Way::Kept, false));
}

/// Two words that share a bucket, or do not.
fn two_words(same_bucket: bool) -> (&'static AtomicU32, &'static AtomicU32) {
    let bucket = |word: &AtomicU32| futex::table::Table::<2>::index(futex::table::address(word));
    let all = words::<32>();
    let other = all[1..]
        .iter()
        .find(|word| (bucket(word) == bucket(&all[0])) == same_bucket);
    (&all[0], other.expect("all words are in one bucket"))
}

/// Moved waiters are woken at the other word, and leave it when they are cut.
#[test]
fn moved_from_word_to_word() {
    fn moved(is_worker: bool, same_bucket: bool) {
        let (from, to) = two_words(same_bucket);
        let waiters: Vec<_> = (0..2)
            .map(|_| party(is_worker, || wait_until(from, 0, SOON).is_ok()).1)
            .collect();
        let mover = party(true, || (requeue(from, to, 0, 1), requeue(from, to, 1, 1))).1;
        let waker = party(true, || wake(to, 1)).1;
        let clock = clock();
        let (first, second) = mover.join().unwrap();
        let woken = waker.join().unwrap() + first.woken + second.woken;
        let gone_on: usize = waiters
            .into_iter()
            .map(|waiter| usize::from(waiter.join().unwrap()))
            .sum();
        clock.join().unwrap();
        assert_eq!(gone_on, woken);
        assert!(first.woken == 0 && first.moved + second.moved + second.woken <= 2);
        assert_eq!(
            task_less(|| wake(from, 9) + wake(to, 9)),
            0,
            "they have left"
        );
    }
    check(|| moved(true, true));
    check(|| moved(true, false));
    check(|| moved(false, false));
}

/// Two that move waiters to and fro, in opposite directions.
#[test]
fn moved_to_and_fro() {
    check(|| {
        let (one, other) = two_words(false);
        let waiter = party(true, || wait_until(one, 0, u64::MAX).unwrap()).1;
        let forth = party(true, || assert!(requeue(one, other, 0, 1).moved <= 1)).1;
        let back = party(true, || {
            assert_eq!(cmp_requeue(other, 0, one, 0, 1).unwrap().woken, 0)
        })
        .1;
        join_all([forth, back]);
        let waker = || {
            while wake(one, 1) + wake(other, 1) == 0 {
                thread::yield_now();
            }
        };
        party(true, waker).1.join().unwrap();
        waiter.join().unwrap();
    });
}

/// A waiter for many words is woken in place of being moved.
#[test]
fn many_are_not_moved() {
    check(|| {
        let all = words::<3>();
        let waiter = party(true, || {
            wait_multiple_until(&[Wait::new(&all[0], 0), Wait::new(&all[1], 0)], u64::MAX)
        })
        .1;
        let mover = party(true, || {
            let mut done = requeue(&all[0], &all[2], 0, 1);
            while done.woken == 0 {
                thread::yield_now();
                done = requeue(&all[0], &all[2], 0, 1);
            }
            assert_eq!(done.moved, 0);
        });
        mover.1.join().unwrap();
        assert_eq!(waiter.join().unwrap(), Ok(0));
    });
}

/// The first to come is served first, also among different kinds.
#[test]
fn in_order() {
    check(|| {
        let words = words::<2>();
        let (first, waiter) = party(true, || wait_until(&words[0], 0, SOON).is_ok());
        until_it_waits(first);
        let list = move || [Wait::new(&words[1], 0), Wait::new(&words[0], 0)];
        let (_, second) = party(false, move || wait_multiple_until(&list(), SOON).is_ok());
        let woken = task_less(|| wake(&words[0], 1));
        assert_eq!(woken, 1);
        crate::kernel::advance(SOON);
        assert!(waiter.join().unwrap() && !second.join().unwrap());
    });
}

/// A set that was woken at a word stands behind the others there, and is not passed over when it
/// waits again.
#[test]
fn a_set_takes_turns() {
    check(|| {
        let words = words::<2>();
        let stands = |task: &Task| {
            until_it_waits(task);
        };
        let set = party(true, || {
            let mut set: WaitSet<'_> = words.iter().map(|word| Wait::new(word, 0)).collect();
            [set.wait(), set.wait()]
        });
        stands(set.0);
        let other = party(true, || wait_until(&words[0], 0, u64::MAX).unwrap());
        stands(other.0);
        let served = || task_less(|| assert_eq!(wake(&words[0], 1), 1));
        served();
        stands(set.0);
        served();
        other.1.join().unwrap();
        served();
        assert_eq!(set.1.join().unwrap(), [Ok(0), Ok(0)]);
    });
}
