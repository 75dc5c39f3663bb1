//! The lock of an object that has a queue of waiters: one locked operation to take it, a plain
//! store to release it.
//!
//! The holder is not preempted ([`wait::undisturbed`](crate::rt::wait::queue::undisturbed), or
//! `enter` of a wait), does not wait, and wakes no party. So the lock is held for some tens of
//! instructions, unless the holder's kernel thread loses its processor just then. For that case a
//! waiter lets other threads run now and then.

use super::sync::{AtomicU32, Ordering::*, give_way, spin};
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

const FREE: u32 = 0;
const HELD: u32 = 1;

/// How often a waiter checks before it lets other threads run.
const LOOKS: u32 = 100;

/// Called when a check was in vain, at a lock or the like whose holder is not preempted but may
/// have lost its processor. `looks` counts the checks.
#[inline(always)]
pub(crate) fn look_again(looks: &mut u32) {
    *looks += 1;
    if *looks % LOOKS == 0 {
        give_way()
    } else {
        spin()
    }
}

/// A value under such a lock.
#[derive(Default)]
#[repr(C)]
pub(crate) struct Spin<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives one thread at a time access to the value, and may thereby move it between
// threads.
unsafe impl<T: Send> Sync for Spin<T> {}

/// Holds the lock until it is dropped.
pub(crate) struct SpinGuard<'a, T>(&'a Spin<T>);

impl<T> Spin<T> {
    /// Where its word is.
    #[cfg(all(feature = "intercept", target_arch = "x86_64", not(loom)))]
    pub(crate) const WORD: usize = std::mem::offset_of!(Spin<T>, word);

    pub(crate) const fn new(value: T) -> Spin<T> {
        Spin {
            word: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    #[inline(always)]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        // ORDERING(spin.1): Acquire, pairs with spin.2: the last holder's writes are seen.
        if self
            .word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_err()
        {
            self.lock_slow();
        }
        SpinGuard(self)
    }

    /// Whether it is free. The caller sees the writes of the last holder then.
    #[inline(always)]
    pub(crate) fn is_free(&self) -> bool {
        // ORDERING(spin.1): as above.
        self.word.load(Acquire) == FREE
    }

    #[cold]
    fn lock_slow(&self) {
        let mut looks = 0;
        // ORDERING(spin.1): as above.
        while self.word.load(Relaxed) != FREE
            || self
                .word
                .compare_exchange(FREE, HELD, Acquire, Relaxed)
                .is_err()
        {
            look_again(&mut looks);
        }
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and is borrowed mutably.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        // ORDERING(spin.2): Release, pairs with spin.1.
        self.0.word.store(FREE, Release);
    }
}
