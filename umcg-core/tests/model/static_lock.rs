//! Locks of statics. A static outlives an execution, and what lies in it must not be the checker's.
//! So one test has each such lock.

use shuttle::thread::yield_now;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// As the library's.
pub struct Lock<T> {
    is_held: AtomicBool,
    value: T,
}

impl<T> Lock<T> {
    /// A free lock.
    pub const fn new(value: T) -> Lock<T> {
        Lock {
            is_held: AtomicBool::new(false),
            value,
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
        &self.0.value
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.is_held.store(false, SeqCst);
    }
}
