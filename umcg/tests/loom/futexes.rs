//! Futexes of the library's: its table, with two buckets, so that words share them.

use crate::futex::{Wait, wait_multiple_until, wait_until, wake};
use crate::semaphore::Data;
use crate::shim::atomic::AtomicU32;
use crate::{be, check, party};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The same in each execution of a model, which has to go the same way: their addresses decide the
/// bucket.
static WORDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

fn words() -> &'static [AtomicU32; 2] {
    &WORDS
}

/// Stops until the word is not 0.
fn wait_for_change(word: &AtomicU32) {
    while word.load(Acquire) == 0 {
        let _ = wait_until(word, 0, u64::MAX);
    }
}

/// A waiter for a change hears of it, in every order of arrival.
fn changed(is_worker: bool) {
    let (word, data) = (&words()[0], Data::new());
    let (_, waiter) = party(is_worker, move || {
        wait_for_change(word);
        assert_eq!(data.read(), 1);
    });
    be(true);
    data.write();
    word.store(1, Release);
    wake(word, 1);
    waiter.join().unwrap();
}

#[test]
fn no_change_is_missed() {
    check(2, || changed(true));
    check(2, || changed(false));
}

/// The lock of the kernel's manual page: 0 free, 1 held, 2 held and waited for.
fn lock(is_worker: bool) {
    let (word, data) = (&words()[0], Data::new());
    let turn = move || {
        if word.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            while word.swap(2, Acquire) != 0 {
                let _ = wait_until(word, 2, u64::MAX);
            }
        }
        data.write();
        if word.swap(0, Release) == 2 {
            wake(word, 1);
        }
    };
    let (_, other) = party(is_worker, turn);
    be(is_worker);
    turn();
    other.join().unwrap();
    assert_eq!(data.read(), 2);
}

#[test]
fn a_lock_of_a_word() {
    check(2, || lock(true));
    check(2, || lock(false));
}
/// A waiter for one of two hears of either.
fn of_two(is_worker: bool) {
    let (words, data) = (words(), Data::new());
    let (_, waiter) = party(is_worker, move || {
        while words.iter().all(|word| word.load(Acquire) == 0) {
            let wait = [Wait::new(&words[0], 0), Wait::new(&words[1], 0)];
            let _ = wait_multiple_until(&wait, u64::MAX);
        }
        assert_eq!(data.read(), 1);
    });
    be(true);
    data.write();
    words[1].store(1, Release);
    wake(&words[1], 1);
    waiter.join().unwrap();
}

#[test]
fn no_change_of_many_is_missed() {
    check(2, || of_two(true));
    check(2, || of_two(false));
}
