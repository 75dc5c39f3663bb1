//! Futexes of the library's: its table, with two buckets, so that words share them.

use crate::checker::{check, check_large, shared};
use crate::parties::{Data, NEVER, be, join_all, party, worker};
use crate::rt::sync::AtomicU32;
use crate::rt::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sources::futex::{Wait, wait_multiple_until, wait_until, wake};

shared! {
    /// The same in each execution of a model, which has to go the same way: where they are says in
    /// which bucket.
    static WORDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
}

fn words() -> &'static [AtomicU32; 2] {
    &WORDS
}

/// Stops until the word is not 0. A lost wake-up is a deadlock.
fn wait_for_change(word: &AtomicU32) {
    while word.load(Acquire) == 0 {
        let _ = wait_until(word, 0, NEVER);
    }
}

fn change(word: &AtomicU32) {
    word.fetch_add(1, Release);
    wake(word, usize::MAX);
}

/// A party that waits for a change hears of it, whichever comes first: so many, of two words in
/// turn.
fn changed(is_worker: bool, waiters: usize) {
    let (words, data) = (words(), [Data::new(), Data::new()]);
    let change = move |index: usize| {
        data[index].write();
        change(&words[index]);
    };
    let waiting: Vec<_> = (0..waiters)
        .map(|n| {
            let wait = move || {
                wait_for_change(&words[n % 2]);
                assert_eq!(data[n % 2].read(), 1);
            };
            party(is_worker, wait).1
        })
        .collect();
    let other = (waiters > 1).then(|| worker(move || change(1)));
    be(true);
    change(0);
    join_all(waiting.into_iter().chain(other));
}

#[test]
fn no_change_is_missed() {
    check(2, || changed(true, 1));
    check(2, || changed(false, 1));
    check_large(|| changed(true, 3));
    check_large(|| changed(false, 3));
}

/// The lock of the kernel's manual page: 0 free, 1 held, 2 held and waited for.
fn lock(is_worker: bool) {
    let (word, data) = (&words()[0], Data::new());
    let turn = move || {
        if word.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            while word.swap(2, Acquire) != 0 {
                let _ = wait_until(word, 2, NEVER);
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

/// A party that waits for one of two hears of either.
fn of_two(is_worker: bool) {
    let (words, data) = (words(), Data::new());
    let (_, waiter) = party(is_worker, move || {
        while words.iter().all(|word| word.load(Acquire) == 0) {
            let wait = [Wait::new(&words[0], 0), Wait::new(&words[1], 0)];
            let _ = wait_multiple_until(&wait, NEVER);
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
