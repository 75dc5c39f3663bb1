//! Words and locks of a machine: as the library's, but that each use costs virtual time.

use crate::machine::{self, Access, Cause};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::ptr::from_ref;
use std::sync::atomic;
pub(crate) use std::sync::atomic::Ordering;
use std::sync::atomic::Ordering::*;

/// A word of a machine. Threads of a machine run one at a time, so orderings do not matter.
macro_rules! words {
    ($($name:ident: $of:ty;)*) => {
        $(
            #[derive(Default)]
            pub(crate) struct $name(atomic::$name);

            impl $name {
                pub(crate) const fn new(value: $of) -> $name {
                    $name(atomic::$name::new(value))
                }

                #[track_caller]
                fn access(&self, access: Access) -> &atomic::$name {
                    machine::access(from_ref(self).addr(), access, Location::caller());
                    &self.0
                }

                #[track_caller]
                pub(crate) fn load(&self, _: Ordering) -> $of {
                    self.access(Access::Load).load(Relaxed)
                }

                #[track_caller]
                pub(crate) fn store(&self, value: $of, _: Ordering) {
                    self.access(Access::Store).store(value, Relaxed);
                }

                #[track_caller]
                pub(crate) fn swap(&self, value: $of, _: Ordering) -> $of {
                    self.access(Access::Locked).swap(value, Relaxed)
                }

                #[track_caller]
                pub(crate) fn compare_exchange(
                    &self,
                    from: $of,
                    to: $of,
                    _: Ordering,
                    _: Ordering,
                ) -> Result<$of, $of> {
                    let word = self.access(Access::Locked);
                    word.compare_exchange(from, to, Relaxed, Relaxed)
                }

                /// The value, at no cost: for those that count from outside.
                pub(crate) fn peek(&self) -> $of {
                    self.0.load(Relaxed)
                }
            }
        )*
    };
}

macro_rules! numbers {
    ($($name:ident: $of:ty;)*) => {
        words! { $($name: $of;)* }
        $(
            impl $name {
                #[track_caller]
                pub(crate) fn fetch_add(&self, value: $of, _: Ordering) -> $of {
                    self.access(Access::Locked).fetch_add(value, Relaxed)
                }

                #[track_caller]
                pub(crate) fn fetch_sub(&self, value: $of, _: Ordering) -> $of {
                    self.access(Access::Locked).fetch_sub(value, Relaxed)
                }

                #[track_caller]
                pub(crate) fn fetch_max(&self, value: $of, _: Ordering) -> $of {
                    self.access(Access::Locked).fetch_max(value, Relaxed)
                }
            }
        )*
    };
}

words! { AtomicBool: bool; }
numbers! {
    AtomicU32: u32;
    AtomicU64: u64;
    AtomicUsize: usize;
}

pub(crate) use crate::machine::{heavy, light};

pub(crate) fn init() {}

#[track_caller]
pub(crate) fn full_fence() {
    machine::fence(Location::caller());
}

/// As the library's.
pub(crate) const TRIES: usize = 100;

#[track_caller]
pub(crate) fn spin() {
    machine::pause(|costs| costs.pause);
}

#[track_caller]
pub(crate) fn pause(times: u32) {
    machine::pause(|costs| u64::from(times) * costs.pause);
}

#[track_caller]
pub(crate) fn pause_for(nanos: u64) {
    machine::pause(|_| nanos);
}

/// Each server has a processor: there is no thread to let run.
#[track_caller]
pub(crate) fn give_way() {
    machine::spend(Cause::Calls, |costs| costs.call);
}

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED: u32 = 2;
const SPINS: u32 = 100;

/// The library's lock, with the same steps.
#[derive(Default)]
pub(crate) struct HoldLock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives one thread at a time access to the value, and may thereby move it between
// threads.
unsafe impl<T: Send> Sync for HoldLock<T> {}

impl<T> HoldLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        HoldLock {
            word: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    #[track_caller]
    pub(crate) fn lock(&self) -> HoldGuard<'_, T> {
        if !self.try_lock() {
            let place = Location::caller();
            machine::on_account_of(Cause::Locks, place, || self.lock_slow());
        }
        HoldGuard(self)
    }

    #[track_caller]
    fn try_lock(&self) -> bool {
        self.word
            .compare_exchange(FREE, HELD, Relaxed, Relaxed)
            .is_ok()
    }

    fn lock_slow(&self) {
        for _ in 0..SPINS {
            if self.word.load(Relaxed) == FREE && self.try_lock() {
                return;
            }
            machine::pause(|costs| costs.pause);
        }
        while self.word.swap(WAITED, Relaxed) != FREE {
            let address = from_ref(&self.word).addr();
            machine::sleep_on(address, None, || self.word.peek() == WAITED);
        }
    }
}

pub(crate) struct HoldGuard<'a, T>(&'a HoldLock<T>);

impl<T> Deref for HoldGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard proves that this thread holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for HoldGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for HoldGuard<'_, T> {
    fn drop(&mut self) {
        if self.0.word.swap(FREE, Relaxed) == WAITED {
            machine::wake_one(from_ref(&self.0.word).addr());
        }
    }
}
