//! Workers and threads at the same words, by foreign calls and by the library's own functions: no
//! wake-up is lost, or the test does not end.

use crate::side::{
    ALL, CMP_REQUEUE, Call, Item, MOST, PRIVATE, Side, WAIT_BITSET, WAKE_BITSET, WAKE_OP, at, wait,
    waitv,
};
use crate::support::{Kind, over};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::*};
use umcg::{JoinHandle, Runtime, futex};

const PARTIES: usize = 9;

enum Party {
    Worker(JoinHandle<()>),
    Thread(std::thread::JoinHandle<()>),
}

/// So many parties, each third a thread.
fn crowd(runtime: &Runtime, kind: Kind, f: impl Fn(usize) + Clone + Send + 'static) {
    let parties: Vec<_> = (0..PARTIES)
        .map(|number| {
            let f = f.clone();
            if number % 3 == 2 {
                Party::Thread(std::thread::spawn(move || f(number)))
            } else {
                Party::Worker(kind.spawn_on(runtime, move || f(number)))
            }
        })
        .collect();
    for party in parties {
        match party {
            Party::Worker(worker) => worker.join().unwrap(),
            Party::Thread(thread) => thread.join().unwrap(),
        }
    }
}

/// 0 free, 1 held, 2 held and waited for. Some lock it by the library's own functions.
#[derive(Default)]
struct Lock(AtomicU32);

impl Lock {
    fn lock(&self, by_library: bool) {
        if self.0.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
            return;
        }
        while self.0.swap(2, Acquire) != 0 {
            if by_library {
                let _ = futex::wait(&self.0, 2);
            } else {
                wait(&self.0, 2);
            }
        }
    }

    fn unlock(&self, by_library: bool) {
        if self.0.swap(0, Release) != 2 {
        } else if by_library {
            futex::wake(&self.0, 1);
        } else {
            Side::Ours.wake(&self.0, 1);
        }
    }
}

#[test]
fn a_lock() {
    over("a lock", |runtime, kind| {
        const TURNS: usize = 400;
        let shared = Arc::new((Lock::default(), AtomicUsize::new(0)));
        let number = shared.clone();
        crowd(runtime, kind, move |party| {
            for turn in 0..TURNS {
                let by_library = (party + turn) % 2 == 0;
                shared.0.lock(by_library);
                let before = shared.1.load(Relaxed);
                if turn % 8 == 0 {
                    umcg::yield_now();
                }
                shared.1.store(before + 1, Relaxed);
                shared.0.unlock(by_library);
            }
        });
        assert_eq!(number.1.load(Relaxed), PARTIES * TURNS);
    });
}

/// A turn that goes round: the word is changed by a plain store, and its waiters are woken by their
/// bits.
#[test]
fn round_and_round() {
    over("rounds", |runtime, kind| {
        const ROUNDS: u32 = 100;
        let word = Arc::new(AtomicU32::new(0));
        crowd(runtime, kind, move |party| {
            for round in 0..ROUNDS {
                let mine = round * PARTIES as u32 + party as u32;
                loop {
                    let now = word.load(Acquire);
                    if now == mine {
                        break;
                    }
                    let bit = 1 << party;
                    let operation = WAIT_BITSET | PRIVATE;
                    Side::Ours.futex([at(&*word), operation, now as usize, 0, 0, bit]);
                }
                word.store(mine + 1, Release);
                let next = 1 << ((party + 1) % PARTIES);
                // The next one may wait for an older value: then it waits by its own bit.
                Side::Ours.futex([at(&*word), WAKE_BITSET | PRIVATE, MOST, 0, 0, next]);
            }
        });
    });
}

/// Semaphores: units are given by FUTEX_WAKE_OP, and taken by waits for one word or for all.
#[test]
fn semaphores() {
    over("semaphores", |runtime, kind| {
        const TURNS: usize = 200;
        let words: Arc<[AtomicU32; 2]> = Arc::default();
        crowd(runtime, kind, move |party| {
            for turn in 0..TURNS {
                if party == 0 {
                    // Eight units for the eight others: added to the one word, and waiters of both
                    // are woken.
                    let word = &words[turn % 2];
                    let code = 1 << 28 | 5 << 24 | 8 << 12;
                    let arguments = [at(&words[0]), WAKE_OP | PRIVATE, MOST, MOST, at(word), code];
                    assert!(Side::Ours.futex(arguments) >= 0);
                } else {
                    take(&words, party % 2 == 0);
                }
            }
        });
    });
}

fn take(words: &[AtomicU32; 2], by_list: bool) {
    loop {
        for word in words {
            let taken = word.fetch_update(Acquire, Relaxed, |count| count.checked_sub(1));
            if taken.is_ok() {
                return;
            }
        }
        let list = words.each_ref().map(|word| Item::new(at(word), 0));
        if by_list {
            Side::Ours.call(Call::Waitv, waitv(&list, 0, 0));
        } else {
            // A unit of the second word wakes those of the first, too.
            futex::wait_multiple(&words.each_ref().map(|word| futex::Wait::new(word, 0))).ok();
        }
    }
}

/// A condition whose waiters are moved to the lock, as older C libraries do.
#[test]
fn a_condition() {
    over("a condition", |runtime, kind| {
        const ROUNDS: u32 = 60;
        #[derive(Default)]
        struct Shared {
            lock: Lock,
            turns: AtomicU32,
            arrived: AtomicUsize,
        }
        let shared: Arc<Shared> = Arc::default();
        crowd(runtime, kind, move |_| {
            for round in 0..ROUNDS {
                shared.lock.lock(false);
                if shared.arrived.fetch_add(1, Relaxed) + 1 == PARTIES {
                    // The last one of the round: a new turn, one goes on, and the others after it.
                    shared.arrived.store(0, Relaxed);
                    let turn = round + 1;
                    shared.turns.store(turn, Relaxed);
                    let lock = at(&shared.lock.0);
                    let (word, operation) = (at(&shared.turns), CMP_REQUEUE | PRIVATE);
                    let moved = [word, operation, 1, MOST, lock, turn as usize];
                    assert!(Side::Ours.futex(moved) >= 0);
                    shared.lock.unlock(false);
                    continue;
                }
                shared.lock.unlock(false);
                while shared.turns.load(Acquire) == round {
                    let (word, operation) = (at(&shared.turns), WAIT_BITSET | PRIVATE);
                    Side::Ours.futex([word, operation, round as usize, 0, 0, ALL]);
                }
                // As one that may have been moved: it locks as one that is waited for.
                while shared.lock.0.swap(2, Acquire) != 0 {
                    wait(&shared.lock.0, 2);
                }
                shared.lock.unlock(false);
            }
        });
    });
}

/// Threads that wait for private and shared words at once: wake-ups of either kind reach them.
#[test]
fn both_kinds() {
    let words: Arc<[AtomicU32; 2]> = Arc::default();
    let other = words.clone();
    let waiter = std::thread::spawn(move || {
        for _ in 0..1000 {
            loop {
                let taken = other.iter().any(|word| {
                    word.fetch_update(Acquire, Relaxed, |count| count.checked_sub(1))
                        .is_ok()
                });
                if taken {
                    break;
                }
                let list = [
                    Item::new(at(&other[0]), 0),
                    Item::new(at(&other[1]), 0).shared(),
                ];
                let result = Side::Ours.call(Call::Waitv, waitv(&list, 0, 0));
                assert!(matches!(result, 0 | 1) || result == -(libc::EAGAIN as isize));
            }
        }
    });
    for turn in 0..1000 {
        words[turn % 2].fetch_add(1, Release);
        // Without FUTEX_PRIVATE_FLAG the call is the kernel's.
        let flag = if turn % 2 == 0 { PRIVATE } else { 0 };
        Side::Ours.futex([at(&words[turn % 2]), 1 | flag, 1, 0, 0, 0]);
        if turn % 3 == 0 {
            std::thread::yield_now();
        }
    }
    waiter.join().unwrap();
}
