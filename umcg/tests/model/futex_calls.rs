//! Foreign futex calls in user mode: bits, deadlines, cuts, moves and operations, against each
//! other.

use crate::check;
use crate::parties::{SOON, clock, join_all, party};
use crate::rt::wait::cut;
#[path = "../checked/futex_calls.rs"]
mod checked;
use crate::sources::futex::kernel::single::{self, ALL, Compared, WakeOp, WordEnd};
use crate::sources::futex::kernel::vector;
use crate::sources::futex::table::Operated;
use checked::{As, KINDS, at, wait_for_two, words};
use shuttle::sync::atomic::Ordering::SeqCst;

/// Does something as a worker of its own.
fn apart<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    party(true, f).1.join().unwrap()
}

/// Nobody stands at the words any more.
fn all_have_left() {
    let left = apart(|| {
        words()
            .each_ref()
            .map(|word| single::wake(at(word), 9, ALL))
    });
    assert_eq!(left, [0, 0]);
}

/// Two waiters with different bits, one that wakes each, a cut and a deadline: each wake-up reaches
/// a waiter with its bits, or none.
fn bits(kind: As) {
    let word = &words()[0];
    let waiters = [(1, u64::MAX), (2, SOON)].map(|(bits, deadline)| {
        party(kind.is_worker(), move || {
            kind.begin();
            single::wait(at(word), 0, bits, deadline)
        })
    });
    let wakers = [1, 6].map(|bits| party(true, move || single::wake(at(word), 5, bits)).1);
    let (first, second) = (waiters[0].0, waiters[1].0);
    let cutter = party(true, move || cut::cut(first)).1;
    let clock = clock();
    let ends: Vec<_> = join_all(waiters.map(|waiter| waiter.1));
    let woken: Vec<_> = join_all(wakers);
    join_all([cutter, clock]);
    for (end, woken) in ends.iter().zip(woken) {
        assert_eq!(usize::from(*end == WordEnd::Woken), woken);
    }
    assert!(matches!(ends[0], WordEnd::Woken | WordEnd::Cut), "{ends:?}");
    assert!(
        matches!(ends[1], WordEnd::Woken | WordEnd::TimedOut),
        "{ends:?}"
    );
    assert!(cut::take_cut(first) && !cut::take_cut(second));
    all_have_left();
}

#[test]
fn bits_cuts_and_deadlines() {
    check(|| bits(As::Worker));
    check(|| bits(As::Thread));
    check(|| bits(As::AtHome));
}

/// A waiter that is moved while it is cut, or its deadline passes, leaves the queue that it is in.
fn moved(kind: As, is_cut: bool) {
    let [from, to] = words();
    let deadline = if is_cut { u64::MAX } else { SOON };
    let (task, waiter) = party(kind.is_worker(), move || {
        kind.begin();
        single::wait(at(from), 0, 4, deadline)
    });
    let mover = party(true, || {
        let done = single::requeue((at(from), Some(0)), at(to), (0, 1));
        let Compared::Done(done) = done else {
            panic!("{done:?}")
        };
        assert_eq!(done.woken, 0);
        done.moved
    });
    let waker = party(true, || {
        // Its bits stay with it.
        assert_eq!(single::wake(at(to), 1, 3), 0);
        single::wake(at(to), 1, 4)
    });
    let ender = if is_cut {
        party(true, move || cut::cut(task)).1
    } else {
        clock()
    };
    let end = waiter.join().unwrap();
    let (moved, woken) = (mover.1.join().unwrap(), waker.1.join().unwrap());
    ender.join().unwrap();
    assert!(woken <= moved);
    assert_eq!(end == WordEnd::Woken, woken == 1);
    all_have_left();
}

#[test]
fn moved_and_cut() {
    check(|| moved(As::Worker, true));
    check(|| moved(As::Thread, true));
    check(|| moved(As::AtHome, true));
    check(|| moved(As::Worker, false));
}

/// FUTEX_WAKE_OP: changes the second word, wakes one of the first, and one of the second if it was
/// not 0 before. No waiter of the second waits for its old value.
fn operated(kind: As) {
    let [first, second] = words();
    let waiters = [first, second].map(|word| {
        party(kind.is_worker(), move || {
            kind.begin();
            single::wait(at(word), 0, ALL, SOON)
        })
    });
    // Add 1; then, if it was greater than 0.
    let op = WakeOp::decode(1 << 28 | 4 << 24 | 1 << 12);
    let operators = [(), ()].map(|()| {
        let operate = move || {
            let done = single::wake_op((at(first), 1), (at(second), 0), op);
            done.unwrap().woken()
        };
        party(true, operate).1
    });
    let clock = clock();
    let ends = join_all(waiters.map(|waiter| waiter.1));
    let woken: usize = join_all(operators).into_iter().sum();
    clock.join().unwrap();
    assert_eq!(second.load(SeqCst), 2);
    let gone_on = ends.iter().filter(|end| **end == WordEnd::Woken).count();
    assert_eq!(gone_on, woken);
    let found = [
        &[WordEnd::Woken, WordEnd::TimedOut][..],
        &[WordEnd::Woken, WordEnd::Changed, WordEnd::TimedOut],
    ];
    assert!(
        found
            .iter()
            .zip(&ends)
            .all(|(found, end)| found.contains(end))
    );
    all_have_left();
}

#[test]
fn an_operation_wakes() {
    KINDS.into_iter().for_each(|kind| match kind {
        As::Worker => check(|| operated(As::Worker)),
        As::Thread => check(|| operated(As::Thread)),
        As::AtHome => check(|| operated(As::AtHome)),
    });
}

/// Waiters of the second word are woken only if the comparison holds.
#[test]
fn an_operation_compares() {
    fn scenario(is_worker: bool) {
        let [first, second] = words();
        let waiter = party(is_worker, move || single::wait(at(second), 0, ALL, SOON));
        // Add 1; then, if it was greater than 0.
        let op = WakeOp::decode(1 << 28 | 4 << 24 | 1 << 12);
        let operator = party(true, move || {
            single::wake_op((at(first), 1), (at(second), 1), op)
        });
        let clock = clock();
        assert!(matches!(
            waiter.1.join().unwrap(),
            WordEnd::Changed | WordEnd::TimedOut
        ));
        let nobody = Operated {
            here: 0,
            there: None,
        };
        assert_eq!(operator.1.join().unwrap(), Ok(nobody));
        clock.join().unwrap();
    }
    check(|| scenario(true));
    check(|| scenario(false));
}

/// A waiter that waits for the second word's new value is woken by the operation that brings its
/// end: a change is not missed between the operation and the wake-up.
#[test]
fn no_operation_is_missed() {
    fn scenario(kind: As) {
        let [first, second] = words();
        let waiter = party(kind.is_worker(), move || {
            kind.begin();
            while second.load(SeqCst) == 0 {
                single::wait(at(second), 0, ALL, u64::MAX);
            }
        });
        // Set to 5; then, if it was 0.
        let op = WakeOp::decode(5 << 12);
        apart(move || single::wake_op((at(first), 1), (at(second), 1), op).unwrap());
        waiter.1.join().unwrap();
    }
    check(|| scenario(As::Worker));
    check(|| scenario(As::Thread));
}

/// A waiter for two words that are both woken, while it is cut or its time comes: what was counted
/// is reported.
fn of_two(kind: As, is_cut: bool) {
    let words = words();
    let deadline = if is_cut { u64::MAX } else { SOON };
    let (task, waiter) = party(kind.is_worker(), move || {
        kind.begin();
        wait_for_two(deadline)
    });
    let wakers = words
        .each_ref()
        .map(|word| party(true, || single::wake(at(word), 1, ALL)).1);
    let ender = if is_cut {
        party(true, move || cut::cut(task)).1
    } else {
        clock()
    };
    let end = waiter.join().unwrap();
    let woken = join_all(wakers);
    ender.join().unwrap();
    // The last of those that were woken.
    match woken.iter().rposition(|count| *count == 1) {
        Some(index) => assert_eq!(end, vector::ListEnd::Woken(index)),
        None if is_cut => assert_eq!(end, vector::ListEnd::Cut),
        None => assert_eq!(end, vector::ListEnd::TimedOut),
    }
    all_have_left();
}

#[test]
fn of_two_words() {
    check(|| of_two(As::Worker, true));
    check(|| of_two(As::Worker, false));
    check(|| of_two(As::Thread, true));
    check(|| of_two(As::AtHome, true));
}

/// A waiter for two words is moved at one of them, and woken where it is then.
fn of_two_and_moved(kind: As) {
    let [one, other] = words();
    let waiter = party(kind.is_worker(), move || {
        kind.begin();
        wait_for_two(u64::MAX)
    });
    let waker = party(true, || {
        let mut moved = 0;
        while moved == 0 {
            // To where it stands, too.
            let done = single::requeue((at(one), None), at(other), (0, 1));
            let Compared::Done(done) = done else {
                panic!("{done:?}")
            };
            moved = done.moved;
            shuttle::thread::yield_now();
        }
        assert_eq!(single::wake(at(one), 1, ALL), 0);
        while single::wake(at(other), 1, ALL) == 0 {
            shuttle::thread::yield_now();
        }
    });
    waker.1.join().unwrap();
    assert!(matches!(
        waiter.1.join().unwrap(),
        vector::ListEnd::Woken(_)
    ));
    all_have_left();
}

#[test]
fn of_two_words_that_move() {
    check(|| of_two_and_moved(As::Worker));
    check(|| of_two_and_moved(As::Thread));
}

/// A thread whose own signal handler cuts its wait, at any moment, and a waker.
#[test]
fn cut_in_a_handler() {
    check(|| {
        let word = &words()[0];
        let (task, waiter) = party(false, move || single::wait(at(word), 0, ALL, u64::MAX));
        let waker = party(true, || single::wake(at(word), 1, ALL)).1;
        // The handler of the waiter's kernel thread, which the kernel then lets go on.
        let handler = party(true, move || {
            cut::cut_here(task);
            crate::kernel::wake(&task.asleep, 1);
        });
        let end = waiter.join().unwrap();
        handler.1.join().unwrap();
        let woken = waker.join().unwrap();
        assert_eq!(
            end,
            if woken == 1 {
                WordEnd::Woken
            } else {
                WordEnd::Cut
            }
        );
    });
}
