//! The pool of homes (`intercept/pool.rs`), and a change of ids. A home has one owner at a time. A
//! guest gets one that rests. Once the pool is closed, none is used again, and each home has a
//! guest, which the C library knows, or has ended.
//!
//! The list and the end of the pool are the sources' own. Here are the homes, and the parties that
//! make guests and end them.

use crate::check;
use home::{HOMES, HomeRight};
use pool::{Idle, Pool};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::{spawn, yield_now};

#[allow(
    dead_code,
    reason = "the kernel's list of robust locks is none of the model's"
)]
#[path = "../../src/intercept/pool.rs"]
mod pool;

/// As `intercept/home.rs` has it.
pub mod home {
    use super::rolls;
    use shuttle::thread::yield_now;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum State {
        /// It has a guest.
        Owned,
        /// Its guest has ended.
        Ending,
        Rests,
        Taken,
        Retired,
        Gone,
    }

    pub(super) const HOMES: usize = 3;

    /// The state of each home, and whether its guest ended when the pool was already being closed:
    /// the C library knows such a guest, which is ending, or has just ended.
    ///
    /// Not the checker's: nothing comes between two steps here but where one yields.
    static STATES: Mutex<[(State, bool); HOMES]> = Mutex::new([(State::Owned, false); HOMES]);
    static IS_CLOSING: AtomicBool = AtomicBool::new(false);
    static HAS_CLOSED: AtomicBool = AtomicBool::new(false);

    /// All homes have guests.
    pub(super) fn begin_all() {
        *STATES.lock().unwrap() = [(State::Owned, false); HOMES];
        IS_CLOSING.store(false, SeqCst);
        HAS_CLOSED.store(false, SeqCst);
    }

    /// A home, and the right to it.
    pub(super) struct HomeRight(usize);

    impl HomeRight {
        /// Its guest ends.
        pub(super) fn end(index: usize) -> HomeRight {
            let home = HomeRight(index);
            home.change(&[State::Owned], State::Ending);
            STATES.lock().unwrap()[index].1 = IS_CLOSING.load(SeqCst);
            home
        }

        /// A guest begins there.
        pub(super) fn begin(self) -> usize {
            yield_now();
            assert!(!HAS_CLOSED.load(SeqCst), "used again");
            self.change(&[State::Taken], State::Owned);
            self.0
        }

        /// It may have been marked.
        pub(super) fn rest(&self) -> bool {
            yield_now();
            self.change(&[State::Ending, State::Taken], State::Rests);
            !rolls(4)
        }

        pub(super) fn take(&self) -> bool {
            yield_now();
            let is_sound = !rolls(4);
            if is_sound {
                self.change(&[State::Rests], State::Taken);
            }
            is_sound
        }

        pub(super) fn retire(self) {
            yield_now();
            self.change(&[State::Rests], State::Retired);
        }

        fn change(&self, from: &[State], to: State) {
            let mut states = STATES.lock().unwrap();
            let state = &mut states[self.0].0;
            assert!(from.contains(state), "{state:?} becomes {to:?}");
            *state = to;
        }
    }

    /// As the library's. The kernel takes its time.
    pub fn reclaim_homes() -> usize {
        yield_now();
        let mut states = STATES.lock().unwrap();
        let mut ending = 0;
        for (state, _) in &mut *states {
            if *state == State::Retired {
                if rolls(2) {
                    *state = State::Gone;
                } else {
                    ending += 1;
                }
            }
        }
        ending
    }

    pub(super) fn begins_to_close() {
        IS_CLOSING.store(true, SeqCst);
    }

    /// The pool is closed: each home has a guest, or no thread.
    pub(super) fn has_closed() {
        HAS_CLOSED.store(true, SeqCst);
        for (state, was_known) in *STATES.lock().unwrap() {
            let is_known = was_known || matches!(state, State::Owned | State::Gone);
            assert!(
                is_known,
                "a home that the C library does not know: {state:?}"
            );
        }
    }
}

/// True once in so many times.
fn rolls(times: u32) -> bool {
    thread_rng().gen_range(0..times) == 0
}

/// The name of all guests, and of one.
const NAME: [u64; 2] = [1, 0];
const OTHER: [u64; 2] = [2, 0];

/// Makes a guest, if there is a home for it: `homes::make`.
fn make(pool: &Pool, storage: usize) -> Option<usize> {
    if !pool.has_any() {
        return None;
    }
    let way = pool.way();
    let idle = way.take(NAME, storage)?;
    assert_eq!(idle.name, NAME);
    if rolls(4) {
        // No memory for the guest.
        way.put(idle);
        return None;
    }
    Some(idle.home.begin())
}

/// A guest ends: `homes::finish`.
fn end(pool: &Pool, index: usize, name: [u64; 2], since: u64) {
    let way = pool.way();
    let idle = Idle {
        home: HomeRight::end(index),
        storage: index,
        told: 0,
        name,
        since,
    };
    if rolls(6) {
        // It is spoilt.
        idle.home.rest();
        idle.home.retire();
    } else {
        way.put(idle);
    }
    way.retire_aged(since);
}

fn close(pool: &Pool) {
    home::begins_to_close();
    pool.close();
    home::has_closed();
}

/// Guests end, others are made, and so many parties change ids, or none.
fn used_again(changes: usize) {
    home::begin_all();
    let pool: &'static Pool = Box::leak(Box::new(Pool::new()));
    assert!(pool.has_room());
    end(pool, 0, OTHER, 0);
    end(pool, 1, NAME, 0);
    let ender = spawn(move || end(pool, 2, NAME, 10_000_000_000));
    let make_two = move || {
        for storage in 1..HOMES {
            if let Some(index) = make(pool, storage) {
                yield_now();
                end(pool, index, NAME, 0);
            }
        }
    };
    let makers = [spawn(make_two), spawn(make_two)];
    let closers: Vec<_> = (0..changes).map(|_| spawn(move || close(pool))).collect();
    ender.join().unwrap();
    makers.into_iter().for_each(|maker| maker.join().unwrap());
    closers
        .into_iter()
        .for_each(|closer| closer.join().unwrap());
    close(pool);
    assert!(!pool.has_any() && !pool.has_room());
}

/// One test, since the homes are statics.
#[test]
fn homes_are_used_again_until_ids_change() {
    check(|| used_again(0));
    check(|| used_again(1));
    check(|| used_again(2));
}
