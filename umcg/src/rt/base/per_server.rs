//! One value for each server. The server touches its own without a locked operation or a fence;
//! other threads touch it at the price of a system call.
//!
//! A biased lock. The owner is the server's kernel thread, as [`Here`] proves. It announces itself
//! by a plain store and checks whether it has been revoked. Other threads come rarely (a thief, a
//! dump, an end of the runtime): they take a mutex, revoke, and wait until the owner is outside.
//!
//! ```text
//! owner                                  another thread
//! busy := true                           lock the mutex
//! light()                                revoked := true
//! revoked?  no: inside                   heavy()
//!           yes: busy := false,          wait until not busy: inside
//!                lock the mutex,         …
//!                busy := true,           revoked := false
//!                unlock: inside          unlock the mutex
//! …
//! busy := false
//! ```
//!
//! Invariants:
//!
//! - `busy` is written by the owner only, `revoked` under the mutex only.
//! - The owner is inside only while `busy`. Another thread is inside only with the mutex, while
//!   `revoked`, after it has seen `busy` false behind `heavy`.
//! - So at most one is inside. The owner stores `busy` and loads `revoked`; the other stores
//!   `revoked` and loads `busy`. By `light` and `heavy` ([`umcg_core::asymmetric`]) they cannot
//!   both miss the other's store: an owner that found `revoked` false is seen as busy. On the slow
//!   path no thread has revoked, as the owner has the mutex; the thread that locks it next sees
//!   `busy`.
//!
//! While inside, do not take long, do not switch, and do not enter another cell of the same
//! `PerServer`. Callers of `own` keep preemption off (the contract of [`Here`]); the mutex does so
//! for other threads. If the function or a [`Load::load`] panics, the cell stays usable. A cell
//! belongs to the first [`Here`] that uses it, and refuses any other: so a scheduler that is given
//! to two runtimes panics and does no harm.
//!
//! Not chosen: a Chase-Lev deque, which needs its fence in each `pop`, holds only words, and leaves
//! a server's other data to some other lock. A lock for each server, which costs the owner two
//! locked operations each time, some 10 ns, for the sake of thieves that come a thousand times less
//! often.

use super::here::Here;
use super::sync::{
    AtomicBool, AtomicUsize, HoldLock, Ordering::*, TRIES, give_way, heavy, light, spin,
};
use std::cell::UnsafeCell;

/// How often [`PerServer::other`] checks before each time that it gives way.
const SPINS: usize = 100;

/// A value that can tell how many items it holds.
pub trait Load {
    /// How many items there are to take; 0 if it is of no use to come.
    fn load(&self) -> usize;
}

/// One `T` for each server of a runtime.
pub struct PerServer<T> {
    cells: Box<[Biased<T>]>,
}

/// One value. It has its cache lines to itself: 128 bytes, as processors fetch lines in pairs.
#[repr(align(128))]
pub(crate) struct Biased<T> {
    /// The owner is inside, or about to check whether it may enter. Written by the owner.
    busy: AtomicBool,
    /// Another thread is inside, or waits until the owner is outside. Written under the mutex.
    revoked: AtomicBool,
    /// The identity of the [`Here`] that owns the cell; 0 for none yet.
    owner: AtomicUsize,
    /// `value.load()` when a thread was last inside. Written by the thread inside.
    load: AtomicUsize,
    mutex: HoldLock<()>,
    value: UnsafeCell<T>,
}

// SAFETY: one thread at a time touches a value, which may thereby move between threads.
unsafe impl<T: Send> Sync for Biased<T> {}

/// The owner is inside. Dropping it takes the owner outside.
struct OwnerInside<'a, T: Load>(&'a Biased<T>);

impl<T: Load> Drop for OwnerInside<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // ORDERING(per-server.1): Release, pairs with per-server.2: the thread that finds the owner
        // outside sees its writes from inside.
        let _outside = ClearsFlag(&self.0.busy);
        // SAFETY: still inside; the function that had the value has returned.
        unsafe { self.0.note_load() };
    }
}

/// Lowers the flag, also where the program's [`Load::load`] unwinds.
struct ClearsFlag<'a>(&'a AtomicBool);

impl Drop for ClearsFlag<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // ORDERING(per-server.1), or ORDERING(per-server.3): which of them is said where the value
        // is made.
        self.0.store(false, Release);
    }
}

/// Another thread has revoked, and is inside once the owner is outside. Dropping it takes that
/// thread outside. The caller holds the mutex.
struct OtherInside<'a, T: Load>(&'a Biased<T>, bool);

impl<T: Load> Drop for OtherInside<'_, T> {
    fn drop(&mut self) {
        // ORDERING(per-server.3): Release, pairs with per-server.4: the owner that finds no
        // revocation sees the writes from inside.
        let _outside = ClearsFlag(&self.0.revoked);
        if self.1 {
            // SAFETY: still inside; the function that had the value has returned.
            unsafe { self.0.note_load() };
        }
    }
}

impl<T: Load> Biased<T> {
    pub(crate) fn new(value: T) -> Self {
        Biased {
            busy: AtomicBool::new(false),
            revoked: AtomicBool::new(false),
            owner: AtomicUsize::new(0),
            load: AtomicUsize::new(value.load()),
            mutex: HoldLock::new(()),
            value: UnsafeCell::new(value),
        }
    }

    /// Calls `f` with the value, for its owner. The owner is not checked.
    ///
    /// # Safety
    /// The caller is the owner, and not inside.
    #[inline(always)]
    pub(crate) unsafe fn own<R>(&self, f: impl FnOnce(&mut T) -> R) -> R {
        let inside = self.enter();
        // SAFETY: the owner is inside, and did not enter twice.
        f(unsafe { &mut *inside.0.value.get() })
    }

    /// Like [`PerServer::try_other`].
    #[inline(never)]
    pub(crate) fn try_other<R>(&self, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.revoked.load(Relaxed) {
            return None;
        }
        let _mutex = self.mutex.lock();
        let entered = self.enter_other(|looks| {
            spin();
            looks < TRIES
        });
        // SAFETY: inside, if it was entered.
        entered.1.then(|| f(unsafe { &mut *self.value.get() }))
    }

    /// Like [`PerServer::hint`].
    #[inline]
    pub(crate) fn hint(&self) -> usize {
        self.load.load(Relaxed)
    }

    /// # Safety
    /// The caller is inside.
    #[inline(always)]
    unsafe fn note_load(&self) {
        // SAFETY: passed on.
        let value = unsafe { &*self.value.get() };
        self.load.store(value.load(), Relaxed);
    }

    #[inline(always)]
    fn enter_own(&self, here: &Here) -> OwnerInside<'_, T> {
        if self.owner.load(Relaxed) != here.identity() || self.busy.load(Relaxed) {
            self.first_use(here);
        }
        self.enter()
    }

    #[inline(always)]
    fn enter(&self) -> OwnerInside<'_, T> {
        self.busy.store(true, Relaxed);
        light();
        // ORDERING(per-server.4): Acquire, pairs with per-server.3.
        if self.revoked.load(Acquire) {
            self.enter_own_slow();
        }
        OwnerInside(self)
    }

    /// The cell has no owner yet.
    #[cold]
    fn first_use(&self, here: &Here) {
        let owner = self
            .owner
            .compare_exchange(0, here.identity(), Relaxed, Relaxed)
            .unwrap_or_else(|owner| owner);
        assert!(
            owner == 0 || owner == here.identity(),
            "what belongs to one server is used as another's: a scheduler in two runtimes?"
        );
        assert!(
            !self.busy.load(Relaxed),
            "a server that uses what it has per server came to it again from within"
        );
    }

    #[cold]
    fn enter_own_slow(&self) {
        // ORDERING(per-server.1)
        self.busy.store(false, Release);
        let _mutex = self.mutex.lock();
        self.busy.store(true, Relaxed);
    }

    /// Revokes. The caller holds the mutex. The guard says whether the owner was outside before
    /// `may_wait` ended the wait.
    fn enter_other(&self, mut may_wait: impl FnMut(usize) -> bool) -> OtherInside<'_, T> {
        self.revoked.store(true, Relaxed);
        let mut entered = OtherInside(self, false);
        heavy();
        let mut looks = 0;
        // ORDERING(per-server.2): Acquire, pairs with per-server.1.
        while self.busy.load(Acquire) {
            looks += 1;
            if !may_wait(looks) {
                return entered;
            }
        }
        entered.1 = true;
        entered
    }
}

impl<T: Load + Send> PerServer<T> {
    /// One value for each of `servers` servers, made from its index.
    pub fn new(servers: usize, mut make: impl FnMut(usize) -> T) -> Self {
        super::sync::init();
        PerServer {
            cells: (0..servers).map(|index| Biased::new(make(index))).collect(),
        }
    }

    /// Calls `f` with the calling server's own value. `f` must be short, and must not switch.
    ///
    /// # Panics
    /// If `f` does this again; if another server, of another runtime, has used the value as its
    /// own.
    #[inline(always)]
    pub fn own<R>(&self, here: &Here, f: impl FnOnce(&mut T) -> R) -> R {
        let inside = self.cells[here.index()].enter_own(here);
        // SAFETY: the owner is inside, and does not enter twice.
        f(unsafe { &mut *inside.0.value.get() })
    }

    /// Calls `f` with the value of a server. Any thread may call this. None if another thread is
    /// inside the value for longer than a moment. `f` must be short, and must not switch.
    ///
    /// Costs a system call: check [`PerServer::hint`] first.
    pub fn try_other<R>(&self, index: usize, f: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.cells[index].try_other(f)
    }

    /// Like [`PerServer::try_other`], but waits. Do not call it while inside the same value: it
    /// would wait for itself.
    #[inline(never)]
    pub fn other<R>(&self, index: usize, f: impl FnOnce(&mut T) -> R) -> R {
        let cell = &self.cells[index];
        let _mutex = cell.mutex.lock();
        let _entered = cell.enter_other(|looks| {
            if looks % SPINS == 0 {
                give_way();
            } else {
                spin();
            }
            true
        });
        // SAFETY: inside: the loop above waited until then.
        f(unsafe { &mut *cell.value.get() })
    }

    /// How many items were in a server's value when a thread was last inside. May be outdated at
    /// once.
    #[inline]
    pub fn hint(&self, index: usize) -> usize {
        self.cells[index].hint()
    }

    /// The number of servers that have a value.
    #[inline]
    pub fn servers(&self) -> usize {
        self.cells.len()
    }
}

impl<T> std::fmt::Debug for PerServer<T> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("PerServer")
            .field("servers", &self.cells.len())
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU64;

    impl Load for Vec<u64> {
        fn load(&self) -> usize {
            self.len()
        }
    }

    fn here(index: usize) -> Here {
        // SAFETY: used on this thread only.
        unsafe { Here::new(index) }
    }

    fn numbers(servers: usize) -> PerServer<Vec<u64>> {
        PerServer::new(servers, |_| Vec::new())
    }

    #[test]
    fn the_owner_and_others_see_one_value() {
        let (cells, here) = (numbers(2), here(1));
        cells.own(&here, |numbers| numbers.push(7));
        assert_eq!((cells.hint(0), cells.hint(1)), (0, 1));
        assert_eq!(cells.other(1, |numbers| numbers.pop()), Some(7));
        assert_eq!(cells.try_other(1, |numbers| numbers.len()), Some(0));
        assert_eq!(cells.hint(1), 0);
        assert_eq!(cells.own(&here, |numbers| numbers.pop()), None);
    }

    #[test]
    fn a_cell_takes_whole_lines() {
        assert_eq!(align_of::<Biased<Vec<u64>>>(), 128);
    }

    #[test]
    fn coming_in_twice_panics() {
        let (cells, here) = (numbers(1), here(0));
        let twice = catch_unwind(AssertUnwindSafe(|| {
            cells.own(&here, |_| cells.own(&here, |numbers| numbers.push(1)))
        }));
        assert!(twice.is_err());
        assert_eq!(cells.own(&here, |numbers| numbers.len()), 0);
    }

    #[test]
    fn a_panic_leaves_the_cell_usable() {
        let (cells, here) = (numbers(1), here(0));
        let fails = |numbers: &mut Vec<u64>| {
            numbers.push(1);
            panic!("planted");
        };
        assert!(catch_unwind(AssertUnwindSafe(|| cells.own(&here, fails))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| cells.other(0, fails))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| cells.try_other(0, fails))).is_err());
        assert_eq!(cells.hint(0), 3);
        assert_eq!(cells.own(&here, |numbers| numbers.len()), 3);
        assert_eq!(cells.other(0, |numbers| numbers.len()), 3);
    }

    /// Returns its load the first time, and panics from then on.
    struct PanickingLoad(Cell<bool>);

    impl Load for PanickingLoad {
        fn load(&self) -> usize {
            assert!(!self.0.replace(true), "planted");
            7
        }
    }

    #[test]
    fn a_load_that_panics_leaves_the_cell_usable() {
        let fresh = || PerServer::new(1, |_| PanickingLoad(Cell::new(false)));
        type Enters = fn(&PerServer<PanickingLoad>, &Here);
        let ways: [Enters; 3] = [
            |cells, here| cells.own(here, |_| ()),
            |cells, _| cells.other(0, |_| ()),
            |cells, _| cells.try_other(0, |_| ()).unwrap(),
        ];
        for first in ways {
            for second in ways {
                let (cells, here) = (fresh(), here(0));
                assert!(catch_unwind(AssertUnwindSafe(|| first(&cells, &here))).is_err());
                assert!(catch_unwind(AssertUnwindSafe(|| second(&cells, &here))).is_err());
                let cell = &cells.cells[0];
                assert!(
                    !cell.busy.load(Relaxed) && !cell.revoked.load(Relaxed),
                    "nobody is inside"
                );
                assert_eq!(cells.hint(0), 7);
            }
        }
    }

    #[test]
    fn a_cell_has_one_owner() {
        let cells = numbers(1);
        cells.own(&here(0), |numbers| numbers.push(1));
        assert!(
            catch_unwind(AssertUnwindSafe(
                || cells.own(&here(0), |numbers| numbers.push(2))
            ))
            .is_err()
        );
        assert_eq!(cells.other(0, |numbers| numbers.len()), 1);
    }

    #[test]
    fn nobody_comes_in_while_the_owner_is_inside() {
        let (cells, here) = (numbers(1), here(0));
        cells.own(&here, |_| {
            std::thread::scope(|scope| {
                assert_eq!(
                    scope.spawn(|| cells.try_other(0, |_| ())).join().unwrap(),
                    None
                );
            });
        });
        assert!(cells.try_other(0, |_| ()).is_some());
    }

    /// The owner and two thieves: each number that was pushed is taken once, and the vector is
    /// intact at all times.
    #[test]
    fn nothing_is_lost_or_doubled() {
        const NUMBERS: u64 = 200_000;
        let cells = numbers(1);
        let (taken, sum) = (AtomicU64::new(0), AtomicU64::new(0));
        let take = |number: u64| {
            taken.fetch_add(1, Relaxed);
            sum.fetch_add(number, Relaxed);
        };
        std::thread::scope(|scope| {
            for thief in 0..2 {
                let (cells, take, taken) = (&cells, &take, &taken);
                scope.spawn(move || {
                    while taken.load(Relaxed) < NUMBERS {
                        if cells.hint(0) == 0 {
                            std::thread::yield_now();
                            continue;
                        }
                        let number = match thief {
                            0 => cells.other(0, |numbers| numbers.pop()),
                            _ => cells.try_other(0, |numbers| numbers.pop()).flatten(),
                        };
                        number.into_iter().for_each(take);
                    }
                });
            }
            let here = here(0);
            for number in 0..NUMBERS {
                cells.own(&here, |numbers| numbers.push(number));
                if number % 3 == 0 {
                    cells
                        .own(&here, |numbers| numbers.pop())
                        .into_iter()
                        .for_each(take);
                }
            }
        });
        assert_eq!(sum.into_inner(), NUMBERS * (NUMBERS - 1) / 2);
    }
}
