//! Locks of statics. A static outlives an execution, and what lies in it must not be the checker's.
//! So one test has each such lock.

use shuttle::thread::yield_now;
use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// As the library's.
pub struct Lock<T> {
    is_held: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: as for the library's lock.
unsafe impl<T: Send> Sync for Lock<T> {}

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Lock<T> {
        Lock {
            is_held: AtomicBool::new(false),
            value: UnsafeCell::new(value),
        }
    }

    /// As the library's.
    pub fn lock(&self) -> Guard<'_, T> {
        // Another thread may come first.
        yield_now();
        while self.is_held.swap(true, SeqCst) {
            yield_now();
        }
        Guard(self)
    }
}

/// As the library's.
pub struct Guard<'a, T>(&'a Lock<T>);

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard proves that this thread holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as above.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.is_held.store(false, SeqCst);
    }
}
