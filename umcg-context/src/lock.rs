//! A small lock for short critical sections: one word, a short spin, then a futex.
//!
//! States of the word: 0 free, 1 held, 2 held and a thread may be waiting (U. Drepper, "Futexes Are
//! Tricky", 2011, mutex 3). It blocks the kernel thread, never a context. [`Lock`] touches no
//! thread-local storage, errno included; [`HoldLock`] counts a hold there, which keeps preemption
//! off.

use crate::local::Hold;
use core::cell::UnsafeCell;
use core::hint::spin_loop;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU32, Ordering::*};
use rustix::thread::futex;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WAITED: u32 = 2;
const SPINS: u32 = 100;

/// A value that one kernel thread at a time may touch.
pub struct Lock<T> {
    word: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock gives one thread at a time access to the value, and may thereby move it between
// threads.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self {
            word: AtomicU32::new(FREE),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the lock is free and takes it.
    #[inline]
    pub fn lock(&self) -> Guard<'_, T> {
        // ORDERING(lock.1): Acquire, pairs with lock.2. The last holder's writes are seen.
        if self
            .word
            .compare_exchange(FREE, HELD, Acquire, Relaxed)
            .is_err()
        {
            self.lock_slow();
        }
        Guard { lock: self }
    }

    #[cold]
    fn lock_slow(&self) {
        for _ in 0..SPINS {
            // ORDERING(lock.1)
            if self.word.load(Relaxed) == FREE
                && self
                    .word
                    .compare_exchange(FREE, HELD, Acquire, Relaxed)
                    .is_ok()
            {
                return;
            }
            spin_loop();
        }
        // ORDERING(lock.1)
        while self.word.swap(WAITED, Acquire) != FREE {
            // After a failure (EAGAIN, EINTR) the loop just looks again.
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, WAITED, None);
        }
    }

    /// Makes a guard for a lock whose guard was forgotten. This is how the lock is kept across a
    /// fork.
    ///
    /// # Safety
    /// The caller took the lock and forgot the guard, once for each call of this.
    pub unsafe fn adopt(&self) -> Guard<'_, T> {
        Guard { lock: self }
    }

    #[inline]
    fn unlock(&self) {
        // ORDERING(lock.2): Release, pairs with lock.1.
        if self.word.swap(FREE, Release) == WAITED {
            let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
        }
    }
}

impl<T: Default> Default for HoldLock<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

/// Access to a locked value. Dropping it frees the lock.
pub struct Guard<'a, T> {
    lock: &'a Lock<T>,
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the guard proves that this thread holds the lock.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above, and the guard is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.unlock();
    }
}

/// A [`Lock`] whose holder is not preempted. Use it where preemption could hit the holder and leave
/// the lock taken.
///
/// Do not use it to make the calling flow runnable. The hold ends after the lock is free, and by
/// then another thread may use the storage that counts it.
pub struct HoldLock<T>(Lock<T>);

impl<T> HoldLock<T> {
    /// A free lock around `value`.
    pub const fn new(value: T) -> Self {
        Self(Lock::new(value))
    }

    /// Waits until the lock is free and takes it.
    #[inline]
    pub fn lock(&self) -> HoldGuard<'_, T> {
        let hold = Hold::begin();
        HoldGuard {
            guard: self.0.lock(),
            _hold: hold,
        }
    }

    /// Takes the lock and keeps it, so that a fork finds its value consistent. [`HoldLock::adopt`]
    /// gives it back, in the parent and in the child.
    pub fn take(&self) {
        core::mem::forget(self.lock());
    }

    /// Makes a guard for a lock that the same thread took.
    ///
    /// # Safety
    /// As [`Lock::adopt`], after [`HoldLock::take`].
    pub unsafe fn adopt(&self) -> HoldGuard<'_, T> {
        HoldGuard {
            // SAFETY: passed on.
            guard: unsafe { self.0.adopt() },
            // Forgetting the guard left its hold open; this one closes it.
            _hold: Hold::adopt(),
        }
    }
}

/// Access to a value under a [`HoldLock`]. Dropping it frees the lock and then ends the hold.
pub struct HoldGuard<'a, T> {
    guard: Guard<'a, T>,
    // Dropped after the guard: fields drop in the order of declaration.
    _hold: Hold,
}

impl<T> Deref for HoldGuard<'_, T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.guard
    }
}

impl<T> DerefMut for HoldGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.guard
    }
}
