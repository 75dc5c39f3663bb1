//! Flows that sleep in the kernel beside the table of words (`intercept/outsider`), and guests that
//! wait in the table: each of them wakes the others.
//!
//! The counts, the posts and the table are the sources' own. Here is what the hook, the stub and
//! the kernel do around them.

use crate::check;
use crate::checker::shared;
use crate::parties::{NEVER, SOON, clock, join_all, party};
use crate::rt::sync::{AtomicBool, AtomicU32, Ordering::SeqCst};
use crate::sources::futex::kernel::beside;
use crate::sources::futex::kernel::single::{self, ALL, Compared, WakeOp, WordEnd};
use crate::{courier, kernel};
use hooked::{EAGAIN, ETIMEDOUT, make};
use shuttle::thread::JoinHandle;

pub(crate) mod hooked;
#[path = "../../src/intercept/outsider/state.rs"]
mod state;

/// For the sources, as `futex::kernel` has them.
fn is_idle(word: usize) -> bool {
    crate::sources::futex::table().is_idle(word)
}

fn wake_all(word: usize) {
    single::wake(word, i32::MAX, ALL);
}

shared! {
    /// One word is posted at a time: a second one waits for the courier.
    static OUTSIDERS: state::Outsiders<8, 1> = state::Outsiders::new();
}
shared! {
    static WORDS: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];
}
shared! {
    static IS_OVER: AtomicBool = AtomicBool::new(false);
}

/// The courier, until [`end`].
fn begin() -> JoinHandle<()> {
    OUTSIDERS.has_courier();
    let carry = || {
        loop {
            let roused = courier::rouses();
            OUTSIDERS.take_posted();
            if IS_OVER.load(SeqCst) {
                return;
            }
            courier::sleep(roused, NEVER);
        }
    };
    party(false, carry).1
}

fn end(courier: JoinHandle<()>) {
    IS_OVER.store(true, SeqCst);
    courier::rouse_courier();
    courier.join().unwrap();
}

fn at(word: &AtomicU32) -> usize {
    std::ptr::from_ref(word).expose_provenance()
}

/// Wakes outsiders, as the layer does for a guest.
fn others(word: usize, count: usize, bits: u32) -> usize {
    OUTSIDERS.wake(word, count, bits)
}

fn guest_wakes(word: &AtomicU32, count: i32, bits: u32) -> usize {
    beside::wake(at(word), count, bits, others)
}

/// An outsider that waits until the word is not 0 any more.
fn outsider_until(word: &'static AtomicU32, is_list: bool) -> JoinHandle<()> {
    let wait = move || {
        while word.load(SeqCst) == 0 {
            if is_list {
                make(libc::SYS_futex_waitv, [at(word), 1, 0, 0, 0, 0]);
            } else {
                make(
                    libc::SYS_futex,
                    [at(word), op(libc::FUTEX_WAIT), 0, 0, 0, 0],
                );
            }
        }
    };
    party(false, wait).1
}

/// A guest that waits until the word is not 0 any more.
fn guest_until(is_worker: bool, word: &'static AtomicU32) -> JoinHandle<()> {
    let wait = || {
        while word.load(SeqCst) == 0 {
            single::wait(at(word), 0, ALL, NEVER);
        }
    };
    party(is_worker, wait).1
}

/// An outsider that waits once, with these bits, until it is [`SOON`]; the kernel's answer.
fn outsider_once(word: &'static AtomicU32, bits: u32) -> JoinHandle<isize> {
    let operation = op(libc::FUTEX_WAIT_BITSET);
    let wait = move || {
        make(
            libc::SYS_futex,
            [at(word), operation, 0, 1, 0, bits as usize],
        )
    };
    party(false, wait).1
}

/// The operation for private words.
fn op(command: i32) -> usize {
    (command | libc::FUTEX_PRIVATE_FLAG) as usize
}

/// A guest changes a word and wakes an outsider; a lost one is a deadlock.
fn a_guest_wakes(is_list: bool, count: i32) {
    let word = &WORDS[0];
    let outsider = outsider_until(word, is_list);
    let waker = move || {
        word.store(1, SeqCst);
        guest_wakes(word, count, ALL);
    };
    party(true, waker).1.join().unwrap();
    outsider.join().unwrap();
}

#[test]
fn woken_by_a_guest() {
    check(|| a_guest_wakes(false, 1));
    check(|| a_guest_wakes(true, 1));
    // As 1 is.
    check(|| a_guest_wakes(false, 0));
    check(|| a_guest_wakes(false, -1));
}

/// A thread that slept before calls were intercepted is not counted.
#[test]
fn woken_uncounted() {
    check(|| {
        let word = &WORDS[0];
        OUTSIDERS.set_uncounted(true);
        let sleeper = party(false, || {
            while word.load(SeqCst) == 0 {
                let _ = kernel::sleep(word, 0, NEVER);
            }
        });
        let waker = party(true, || {
            word.store(1, SeqCst);
            guest_wakes(word, 1, ALL);
        });
        join_all([sleeper.1, waker.1]);
    });
}

/// Outsiders change words and wake guests, two at once.
fn outsiders_wake(is_worker: bool) {
    let courier = begin();
    let guests = WORDS.each_ref().map(|word| guest_until(is_worker, word));
    let wakers = WORDS.each_ref().map(|word| {
        let waker = || {
            word.store(1, SeqCst);
            make(
                libc::SYS_futex,
                [at(word), op(libc::FUTEX_WAKE), 1, 0, 0, 0],
            );
        };
        party(false, waker).1
    });
    join_all(guests);
    join_all(wakers);
    end(courier);
}

#[test]
fn guests_woken_by_outsiders() {
    check(|| outsiders_wake(true));
    check(|| outsiders_wake(false));
}

/// The second word is set to 1 by FUTEX_WAKE_OP, and its waiters are woken as it was 0.
const SET: usize = 1 << 12;
/// The same, if it was not.
const SET_UNLESS: usize = SET | 1 << 24;

/// An outsider's call changes the word that guest and outsider wait for: both see the change.
#[test]
fn operated_by_an_outsider() {
    check(|| {
        let courier = begin();
        let [first, second] = &*WORDS;
        let waiters = [guest_until(true, second), outsider_until(second, false)];
        let operation = op(libc::FUTEX_WAKE_OP);
        let operator = move || {
            make(
                libc::SYS_futex,
                [at(first), operation, 1, 1, at(second), SET],
            )
        };
        party(false, operator).1.join().unwrap();
        join_all(waiters);
        end(courier);
    });
}

/// A guest's call changes the word that an outsider waits for.
#[test]
fn operated_by_a_guest() {
    check(|| {
        let [first, second] = &*WORDS;
        let outsider = outsider_until(second, false);
        let op = WakeOp::decode(SET as u32);
        let operator =
            move || beside::wake_op((at(first), 1), (at(second), 1), op, others).unwrap();
        party(true, operator).1.join().unwrap();
        outsider.join().unwrap();
    });
}

/// Outsiders of the second word are woken only if the comparison holds.
#[test]
fn an_operation_compares() {
    check(|| {
        let [first, second] = &*WORDS;
        let outsider = outsider_once(second, ALL);
        let op = WakeOp::decode(SET_UNLESS as u32);
        let operator =
            move || beside::wake_op((at(first), 1), (at(second), 1), op, others).unwrap();
        let operator = party(true, operator).1;
        let clock = clock();
        assert!([EAGAIN, ETIMEDOUT].contains(&outsider.join().unwrap()));
        assert_eq!(operator.join().unwrap(), 0);
        clock.join().unwrap();
    });
}

/// An outsider is woken only by a waker that has one of its bits.
fn bits(of_waker: u32) {
    let word = &WORDS[0];
    let outsider = outsider_once(word, 5);
    let waker = party(true, move || guest_wakes(word, 2, of_waker)).1;
    let clock = clock();
    let (end, woken) = (outsider.join().unwrap(), waker.join().unwrap());
    clock.join().unwrap();
    assert_eq!(end == 0, woken == 1);
    assert!(woken == 0 || of_waker & 5 != 0);
}

#[test]
fn bits_of_outsiders() {
    check(|| bits(2));
    check(|| bits(4));
}

/// Of a guest and two outsiders as many go on as were woken, and no more than the count says.
fn counted(count: i32) {
    let word = &WORDS[0];
    let guest = party(true, move || single::wait(at(word), 0, ALL, SOON)).1;
    let outsiders = [(); 2].map(|()| outsider_once(word, ALL));
    let woken = party(true, move || guest_wakes(word, count, ALL)).1;
    let clock = clock();
    let woken = woken.join().unwrap();
    let others = join_all(outsiders);
    let others = others.iter().filter(|end| **end == 0).count();
    let guests = usize::from(guest.join().unwrap() == WordEnd::Woken);
    clock.join().unwrap();
    assert_eq!(guests + others, woken);
    assert!(woken <= count.max(1) as usize);
}

#[test]
fn as_many_as_are_woken() {
    check(|| counted(0));
    check(|| counted(1));
    check(|| counted(2));
}

/// An outsider's call that would move an outsider wakes it: a guest that wakes the other word would
/// not know of it there.
#[test]
fn moved_by_an_outsider() {
    check(|| {
        let courier = begin();
        let [from, to] = &*WORDS;
        let outsider = outsider_until(from, false);
        let mover = party(false, move || {
            from.store(1, SeqCst);
            let operation = op(libc::FUTEX_REQUEUE);
            make(libc::SYS_futex, [at(from), operation, 0, 1, at(to), 0])
        });
        mover.1.join().unwrap();
        party(true, move || guest_wakes(to, 1, ALL))
            .1
            .join()
            .unwrap();
        outsider.join().unwrap();
        end(courier);
    });
}

/// The same by a guest's call.
#[test]
fn moved_by_a_guest() {
    check(|| {
        let [from, to] = &*WORDS;
        let outsider = outsider_until(from, false);
        let mover = party(true, move || {
            from.store(1, SeqCst);
            beside::requeue((at(from), Some(1)), at(to), (0, 1), others)
        });
        let Compared::Done(done) = mover.1.join().unwrap() else {
            panic!("it was not moved")
        };
        assert!(done.woken <= 1 && done.moved == 0);
        outsider.join().unwrap();
    });
}
