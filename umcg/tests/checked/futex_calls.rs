//! Foreign futex calls in user mode: wake-ups that find nobody, and waits that are cut.

use crate::checker::{check, check_large, check_with_heavy, shared};
use crate::parties::{NEVER, SOON, be, join_all, party};
use crate::rt::sync::AtomicU32;
use crate::rt::sync::Ordering::{Acquire, Relaxed, Release};
use crate::rt::task::be_at_home;
use crate::rt::wait::cut;
use crate::sources::futex::kernel::single::{self, ALL, WordEnd};
use crate::sources::futex::kernel::vector::{self, ListWord};

shared! {
    /// Two that share a bucket or do not, as their addresses say.
    static WORDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
}

pub(crate) fn words() -> &'static [AtomicU32; 2] {
    &WORDS
}

pub(crate) fn at(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).expose_provenance()
}

/// How a party waits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum As {
    Worker,
    Thread,
    /// A worker that is at home when it begins to wait.
    AtHome,
}

impl As {
    pub(crate) fn is_worker(self) -> bool {
        self != As::Thread
    }

    /// The calling party becomes one.
    pub(crate) fn begin(self) {
        if self == As::AtHome {
            be_at_home();
        }
    }
}

pub(crate) const KINDS: [As; 3] = [As::Worker, As::Thread, As::AtHome];

/// A plain store, and a wake-up that may find nobody.
fn change(word: &AtomicU32) {
    word.store(1, Relaxed);
    single::wake(at(word), 1, ALL);
}

/// A wake-up that looks before it takes the lock misses no waiter. A lost one is a deadlock.
fn changed(kind: As) {
    let word = &words()[0];
    let waiter = party(kind.is_worker(), move || {
        kind.begin();
        while word.load(Relaxed) == 0 {
            single::wait(at(word), 0, ALL, NEVER);
        }
    });
    be(true);
    change(word);
    waiter.1.join().unwrap();
}

#[test]
fn no_change_is_missed() {
    check(2, || changed(As::Worker));
    check(2, || changed(As::Thread));
    check_large(|| changed(As::AtHome));
}

/// The same for a waiter for many words.
fn changed_of_two(kind: As) {
    let words = words();
    let waiter = party(kind.is_worker(), move || {
        kind.begin();
        while words[1].load(Relaxed) == 0 {
            wait_for_two(NEVER);
        }
    });
    be(true);
    change(&words[1]);
    waiter.1.join().unwrap();
}

/// Waits for both words at once.
pub(crate) fn wait_for_two(deadline: u64) -> vector::ListEnd {
    let list = words().each_ref().map(|word| ListWord {
        address: at(word),
        expected: 0,
        is_shared: false,
    });
    vector::wait_for::<2>(&list, deadline)
}

#[test]
fn no_change_of_two_is_missed() {
    check(2, || changed_of_two(As::Worker));
    check_large(|| changed_of_two(As::Thread));
}

/// The lock of the kernel's manual page, whose holder leaves it by a plain store if it can.
fn lock(kind: As) {
    let word = &words()[0];
    let turn = move || {
        kind.begin();
        if word.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            while word.swap(2, Acquire) != 0 {
                single::wait(at(word), 2, ALL, NEVER);
            }
        }
        if word.swap(0, Release) == 2 {
            single::wake(at(word), 1, ALL);
        }
    };
    let other = party(kind.is_worker(), turn);
    be(kind.is_worker());
    turn();
    other.1.join().unwrap();
}

#[test]
fn a_lock_of_a_word() {
    check(2, || lock(As::Worker));
    check(2, || lock(As::Thread));
}

/// A wait ends by the cut or by a wake-up, and takes no wake-up if by the cut.
fn cut_or_woken(kind: As, is_woken: bool) {
    let word = &words()[0];
    let (task, waiter) = party(kind.is_worker(), move || {
        kind.begin();
        single::wait(at(word), 0, ALL, NEVER)
    });
    let waker = is_woken.then(|| party(true, move || single::wake(at(word), 1, ALL)).1);
    be(true);
    cut::cut(task);
    let end = waiter.join().unwrap();
    let woken = waker.map_or(0, |waker| waker.join().unwrap());
    assert!(
        end == if woken == 1 {
            WordEnd::Woken
        } else {
            WordEnd::Cut
        }
    );
    assert!(cut::take_cut(task) && !cut::take_cut(task));
}

#[test]
fn a_cut_is_not_missed() {
    check_with_heavy(2, || cut_or_woken(As::Worker, false));
    check_with_heavy(2, || cut_or_woken(As::Thread, false));
    check_with_heavy(2, || cut_or_woken(As::AtHome, false));
}

#[test]
fn a_cut_wait_takes_nothing() {
    check_with_heavy(3, || cut_or_woken(As::Worker, true));
    check_large(|| cut_or_woken(As::Thread, true));
    check_large(|| cut_or_woken(As::AtHome, true));
}

/// A sleep that is cut; or whose time comes.
fn sleep(kind: As, is_cut: bool) {
    let (task, sleeper) = party(kind.is_worker(), move || {
        kind.begin();
        cut::sleep_cuttable(&"", if is_cut { NEVER } else { SOON })
    });
    be(true);
    if is_cut {
        cut::cut(task);
    } else {
        crate::checker::pass(task, SOON);
    }
    assert_eq!(join_all([sleeper]), [!is_cut]);
}

#[test]
fn a_sleep_is_cut() {
    check_with_heavy(2, || sleep(As::Worker, true));
    check_with_heavy(2, || sleep(As::Thread, true));
    check_with_heavy(2, || sleep(As::AtHome, true));
    check_with_heavy(2, || sleep(As::Worker, false));
}
